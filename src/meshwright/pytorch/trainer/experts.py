"""Experts: a router, the exchange of tokens with the ranks that hold their experts, and grouped products.

Tokens are dealt to experts in turn, so that every rank and expert has as many as any other: sizes are then known
without data, and every process of a run routes alike.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributed._functional_collectives import all_to_all_single_autograd
from torch.distributed.tensor import DTensor, Partial
from torch.nn import functional

from meshwright.pytorch.trainer.mesh import local
from meshwright.specs.model import Experts


class Router(nn.Module):
    """Scores of every expert in fp32, and the chosen ones of every token."""

    def __init__(self, hidden: int, shape: Experts) -> None:
        super().__init__()
        self.gate = nn.Linear(hidden, shape.count, bias=shape.router_bias)
        self.count, self.active = shape.count, shape.active
        self.sees_a_part = False
        """Of the tokens of each sequence, so that the gradient of its weight is one of several to sum."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Scores and indices of the chosen experts, (tokens, active) each; x (tokens, hidden)."""
        weight, bias = (None if each is None else self._whole(each) for each in (self.gate.weight, self.gate.bias))
        scores = functional.linear(x.float(), weight, bias).softmax(-1)
        chosen = torch.topk(scores, self.active, dim=-1, sorted=False).indices
        dealt = torch.arange(x.shape[0] * self.active, device=x.device).view(-1, self.active) % self.count
        chosen = dealt.to(chosen.dtype)
        weights = scores.gather(-1, chosen)
        return weights / (weights.sum(-1, keepdim=True) + 1e-20), chosen

    def _whole(self, weight: Tensor) -> Tensor:
        if not isinstance(weight, DTensor):
            return weight.float()
        return weight.to_local(grad_placements=[Partial()] if self.sees_a_part else None).float()


class GroupedExperts(nn.Module):
    """The products of all experts that a rank holds."""

    def __init__(self, hidden: int, shape: Experts) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.empty(shape.count, shape.ffn_size, hidden))
        self.down = nn.Parameter(torch.empty(shape.count, hidden, shape.ffn_size))
        self.up = nn.Parameter(torch.empty(shape.count, shape.ffn_size, hidden))
        for weight in self.parameters():
            nn.init.normal_(weight, std=0.02)

    def forward(self, rows: Tensor, offsets: Tensor) -> Tensor:
        """Rows in the order of their experts; offsets: where those of each expert end."""
        gate, down, up = (local(weight).transpose(-2, -1) for weight in (self.gate, self.down, self.up))
        inner = functional.silu(torch._grouped_mm(rows, gate, offs=offsets))
        inner = inner * torch._grouped_mm(rows, up, offs=offsets)
        return torch._grouped_mm(inner, down, offs=offsets)


class MixtureOfExperts(nn.Module):
    """Routes every token to its experts and sums what they answer, weighed in fp32."""

    def __init__(self, hidden: int, shape: Experts) -> None:
        super().__init__()
        self.router, self.experts, self.shape = Router(hidden, shape), GroupedExperts(hidden, shape), shape
        self.group, self.ranks = None, 1

    def exchange_over(self, group: torch.distributed.ProcessGroup) -> None:
        """The ranks of this group hold an equal share of the experts each."""
        self.group, self.ranks = group, group.size()

    def forward(self, x: Tensor) -> Tensor:
        """(batch, tokens, hidden) both, of this rank's tokens."""
        rows = local(x).reshape(-1, x.shape[-1])
        weights, chosen = self.router(rows)
        order = chosen.view(-1).argsort(stable=True)
        sorted_weights = weights.view(-1)[order]
        source = order // self.shape.active
        answered = self._returned(self._computed(rows[source]))
        answered = (answered.float() * sorted_weights[:, None]).to(rows.dtype)
        index = source[:, None].expand(-1, rows.shape[-1])
        return torch.zeros_like(rows).scatter_add(0, index, answered).view(local(x).shape)

    def _computed(self, rows: Tensor) -> Tensor:
        """What the experts answer to rows of this rank, before they are sent back."""
        local_experts = self.shape.count // self.ranks
        if self.group is not None:
            rows = all_to_all_single_autograd(rows, None, None, self.group)
        each = rows.shape[0] // (local_experts * self.ranks)
        offsets = torch.arange(1, local_experts + 1, device=rows.device, dtype=torch.int32) * (each * self.ranks)
        if self.group is None:
            return self.experts(rows, offsets)
        places = torch.arange(rows.shape[0], device=rows.device)
        by_expert = places.view(self.ranks, local_experts, each).transpose(0, 1).reshape(-1)
        answered = self.experts(rows[by_expert], offsets)
        by_rank = torch.empty_like(answered)
        by_rank[by_expert] = answered
        return by_rank

    def _returned(self, rows: Tensor) -> Tensor:
        return rows if self.group is None else all_to_all_single_autograd(rows, None, None, self.group)
