"""Rules of pipeline schedules: the chunks and micro-batches that they need, and in which groups."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import Bools, Ints
from meshwright.layout.legality.rule import Rule, change, changes
from meshwright.layout.microbatches import group_sizes
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Layout
from meshwright.schedules.records import SCHEDULE_NAMES, Schedule, by_code, grouped, splits_backward, usual_schedule
from meshwright.specs.inputs import Inputs

_CHUNKS = by_code(lambda record: 0 if record.chunks == "several" else record.chunks)
"""Chunks of the model that a rank has under each schedule; 0: two or more."""
_LEAST_MICRO_BATCHES = by_code(lambda record: record.least_micro_batches)
_BOTH_WAYS = by_code(lambda record: record.placement == "both-ways")


def _schedule(plan: Layout, inputs: Inputs) -> Bools:  # noqa: ARG001
    chunks = _CHUNKS[plan.schedule]
    fits = np.where(chunks > 0, np.equal(plan.vpp, chunks), np.greater(plan.vpp, 1))
    return fits & (np.greater(plan.pp, 1) | np.less_equal(plan.schedule, Schedule.INTERLEAVED))


def _schedule_reason(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    given = SCHEDULE_NAMES[plan.schedule]
    if plan.schedule.record.chunks == 2 and plan.pp > 1:
        return f"{given} puts 2 chunks on every rank, but vpp is {plan.vpp}; nearest vpp: 2"
    name = usual_schedule(plan.vpp).record.name
    where = f"vpp {plan.vpp}" if plan.schedule <= Schedule.INTERLEAVED else f"pp {plan.pp} with vpp {plan.vpp}"
    what = "" if plan.schedule <= Schedule.INTERLEAVED else f", not {given}"
    return f"{where} runs the {name} schedule{what}; set schedule to {name}"


def _both_ways(plan: Layout, inputs: Inputs) -> Bools:  # noqa: ARG001
    enough = np.greater_equal(plan.num_microbatches, _LEAST_MICRO_BATCHES[plan.schedule] * plan.pp)
    even = np.equal(plan.pp % 2, 0) & np.equal(plan.num_microbatches % 2, 0)
    return enough & (np.logical_not(_BOTH_WAYS[plan.schedule]) | even)


def _both_ways_reason(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    count, stages, name = plan.num_microbatches, plan.pp, SCHEDULE_NAMES[plan.schedule]
    both_ways, least = _BOTH_WAYS[plan.schedule], plan.schedule.record.least_micro_batches
    if both_ways and stages % 2:
        return f"{name} runs two copies of the model in opposite directions over pp {stages}, which is odd; " + change(
            "pp", stages, [each for each in (stages - 1, stages + 1) if each > 1]
        )
    step = 2 if both_ways else 1
    counts = range(least * stages, max(least * stages, count) + 2 * step, step)
    parity = ", an even number," if step == 2 else ""
    return f"{name} needs two micro-batches{parity} for each of pp {stages} or more, but there are {count}; " + change(
        "num_microbatches", count, counts
    )


def _uncompiled(plan: Layout, inputs: Inputs) -> Bools:
    return np.logical_not(splits_backward(plan.schedule)) | (inputs.runtime.kernels.elementwise != "fused")


def _uncompiled_reason(plan: Plan, inputs: Inputs) -> str:
    name = usual_schedule(plan.vpp).record.name
    return (
        f"{SCHEDULE_NAMES[plan.schedule]} with vpp {plan.vpp} splits the backward pass, which {inputs.runtime.id} "
        f"cannot do with compiled layers; set schedule to {name}, or leave them uncompiled with elementwise=eager"
    )


def _weights_stay(plan: Layout, inputs: Inputs) -> Bools:  # noqa: ARG001
    return np.logical_not(splits_backward(plan.schedule)) | np.not_equal(plan.zero, 3)


def _weights_stay_reason(plan: Plan, inputs: Inputs) -> str:
    return (
        f"{SCHEDULE_NAMES[plan.schedule]} splits the backward pass, in which {inputs.runtime.id} loses gradients of "
        f"weights that ZeRO 3 has given back; {change('zero', plan.zero, [2])}"
    )


def _fill(plan: Layout, inputs: Inputs) -> Bools:  # noqa: ARG001
    alternates = np.equal(plan.schedule, Schedule.ONE_F_ONE_B)
    return np.logical_not(alternates) | np.greater_equal(plan.num_microbatches, plan.pp)


def _fill_reason(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    return (
        f"1F1B needs a micro-batch for each of the pp {plan.pp} stages, but there are {plan.num_microbatches}; "
        f"nearest num_microbatches: {plan.pp}; nearest pp: {plan.num_microbatches}"
    )


def _warm_up(plan: Layout, inputs: Inputs) -> Bools:  # noqa: ARG001
    alternates = np.equal(plan.schedule, Schedule.ONE_F_ONE_B)
    return np.logical_not(alternates) | np.greater_equal(plan.num_microbatches, plan.pp - 1)


def _warm_up_reason(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    return (
        f"1F1B warms up with pp {plan.pp} - 1 micro-batches, but there are {plan.num_microbatches}; "
        f"nearest num_microbatches: {plan.pp - 1}; nearest pp: {plan.num_microbatches + 1}"
    )


def _rounds(plan: Layout, inputs: Inputs) -> Bools:  # noqa: ARG001
    rounds = np.maximum(plan.num_microbatches // plan.pp, 1)
    return np.logical_not(_in_turns(plan)) | (plan.num_microbatches % rounds == 0)


def _rounds_reason(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    count, rounds = plan.num_microbatches, plan.num_microbatches // plan.pp
    near = range(max(count - plan.pp, 1), count + plan.pp + 1)
    even = [each for each in near if each % max(each // plan.pp, 1) == 0]
    return (
        f"interleaving runs {count} micro-batches in {count} // pp {plan.pp} = {rounds} equal rounds, which do not "
        f"divide them; {change('num_microbatches', count, even)}, or vpp 1"
    )


def _beyond_two(plan: Layout, inputs: Inputs) -> Bools:  # noqa: ARG001
    return np.logical_not(_in_turns(plan)) | np.greater(plan.pp, 2)


def _beyond_two_reason(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    return f"vpp {plan.vpp} needs more than 2 stages, but pp is {plan.pp}; nearest pp: 3, or vpp 1"


def _untied(plan: Layout, inputs: Inputs) -> Bools:
    return np.equal(plan.pp, 1) | (not inputs.model.tied_embeddings)


def _untied_reason(plan: Plan, inputs: Inputs) -> str:
    return (
        f"{inputs.model.name} ties its head to the embedding, and {inputs.runtime.id} keeps no copy for the last "
        f"of pp {plan.pp} stages; nearest pp: 1"
    )


def _microbatch_groups(plan: Layout, inputs: Inputs) -> Bools:  # noqa: ARG001
    group, count = _group(plan), plan.num_microbatches
    held = np.greater_equal(group, plan.pp) & np.less_equal(group, count)
    last = np.equal(count % group, 0) | np.greater_equal(count % group, plan.pp)
    return np.where(_in_turns(plan), held & last, np.equal(plan.microbatch_group, 0))


def _in_turns(plan: Layout) -> Bools:
    """Whether every rank takes turns on looped chunks."""
    return np.greater(plan.vpp, 1) & grouped(plan.schedule)


def _group(plan: Layout) -> Ints:
    """Micro-batches of a group: as many as stages, unless told."""
    return np.where(np.not_equal(plan.microbatch_group, 0), plan.microbatch_group, plan.pp)


def _microbatch_groups_reason(plan: Plan, inputs: Inputs) -> str:
    if not _in_turns(plan):
        return f"microbatch_group {plan.microbatch_group} without interleaved chunks; nearest microbatch_group: 0"
    stages, group, count = plan.pp, int(_group(plan)), plan.num_microbatches
    fixed = inputs.runtime.plans.microbatch_grouping != "chosen"
    groups = [] if fixed else list(group_sizes(stages, count))
    counts = [size for size in range(group, count + 2 * group) if not 0 < size % group < stages]
    return (
        f"interleaving works on groups of {group} micro-batches, of which each, and the last one too, has pp "
        f"{stages} or more, but there are {count}; "
        + changes(
            change("microbatch_group", group, groups),
            change("num_microbatches", count, counts if group >= stages else []),
            "or vpp 1",
        )
    )


RULES = (
    Rule("schedule", _schedule, _schedule_reason),
    Rule("schedule_both_ways", _both_ways, _both_ways_reason),
    Rule("split_backward_uncompiled", _uncompiled, _uncompiled_reason),
    Rule("split_backward_keeps_weights", _weights_stay, _weights_stay_reason),
    Rule("microbatches_fill_stages", _fill, _fill_reason),
    Rule("microbatches_warm_up", _warm_up, _warm_up_reason),
    Rule("microbatch_rounds", _rounds, _rounds_reason),
    Rule("interleaving_beyond_two", _beyond_two, _beyond_two_reason),
    Rule("microbatch_groups", _microbatch_groups, _microbatch_groups_reason),
    Rule("untied_pipeline", _untied, _untied_reason),
)
