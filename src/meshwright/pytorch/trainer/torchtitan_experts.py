"""Torchtitan's own mixture of experts, with tokens dealt evenly and a router in fp32 as its autocast has it on CUDA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.nn import functional
from torchtitan.models.common import Linear
from torchtitan.models.common.config_utils import make_moe_config
from torchtitan.models.common.moe import GroupedExperts, RoutedExperts, TokenChoiceTopKRouter
from torchtitan.models.common.token_dispatcher import AllToAllTokenDispatcher

from meshwright.specs.model import Experts


class Gate(Linear):
    """The router's product in fp32: autocast to fp32, under which torchtitan calls it, does nothing on a CPU."""

    @dataclass(kw_only=True, slots=True)
    class Config(Linear.Config):
        """That of torchtitan."""

    def forward(self, input: Tensor) -> Tensor:
        """Scores of every expert."""
        return functional.linear(input.float(), self.weight.float())


class EvenDispatcher(AllToAllTokenDispatcher):
    """All-to-alls that give every rank as many tokens as any other: fake tensors have no counts to read."""

    @dataclass(kw_only=True, slots=True)
    class Config(AllToAllTokenDispatcher.Config):
        """That of torchtitan."""

    def dispatch(self, x_TD: Tensor, *routed: Tensor) -> Any:  # noqa: N803
        """The tokens of this rank's experts; x_TD: (tokens, hidden)."""
        self._rows = x_TD.shape[0] * self.top_k
        return super().dispatch(x_TD, *routed)

    def _sync_token_count_exchange(
        self,
        num_local_tokens_per_expert_E: Tensor,  # noqa: ARG002, N803
        num_global_tokens_per_local_expert_EP_e: Tensor,  # noqa: N803
        ep_size: int,
    ) -> tuple[Tensor, list[int], list[int]]:
        counts = num_global_tokens_per_local_expert_EP_e
        even = [self._rows // ep_size] * ep_size
        return (counts.to_local() if isinstance(counts, DTensor) else counts).reshape(-1), even, even


def mixture(hidden: int, shape: Experts) -> Any:
    """The configuration of one block of experts."""
    return make_moe_config(
        num_experts=shape.count,
        router=TokenChoiceTopKRouter.Config(
            num_experts=shape.count,
            gate=Gate.Config(in_features=hidden, out_features=shape.count),
            top_k=shape.active,
            score_func="softmax",
            route_norm=True,
        ),
        routed_experts=RoutedExperts.Config(
            inner_experts=GroupedExperts.Config(dim=hidden, hidden_dim=shape.ffn_size, num_experts=shape.count),
            token_dispatcher=EvenDispatcher.Config(num_experts=shape.count, top_k=shape.active),
        ),
    )
