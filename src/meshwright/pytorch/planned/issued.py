"""Issued: every collective and message that one rank of a stage issues in a step on PyTorch, by what is priced."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from meshwright.cost.comms.context import THEIR_GRADIENTS
from meshwright.cost.comms.data import GRADIENTS, shard_messages
from meshwright.cost.comms.ends import ENTROPY_SUMS
from meshwright.cost.comms.expert_counts import COUNTS
from meshwright.cost.comms.group import axis_group
from meshwright.cost.comms.pipeline import message_bytes
from meshwright.cost.comms.sharded import end_gathers, gathers_per_step
from meshwright.cost.memory.adapter_parameters import gathered_adapter_parameters
from meshwright.cost.memory.parameters import (
    gathered_end_parameters,
    gathered_layer_parameters,
    parted_embedding_parameters,
)
from meshwright.cost.messages import MessageRow
from meshwright.layout.groups import sharding_ranks
from meshwright.layout.microbatches import pipeline_shape
from meshwright.layout.plan import Plan
from meshwright.pytorch.planned.predicted import PredictedStage
from meshwright.pytorch.processes.records import Collective
from meshwright.schedules.gathered import chunk_gathers
from meshwright.schedules.records import v_shaped
from meshwright.specs.choices import ContextExchange
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind
from meshwright.specs.precision import FP32_BYTES, HALF_BYTES

Issued = tuple[Collective, float]
NAMES = {"dp_shard": "dp", "edp_shard": "edp", "edp_replicate": "dp_replicate"}
"""What the trainer calls an axis, where the planner has another name for it."""


def issued(plan: Plan, inputs: Inputs, stage: PredictedStage, *, token_counts: bool = False) -> dict[Collective, int]:
    """How often a rank of a stage issues each collective in one step.

    token_counts: ranks of ep tell each other how many tokens of each expert they send.
    """
    counted: dict[Collective, float] = defaultdict(float)
    others = (part(plan, inputs, stage) for part in (_partial_gradients, _weights, _pipeline))
    for collective, count in chain(_passes(plan, inputs, stage, token_counts=token_counts), *others):
        counted[collective] += count
    return {collective: round(count) for collective, count in counted.items() if round(count) and collective.bytes}


def _passes(plan: Plan, inputs: Inputs, stage: PredictedStage, *, token_counts: bool) -> Iterator[Issued]:
    """Over tp, cp and ep: the messages of the passes as they are priced."""
    for row in stage.messages:
        phase = "forward" if row.phase == "forward" else "backward"
        if row.content == COUNTS:
            counts = Collective(row.axis, row.operation, number_format="int64", bytes=round(row.bytes), phase=phase)
            yield counts, row.times * token_counts
        elif row.part == "cp":
            yield from _context(plan, inputs, row, phase)
        else:
            full = row.content == ENTROPY_SUMS
            yield _collective(inputs, row.axis, row.operation, row.bytes, phase, full=full), row.times


def _collective(inputs: Inputs, axis: str, kind: str, size: float, phase: str, *, full: bool = False) -> Collective:
    """A collective of `size` bytes in half precision, or in fp32."""
    written = "fp32" if full else inputs.recipe.half
    return Collective(axis=axis, kind=kind, number_format=written, bytes=round(size), phase=phase)


def _context(plan: Plan, inputs: Inputs, row: MessageRow, phase: str) -> Iterator[Issued]:
    """PyTorch passes a ring on by all-to-alls, also the gradients in fp32 of what it gathered."""
    gathers = plan.context_exchange == ContextExchange.ALL_GATHER
    if row.content == THEIR_GRADIENTS:
        local = row.bytes * HALF_BYTES / plan.cp if gathers else row.bytes
        yield _collective(inputs, "cp", "all_to_all", local, phase, full=True), row.units * plan.cp
        return
    operation = "all_gather" if gathers else "all_to_all"
    yield _collective(inputs, "cp", operation, row.bytes, phase), row.times


def _partial_gradients(plan: Plan, inputs: Inputs, stage: PredictedStage) -> Iterator[Issued]:
    """Over tp, and too small to price: gradients of weights that see a part of the sequence or of the heads each, of
    norms over the hidden size, of query and key norms, and of routers.
    """
    if plan.tp == 1:
        return
    hidden, full = inputs.model.hidden_size, _casts_deferred(plan, stage)
    for layers, cast in zip(stage.chunks, full, strict=True):
        for count, kind in zip(layers, inputs.model.layer_kinds, strict=True):
            yield from _partial(plan, inputs, hidden, kind.norms * count, cast)
            if kind.attention.qk_norm == "head":
                yield from _partial(plan, inputs, kind.attention.head_dim, 2 * count, cast, of_heads=True)
            if kind.is_moe:
                yield from _partial(plan, inputs, kind.feed_forward.count * hidden, count, cast)  # type: ignore[union-attr]
    yield from _partial(plan, inputs, hidden, int(stage.head), full[-1])
    if stage.head and _reduces_in_loss(plan, inputs):
        along = plan.num_microbatches - _before_backward(plan, stage)
        yield from (
            (each._replace(phase="forward"), along * times)
            for each, times in _partial(plan, inputs, hidden, 1, full[-1])
        )


def _casts_deferred(plan: Plan, stage: PredictedStage) -> list[bool]:
    """Of every chunk, whether gradients that wait for their reduction are cast to fp32: in the first pass behind the
    one that made them, which the weight's half of a backward is not. Source: torch 2.13 distributed/fsdp/_fully_shard,
    FSDPParamGroup.post_backward.
    """
    if plan.pp == 1:
        return [plan.num_microbatches > 1]
    actions = plan.schedule.record.actions(pipeline_shape(plan))[stage.stage]
    made, cast = [False] * len(stage.chunks), [False] * len(stage.chunks)
    for action in actions:
        chunk = action.chunk
        made[chunk] |= action.kind in ("backward", "weight_gradient")
        cast[chunk] |= made[chunk] and action.kind in ("backward", "input_gradient")
    return [each and plan.num_microbatches > 1 for each in cast]


def _reduces_in_loss(plan: Plan, inputs: Inputs) -> bool:
    """Whether losses in pieces reduce the final norm's gradients, which a pipeline defers, along with the head's."""
    runtime = inputs.runtime
    return runtime.entropy.sequence_pieces > 1 and plan.pp > 1 and runtime.sharding.defers_reduction


def _partial(
    plan: Plan, inputs: Inputs, elements: int, weights: int, cast: bool, *, of_heads: bool = False
) -> Iterator[Issued]:
    """Summed over tp before each reduction, in 2 bytes, or in fp32 where that waits for the last micro-batch and they
    have been cast.

    of_heads: each rank's part is of its heads, with or without sequence parallelism.
    """
    if not plan.sp and not of_heads:
        return
    sharding, several = inputs.runtime.sharding, plan.num_microbatches > 1
    deferred = sharding.defers_reduction if plan.pp > 1 else sharding.accumulates_whole
    phase = "pipeline" if deferred and plan.pp > 1 and several else "backward"
    full, times = deferred and cast and inputs.gradient_bytes == FP32_BYTES, 1 if deferred else plan.num_microbatches
    width = FP32_BYTES if full else HALF_BYTES
    yield _collective(inputs, "tp", "all_reduce", width * elements, phase, full=full), weights * times


class _Gathers(NamedTuple):
    """How often one chunk's weights are gathered and its gradients scattered."""

    ahead: int
    """By the schedule, before its passes."""
    forward: int
    backward: int
    scatters: int


