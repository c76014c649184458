"""Build: the model that verify runs, and how it is split, wrapped and sharded; the request says which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from torch import nn

from meshwright.pytorch.frameworks import TRANSFORMERS
from meshwright.pytorch.processes.records import Request
from meshwright.pytorch.trainer.data_parallel import shard
from meshwright.pytorch.trainer.experts import MixtureOfExperts
from meshwright.pytorch.trainer.losses import Loss, loss_of
from meshwright.pytorch.trainer.mesh import Meshes, local
from meshwright.pytorch.trainer.model import Decoder
from meshwright.pytorch.trainer.recompute import recompute
from meshwright.pytorch.trainer.split import split_experts, split_sequence, split_tensors


class Parts(NamedTuple):
    """The modules of one chunk between which its backward pass is told apart."""

    layers: list[nn.Module]
    norm: nn.Module | None
    """The last one, where the chunk has the head."""


class Build(NamedTuple):
    """A model and its wrapping; what `scope` refuses is what these cannot make."""

    chunks: Callable[[Request], list[Any]]
    """The rank's chunks of the model, whole: modules from token ids, or what the stage before sends, to logits, or what
    the next stage needs."""
    parallelize: Callable[[Any, Request, Meshes], int]
    """Splits, wraps and shards one chunk in place by every axis of the plan but pp; returns how many parameters the
    rank holds before they are sharded."""
    parts: Callable[[Any], Parts]
    """Of one chunk that is wrapped."""
    loss: Callable[[Request, Sequence[Any]], Loss]
    """Of these chunks of the model, once they are wrapped."""


def _chunks(request: Request) -> list[Decoder]:
    model, job, runtime = request.inputs.model, request.inputs.job, request.inputs.runtime
    ends = request.last_position
    length = job.sequence_length // (request.plan.cp if runtime.activations.rotary_copies == "none" else 1)
    return [
        Decoder(model, kinds, length, runtime, embedding=position == 0, head=position == ends)
        for kinds, position in zip(request.chunks, request.positions, strict=True)
    ]


def _parallelize(decoder: Decoder, request: Request, meshes: Meshes) -> int:
    """In the order that torchtitan does."""
    plan, runtime = request.plan, request.inputs.runtime
    if plan.cp > 1:
        split_sequence(decoder, plan, meshes)
    if plan.tp > 1:
        split_tensors(decoder, meshes.dense["tp"], runtime, sequence=plan.sp)
    for module in [each for each in decoder.modules() if isinstance(each, MixtureOfExperts)]:
        split_experts(module, plan, meshes)
    recompute(decoder, plan, runtime, [kind.attention for kind in request.inputs.model.layer_kinds])
    sizes = {name: local(weight).numel() for name, weight in decoder.named_parameters()}
    if plan.zero > 1:
        shard(decoder, request, meshes)
    decoder.tie()
    return sum(sizes[name] for name, _ in decoder.named_parameters())


BUILD = Build(
    chunks=_chunks,
    parallelize=_parallelize,
    parts=lambda decoder: Parts([*decoder.layers], decoder.norm),
    loss=loss_of,
)
"""A decoder of the trainer's own, wrapped as torchtitan does."""


def build_of(request: Request) -> Build:
    """What the request asks to run: a framework's own model and wrapping, or the trainer's."""
    if not request.framework:
        return BUILD
    if request.framework.startswith(TRANSFORMERS):
        from meshwright.pytorch.trainer import huggingface

        return Build(
            chunks=huggingface.chunks,
            parallelize=huggingface.parallelize,
            parts=lambda causal: Parts([*causal.layers], causal.norm),
            loss=lambda *_: huggingface.own_loss,
        )
    from meshwright.pytorch.trainer import torchtitan as own

    return Build(
        chunks=own.chunks,
        parallelize=own.parallelize,
        parts=lambda decoder: Parts([*decoder.layers.values()], decoder.norm),
        loss=own.loss_of,
    )
