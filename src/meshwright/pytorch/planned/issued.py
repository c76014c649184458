"""Issued: every collective and message that one rank of a stage issues in a step, by the counts that price them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from meshwright.cost.comms.context import context_bytes
from meshwright.cost.comms.pipeline import message_bytes
from meshwright.cost.comms.sharded import gathers_per_step
from meshwright.cost.comms.tensor import ENTROPY_REDUCTIONS, layer_collectives
from meshwright.cost.element import FP32_BYTES, HALF_BYTES
from meshwright.cost.expert_rows import routed_rows
from meshwright.cost.memory.parameters import (
    sharded_end_parameters,
    sharded_expert_parameters,
    sharded_layer_parameters,
)
from meshwright.cost.shard import residual_tokens, tokens
from meshwright.layout.groups import expert_sharding_ranks, sharding_ranks
from meshwright.layout.microbatches import microbatch_group
from meshwright.layout.plan import ContextExchange, Plan, Recompute
from meshwright.pytorch.planned.predicted import PredictedStage
from meshwright.pytorch.processes.observed import Collective
from meshwright.schedules.gathered import chunk_gathers
from meshwright.schedules.records import v_shaped
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind

Issued = tuple[Collective, float]
REDUCTION = {True: "reduce_scatter", False: "all_reduce"}
FORMATS = {2: "bf16", 4: "fp32"}


def issued(plan: Plan, inputs: Inputs, stage: PredictedStage) -> dict[Collective, int]:
    """How often a rank of a stage issues each collective in one step."""
    counted: Counter[Collective] = Counter()
    for part in (_tensor, _sharded, _replicas, _context, _experts, _pipeline):
        for collective, count in part(plan, inputs, stage):
            counted[collective] += round(count)
    return {collective: count for collective, count in counted.items() if count and collective.bytes}


def _half(inputs: Inputs) -> str:
    return inputs.recipe.half


def _tensor(plan: Plan, inputs: Inputs, stage: PredictedStage) -> Iterator[Issued]:
    """Over tp: X at the entry and exit of every region, the cross-entropy's sums, and with sequence parallelism the
    gradients of weights that see a part of the sequence each.
    """
    if plan.tp == 1:
        return
    size, half = HALF_BYTES * int(tokens(plan, inputs)) * inputs.model.hidden_size, _half(inputs)
    times, reduction = plan.num_microbatches, REDUCTION[bool(plan.sp)]

    def of_region(kind: str, phase: str, count: float) -> Issued:
        return Collective("tp", kind, half, size, phase), times * count

    for count, kind in zip(stage.layers, inputs.model.layer_kinds, strict=True):
        layer = layer_collectives(plan, inputs, kind)
        yield of_region("all_gather", "forward", count * int(layer.forward.gathers))
        yield of_region(reduction, "forward", count * int(layer.forward.reductions))
        again, back = layer.recompute, layer.backward
        yield of_region("all_gather", "backward", count * int(back.gathers + layer.regathers + again.gathers))
        yield of_region(reduction, "backward", count * int(back.reductions + again.reductions))
        yield from _partial_gradients(plan, inputs, kind, count)
    if stage.embedding:
        yield of_region(reduction, "forward", 1)
        yield of_region("all_gather", "backward", plan.sp)
    if stage.head:
        yield of_region("all_gather", "forward", plan.sp)
        yield of_region(reduction, "backward", 1)
        sums = FP32_BYTES * int(tokens(plan, inputs))
        yield Collective("tp", "all_reduce", "fp32", sums, "forward"), times * ENTROPY_REDUCTIONS
        yield from _partial(plan, inputs, inputs.model.hidden_size, 1)


def _partial_gradients(plan: Plan, inputs: Inputs, kind: LayerKind, layers: int) -> Iterator[Issued]:
    """Of norms over the hidden size, of query and key norms, and of routers."""
    yield from _partial(plan, inputs, inputs.model.hidden_size, kind.norms * layers)
    if kind.attention.qk_norm == "head":
        yield from _partial(plan, inputs, kind.attention.head_dim, 2 * layers, of_heads=True)
    if kind.is_moe:
        count = kind.feed_forward.count  # type: ignore[union-attr]
        yield from _partial(plan, inputs, count * inputs.model.hidden_size, layers)


def _partial(plan: Plan, inputs: Inputs, elements: int, weights: int, *, of_heads: bool = False) -> Iterator[Issued]:
    """Summed over tp before each reduction, in 2 bytes, or in fp32 where a pipeline defers it.

    of_heads: each rank's part is of its heads, with or without sequence parallelism.
    """
    if not plan.sp and not of_heads:
        return
    deferred = plan.pp > 1 and inputs.runtime.sharding.defers_reduction and plan.num_microbatches > 1
    width, phase = (FP32_BYTES, "pipeline") if deferred else (HALF_BYTES, "backward")
    written = "fp32" if deferred else _half(inputs)
    times = 1 if plan.pp > 1 and inputs.runtime.sharding.defers_reduction else plan.num_microbatches
    yield Collective("tp", "all_reduce", written, width * elements, phase), weights * times


def _sharded(plan: Plan, inputs: Inputs, stage: PredictedStage, *, alone: bool = False) -> Iterator[Issued]:
    """Over the sharding groups: weights of every unit gathered, gradients scattered.

    alone: also what a group of one rank would scatter.
    """
    ranks, holders = int(sharding_ranks(plan)), int(expert_sharding_ranks(plan))
    if plan.zero < 2:
        summed = int(FP32_BYTES * stage.whole.all) if ranks > 1 else 0
        yield Collective("dp", "all_reduce", FORMATS[FP32_BYTES], summed, "backward"), 1
        return
    times = _gathers(plan, inputs, stage)
    for layers, gathers in zip(stage.chunks, times, strict=True):
        for count, kind in zip(layers, inputs.model.layer_kinds, strict=True):
            dense = ranks * sharded_layer_parameters(plan, inputs, kind, ranks)
            routed = holders * sharded_expert_parameters(plan, inputs, kind, holders)
            apart = plan.ep > 1
            parts = [("dp", dense), ("edp", routed)] if apart else [("dp", dense + routed)]
            kept = inputs.runtime.sharding.keeps_last_layer_gathered and kind is inputs.model.layer_kinds[-1]
            each = count * gathers.ahead, count * gathers.forward, (count - kept) * gathers.backward
            for axis, parameters in parts:
                yield from _unit(plan, inputs, axis, parameters, each)
                yield _scattered(plan, inputs, axis, parameters, count * gathers.scatters, alone)
    for parameters, kept, gathers in _end_units(plan, inputs, stage, ranks, times):
        again = (not gathers.ahead, 0) if kept and plan.pp > 1 else (gathers.forward, (not kept) * gathers.backward)
        yield from _unit(plan, inputs, "dp", parameters, (gathers.ahead, *again))
        yield _scattered(plan, inputs, "dp", parameters, gathers.scatters, alone)


class _Gathers(NamedTuple):
    """How often one chunk's weights are gathered and its gradients scattered."""

    ahead: int
    """By the schedule, before its passes."""
    forward: int
    backward: int
    scatters: int