def _weights(plan: Plan, inputs: Inputs, stage: PredictedStage) -> Iterator[Issued]:
    """Over the sharding groups: weights of every unit gathered, gradients scattered and summed over replicas."""
    ranks = int(sharding_ranks(plan))
    if plan.zero < 2:
        width = inputs.runtime.storage.weight_bytes
        reduced = stage.trained_parameters if inputs.freezes_weights else stage.whole_parameters
        summed = width * reduced if ranks > 1 else 0.0
        yield _collective(inputs, "dp", "all_reduce", summed, "backward", full=width == FP32_BYTES), 1
        return
    every = _gathers(plan, inputs, stage)
    for layers, times in zip(stage.chunks, every, strict=True):
        for count, kind in zip(layers, inputs.model.layer_kinds, strict=True):
            dense, routed = map(float, gathered_layer_parameters(plan, inputs, kind))
            parameters = (dense, routed) if plan.ep > 1 else (dense + routed, 0.0)
            adapters = float(gathered_adapter_parameters(plan, inputs, kind))
            every_layer = _of_layers(plan, count, kind, inputs, times)
            yield from _unit(plan, inputs, parameters, every_layer, adapters=adapters)
    units = _end_units(plan, inputs, stage, ranks, every)
    for place, (ends, stays, times) in enumerate(units, 1):
        if stage.head and place == len(units) and inputs.runtime.entropy.sequence_pieces > 1:
            yield from _head_in_pieces(plan, inputs, stage, ends)
            continue
        once = not times.ahead, 0
        forward, backward = once if stays and plan.pp > 1 else (times.forward, (not stays) * times.backward)
        yield from _unit(plan, inputs, (ends, 0), times._replace(forward=forward, backward=backward))


