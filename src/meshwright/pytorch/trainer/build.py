"""Build: the chunks of one rank as decoders that are split, wrapped and sharded as the plan says."""

from __future__ import annotations

from torch.distributed.tensor import DTensor

from meshwright.pytorch.processes.request import Request
from meshwright.pytorch.trainer.context import split_sequence
from meshwright.pytorch.trainer.experts import MixtureOfExperts
from meshwright.pytorch.trainer.mesh import Meshes
from meshwright.pytorch.trainer.model import Decoder
from meshwright.pytorch.trainer.place_experts import split_experts
from meshwright.pytorch.trainer.recompute import recompute
from meshwright.pytorch.trainer.sharded import shard
from meshwright.pytorch.trainer.tensor import split_tensors


def bare_chunks(request: Request) -> list[Decoder]:
    """The decoders of the rank's chunks, whole."""
    model, length = request.inputs.model, request.inputs.job.sequence_length // request.plan.cp
    ends = request.last_position
    return [
        Decoder(model, kinds, length, embedding=position == 0, head=position == ends)
        for kinds, position in zip(request.chunks, request.positions, strict=True)
    ]


def parallelize(decoder: Decoder, request: Request, meshes: Meshes) -> int:
    """Split one chunk by every axis of the plan but pp, in the order that torchtitan does.

    Returns how many parameters the rank holds before they are sharded.
    """
    plan = request.plan
    if plan.cp > 1:
        split_sequence(decoder, plan, meshes)
    if plan.tp > 1:
        split_tensors(decoder, meshes.dense["tp"], sequence=plan.sp)
    for module in [each for each in decoder.modules() if isinstance(each, MixtureOfExperts)]:
        split_experts(module, plan, meshes)
    held = sum(
        weight.to_local().numel() if isinstance(weight, DTensor) else weight.numel() for weight in decoder.parameters()
    )
    recompute(decoder, plan, request.inputs.runtime)
    if plan.zero > 1:
        shard(decoder, request, meshes)
    return held