def _gathers(plan: Plan, inputs: Inputs, stage: PredictedStage) -> list[_Gathers]:
    """Of every chunk of a stage."""
    times = gathers_per_step(plan, inputs, stage.live_micro_batches, stage.stage)
    if plan.vpp == 1 or not inputs.runtime.sharding.defers_reduction:
        return [_Gathers(0, int(times.forward), int(times.backward), int(times.scatters))] * len(stage.chunks)
    group, resharded = int(microbatch_group(plan)), plan.zero == 3
    every = chunk_gathers(plan.schedule, plan.pp, plan.vpp, plan.num_microbatches, group, resharded=resharded)
    ahead, forward, backward = (part[:, stage.stage].tolist() for part in every)
    return [_Gathers(*counts, int(times.scatters)) for counts in zip(ahead, forward, backward, strict=True)]


def _end_units(
    plan: Plan, inputs: Inputs, stage: PredictedStage, ranks: int, times: list[_Gathers]
) -> list[tuple[float, bool, _Gathers]]:
    """Parameters of the units that the ends make, as they are gathered, whether they stay so until backward, and how
    often those of their chunks are exchanged.
    """
    ends, runtime = sharded_end_parameters(plan, inputs, ranks), inputs.runtime
    embedding, head = ranks * ends.embedding * stage.embedding, ranks * ends.head * stage.head
    kept = runtime.sharding.keeps_ends_gathered
    tied = inputs.model.tied_embeddings and stage.embedding and stage.head
    if plan.pp == 1 and (not runtime.sharding.ends_apart or tied):
        return [(embedding + head, kept, times[0])]
    units = [(embedding, kept and not runtime.sharding.ends_apart, times[0]), (head, kept, times[-1])]
    return [unit for unit in units if unit[0]]