def _of_layers(plan: Plan, count: int, kind: LayerKind, inputs: Inputs, times: _Gathers) -> _Gathers:
    """Of some layers of a kind, the last of which may stay gathered."""
    last = plan.pp == 1 and kind is inputs.model.layer_kinds[-1]
    stays = inputs.runtime.sharding.keeps_last_layer_gathered and last
    return _Gathers(*(count * each for each in times))._replace(backward=(count - stays) * times.backward)


def _gathers(plan: Plan, inputs: Inputs, stage: PredictedStage) -> list[_Gathers]:
    """Of every chunk of a stage."""
    times = gathers_per_step(plan, inputs, stage.live_micro_batches, stage.stage)
    if plan.vpp == 1 or not inputs.runtime.sharding.defers_reduction:
        once = _Gathers(ahead=0, forward=int(times.forward), backward=int(times.backward), scatters=int(times.scatters))
        return [once] * len(stage.chunks)
    every = chunk_gathers(plan.schedule, pipeline_shape(plan), resharded=plan.zero == 3)
    columns = [*(part[:, stage.stage].tolist() for part in every), [int(times.scatters)] * plan.vpp]
    return [_Gathers(*counts) for counts in zip(*columns, strict=True)]


def _end_units(
    plan: Plan, inputs: Inputs, stage: PredictedStage, ranks: int, times: list[_Gathers]
) -> list[tuple[float, bool, _Gathers]]:
    """Parameters of the units that the ends make, as they are gathered, whether they stay so until backward, and how
    often those of their chunks are exchanged.
    """
    ends, sharding = gathered_end_parameters(plan, inputs), inputs.runtime.sharding
    root, embedding = (float(each) * stage.embedding for each in (ends.root, ends.embedding))
    head = float(ends.head) * stage.head
    apart = inputs.gathers_ends_apart
    stays = sharding.keeps_pipelined_ends_gathered if plan.pp > 1 else sharding.keeps_ends_gathered
    if plan.pp == 1 and not apart:
        parted = ranks * float(parted_embedding_parameters(plan, inputs, ranks))
        units = [(root, stays, times[0]), (embedding + head + parted, stays, times[0])]
        return [unit for unit in units if unit[0]]
    units = [(root, stays, times[0]), (embedding, stays and not apart, times[0]), (head, stays, times[-1])]
    return [unit for unit in units if unit[0]]


