"""Counts the parameters that ranks hold of megatron-core's own GPTModel, in one process and on no device.

Standard input: a JSON list of cases, each the arguments of `counts`; standard output: the list of its answers. Torch is
imported by functions alone, so that this file can be collected where there is none.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

EXPERTS = ".experts."
"""In the names of routed experts, and of no other weight: shared ones are `.shared_experts.`."""


def counts(
    config: dict[str, Any], model: dict[str, Any], mesh: dict[str, int | None], world_size: int
) -> list[tuple[int, int]]:
    """Parameters outside and inside of routed experts on the first rank of every pipeline stage.

    config: keywords of `TransformerConfig`; model: of `GPTModel`; mesh: of `initialize_model_parallel`, which are
    fields of `TransformerConfig` too; world_size: ranks.
    """
    stages = mesh["pipeline_model_parallel_size"]
    chunks = mesh["virtual_pipeline_model_parallel_size"]
    held = []
    for stage in range(stages):
        with _one_rank(stage * world_size // stages, world_size, mesh):
            held.append(_held(config | mesh, model, range(chunks) if chunks else [None]))
    return held


@contextmanager
def _one_rank(rank: int, world_size: int, mesh: dict[str, int | None]) -> Iterator[None]:
    """This process as one rank of a job whose collectives do nothing, its tensors on no device."""
    import torch
    from megatron.core import parallel_state
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world_size)
    parallel_state.initialize_model_parallel(**mesh, create_gloo_process_groups=False)
    with torch.device("meta"):
        yield
    parallel_state.destroy_model_parallel()
    torch.distributed.destroy_process_group()


def _held(config: dict[str, Any], model: dict[str, Any], chunks: range | list[None]) -> tuple[int, int]:
    """Parameters outside and inside of routed experts in the chunks of this rank."""
    weights = [weight for chunk in chunks for weight in _chunk(config, model, chunk).named_parameters()]
    experts = sum(weight.numel() for name, weight in weights if EXPERTS in name)
    return sum(weight.numel() for _, weight in weights) - experts, experts


def _chunk(config: dict[str, Any], model: dict[str, Any], vp_stage: int | None) -> Any:
    """The model that Megatron-LM builds for one chunk, of layers that need no Transformer Engine."""
    import torch
    from megatron.core import parallel_state
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec
    from megatron.core.models.gpt.gpt_model import GPTModel
    from megatron.core.transformer.transformer_config import TransformerConfig

    whole = TransformerConfig(**config, pipeline_dtype=torch.bfloat16, perform_initialization=False)
    return GPTModel(
        whole,
        get_gpt_decoder_block_spec(whole, False, normalization=whole.normalization, vp_stage=vp_stage),
        pre_process=parallel_state.is_pipeline_first_stage(ignore_virtual=False, vp_stage=vp_stage),
        post_process=parallel_state.is_pipeline_last_stage(ignore_virtual=False, vp_stage=vp_stage),
        vp_stage=vp_stage,
        **model,
    )


def _without_cuda() -> None:
    """Lets what megatron-core puts on the current CUDA device be on none."""
    import torch

    torch.cuda.current_device = lambda: "meta"
    torch.Tensor.cuda = lambda tensor: tensor


def main() -> None:
    """Answers the cases of standard input."""
    cases = json.load(sys.stdin)
    with redirect_stdout(sys.stderr):
        _without_cuda()
        answers = [counts(**case) for case in cases]
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