def _unit(plan: Plan, inputs: Inputs, axis: str, parameters: float, counts: tuple[int, int, int]) -> Iterator[Issued]:
    if _ranks(plan, axis) == 1:
        return
    for phase, count in zip(("pipeline", "forward", "backward"), counts, strict=True):
        yield Collective(axis, "all_gather", _half(inputs), int(HALF_BYTES * parameters), phase), count


def _scattered(plan: Plan, inputs: Inputs, axis: str, parameters: float, count: int, alone: bool) -> Issued:
    width = inputs.gradient_bytes
    written, phase = FORMATS[width] if width == FP32_BYTES else _half(inputs), _reducing(plan, inputs)
    size = int(width * parameters) if alone or _ranks(plan, axis) > 1 else 0
    return Collective(axis, "reduce_scatter", written, size, phase), count


def _reducing(plan: Plan, inputs: Inputs) -> str:
    return "pipeline" if plan.pp > 1 and inputs.runtime.sharding.defers_reduction else "backward"


def _ranks(plan: Plan, axis: str) -> int:
    return int(sharding_ranks(plan) if axis == "dp" else expert_sharding_ranks(plan))


def _replicas(plan: Plan, inputs: Inputs, stage: PredictedStage) -> Iterator[Issued]:
    """Over replicas of the sharding group: the scattered shards, summed."""
    if plan.dp_replicate == 1:
        return
    for collective, count in _sharded(plan, inputs, stage, alone=True):
        if collective.kind == "reduce_scatter":
            size = collective.bytes // _ranks(plan, collective.axis)
            yield collective._replace(axis="dp_replicate", kind="all_reduce", bytes=size), count


def _context(plan: Plan, inputs: Inputs, stage: PredictedStage) -> Iterator[Issued]:
    """Over cp: keys and values round a ring or gathered, in backward again, and their gradients round it."""
    if plan.cp == 1:
        return
    gathers = plan.context_exchange == ContextExchange.ALL_GATHER
    repeats = plan.recompute == Recompute.FULL or (gathers and plan.recompute == Recompute.SELECTIVE)
    half, again = _half(inputs), 2 if repeats else 1
    for count, kind in zip(stage.layers, inputs.model.layer_kinds, strict=True):
        sizes, times = context_bytes(plan, inputs, kind), count * plan.num_microbatches
        local = round(float(sizes.gathered) / plan.cp)
        passed = ("all_gather", local * plan.cp, 1) if gathers else ("all_to_all", local, plan.cp - 1)
        operation, size, steps = passed
        yield Collective("cp", operation, half, size, "forward"), times * steps
        yield Collective("cp", operation, half, size, "backward"), times * steps * again
        yield Collective("cp", "all_to_all", "fp32", 2 * local, "backward"), times * plan.cp


def _experts(plan: Plan, inputs: Inputs, stage: PredictedStage) -> Iterator[Issued]:
    """Over ep: rows to their experts and back, in both directions."""
    if plan.ep == 1:
        return
    half, again = _half(inputs), 2 if plan.recompute == Recompute.FULL else 1
    for count, kind in zip(stage.layers, inputs.model.layer_kinds, strict=True):
        if kind.is_moe:
            rows = routed_rows(plan, inputs, kind, residual_tokens(plan, inputs)).mean
            size, times = int(HALF_BYTES * rows * inputs.model.hidden_size), 2 * count * plan.num_microbatches
            yield Collective("ep", "all_to_all", half, size, "forward"), times
            yield Collective("ep", "all_to_all", half, size, "backward"), times * again


def _pipeline(plan: Plan, inputs: Inputs, stage: PredictedStage) -> Iterator[Issued]:
    """Over pp: activations and gradients of every chunk, sent and received; where a V turns they stay on the rank."""
    if plan.pp == 1:
        return
    size, turns = int(message_bytes(plan, inputs)), v_shaped(plan.schedule) and stage.stage == plan.pp - 1
    messages = plan.num_microbatches * (2 * plan.vpp - stage.embedding - stage.head - 2 * turns)
    for kind in ("receive", "send"):
        yield Collective("pp", kind, _half(inputs), size, "pipeline"), messages