def _head_in_pieces(plan: Plan, inputs: Inputs, stage: PredictedStage, parameters: float) -> Iterator[Issued]:
    """Of the unit with the head, where the loss goes piece by piece and reduces the head's gradients.

    Those of the final norm are reduced on their own, and of a tied embedding once more with the head's. Under a
    pipeline they wait, and go along with the head's once there are any. parameters: of the unit, as they are padded.
    """
    count, ranks = plan.num_microbatches, int(sharding_ranks(plan))
    deferred = plan.pp > 1 and inputs.runtime.sharding.defers_reduction
    loss = round(float(end_gathers(plan, inputs, stage.live_micro_batches, stage.stage).loss))
    times = _gathers(replace(plan, zero=3), inputs, stage)[-1]
    yield from _unit(plan, inputs, (parameters, 0), times._replace(forward=times.forward + loss, scatters=0))
    _, embedding, head = map(float, gathered_end_parameters(plan, inputs))
    head = embedding if inputs.model.tied_embeddings else head - ranks * -(-inputs.model.hidden_size // ranks)
    alone = _before_backward(plan, stage) if deferred else count
    left = parameters if inputs.model.tied_embeddings and plan.tp == 1 else parameters - head
    none = times._replace(ahead=0, forward=0, backward=0)
    yield from _unit(plan, inputs, (head, 0), none._replace(scatters=alone), "forward")
    yield from _unit(plan, inputs, (parameters, 0), none._replace(scatters=count - alone), "forward")
    yield from _unit(plan, inputs, (left, 0), none._replace(scatters=1 if deferred else count))


def _before_backward(plan: Plan, stage: PredictedStage) -> int:
    """Forward passes of a stage's last chunk before its first backward."""
    actions = plan.schedule.record.actions(pipeline_shape(plan))[stage.stage]
    kinds = [action.kind for action in actions if action.chunk == plan.vpp - 1]
    return next(place for place, kind in enumerate(kinds) if kind != "forward")


def _unit(
    plan: Plan,
    inputs: Inputs,
    parameters: tuple[float, float],
    times: _Gathers,
    phase: str = "",
    adapters: float = 0.0,
) -> Iterator[Issued]:
    """What is exchanged of some units; parameters: of each, all but routed experts and these, as they are padded;
    phase: in which gradients are reduced, if not as usual; adapters: of the first parameters, those of adapters.
    """
    reducing = "pipeline" if plan.pp > 1 and inputs.runtime.sharding.defers_reduction else "backward"
    gather, scatter = shard_messages(plan, inputs, *parameters, adapters=adapters)
    scatter = scatter if adapters or not inputs.freezes_weights else ()
    phases = (("pipeline", times.ahead), ("forward", times.forward), ("backward", times.backward))
    counted = [(each, phase, count) for each in gather for phase, count in phases]
    counted += [(each, phase or reducing, times.scatters) for each in scatter]
    for each, phase, count in counted:
        if axis_group(each.axis, plan, inputs).ranks > 1:
            axis = NAMES.get(each.axis, each.axis)
            full = each.content == GRADIENTS and inputs.gradient_bytes == FP32_BYTES
            yield _collective(inputs, axis, each.operation, float(each.bytes), phase, full=full), count


def _pipeline(plan: Plan, inputs: Inputs, stage: PredictedStage) -> Iterator[Issued]:
    """Over pp: activations and gradients of every chunk, sent and received; where a V turns they stay on the rank."""
    if plan.pp == 1:
        return
    size, turns = float(message_bytes(plan, inputs)), bool(v_shaped(plan.schedule)) and stage.stage == plan.pp - 1
    messages = plan.num_microbatches * (2 * plan.vpp - stage.embedding - stage.head - 2 * turns)
    for kind in ("receive", "send"):
        yield _collective(inputs, "pp", kind, size, "pipeline"), messages
