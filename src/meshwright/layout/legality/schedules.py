"""Rules of pipeline schedules: the chunks and micro-batches that they need, and in which groups."""

from __future__ import annotations

from meshwright.arrays import Bools, larger, negated, one_of, where
from meshwright.layout.legality.rule import Ruling, change, changes, invariant, limit, one, restriction
from meshwright.layout.microbatches import group_sizes
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Layout
from meshwright.schedules.records import (
    SCHEDULE_NAMES,
    Schedule,
    by_code,
    grouped,
    splits_backward,
    true_by_code,
    usual_schedule,
)
from meshwright.specs.choices import Recompute
from meshwright.specs.runtime import Runtime

_CHUNKS = by_code(lambda record: 0 if record.chunks == "several" else record.chunks)
"""Chunks of the model that a rank has under each schedule; 0: two or more."""
_LEAST_MICRO_BATCHES = by_code(lambda record: record.least_micro_batches)
_BOTH_WAYS = true_by_code(lambda record: record.placement == "both-ways")


@invariant
def schedule(plan: Layout, runtime: Runtime) -> Ruling:
    """A pipeline's schedule is one that the runtime has."""
    known = runtime.plans.schedules
    codes = [int(code) for code, name in SCHEDULE_NAMES.items() if name in known]
    yield one_of(plan.schedule, codes) | (plan.pp == 1)
    yield (
        f"schedule {SCHEDULE_NAMES[one(plan).schedule]} of pp {plan.pp} is not modelled for {runtime.id}; it has "
        f"{', '.join(known)}; set schedule to {known[0]}"
    )


@invariant
def schedule_chunks(plan: Layout) -> Ruling:
    """vpp 2 or more runs an interleaved schedule, vpp 1 one without chunks, and a V has vpp 2; pp 1 runs 1F1B."""
    chunks = _CHUNKS[plan.schedule]
    fits = (plan.vpp == chunks) | ((chunks == 0) & (plan.vpp > 1))
    yield fits & ((plan.pp > 1) | (plan.schedule <= Schedule.INTERLEAVED))
    plan = one(plan)
    schedule = SCHEDULE_NAMES[plan.schedule]
    if plan.schedule.record.chunks == 2 and plan.pp > 1:
        yield f"{schedule} puts 2 chunks on every rank, but vpp is {plan.vpp}; nearest vpp: 2"
    name = usual_schedule(plan.vpp).record.name
    where = f"vpp {plan.vpp}" if plan.schedule <= Schedule.INTERLEAVED else f"pp {plan.pp} with vpp {plan.vpp}"
    what = "" if plan.schedule <= Schedule.INTERLEAVED else f", not {schedule}"
    yield f"{where} runs the {name} schedule{what}; set schedule to {name}"


@invariant
def schedule_both_ways(plan: Layout) -> Ruling:
    """With DualPipe and DualPipeV there are 2 pp micro-batches or more; with DualPipe pp and they are even."""
    enough = plan.num_microbatches >= _LEAST_MICRO_BATCHES[plan.schedule] * plan.pp
    even = (plan.pp % 2 == 0) & (plan.num_microbatches % 2 == 0)
    yield enough & (negated(_BOTH_WAYS[plan.schedule]) | even)
    plan = one(plan)
    count, stages, name = plan.num_microbatches, plan.pp, SCHEDULE_NAMES[plan.schedule]
    both_ways, least = _BOTH_WAYS[plan.schedule], plan.schedule.record.least_micro_batches
    if both_ways and stages % 2:
        yield f"{name} runs two copies of the model in opposite directions over pp {stages}, which is odd; " + change(
            "pp", stages, [each for each in (stages - 1, stages + 1) if each > 1]
        )
    step = 2 if both_ways else 1
    counts = range(least * stages, max(least * stages, count) + 2 * step, step)
    parity = ", an even number," if step == 2 else ""
    yield f"{name} needs two micro-batches{parity} for each of pp {stages} or more, but there are {count}; " + change(
        "num_microbatches", count, counts
    )


@invariant
def microbatch_groups(plan: Layout, runtime: Runtime) -> Ruling:
    """Interleaved chunks work on groups of micro-batches as the runtime forms them: in pp or more, the last group too,
    or in equal rounds.
    """
    grouping, count = runtime.plans.microbatch_grouping, plan.num_microbatches
    group = where(plan.microbatch_group != 0, plan.microbatch_group, plan.pp)
    if grouping == "rounds":
        fits = count % larger(count // plan.pp, 1) == 0
    else:
        fits = (group >= plan.pp) & (group <= count)
        fits &= (count % group == 0) | (count % group >= plan.pp)
    none = plan.microbatch_group == 0
    yield where(_in_turns(plan), fits & (none | (grouping == "chosen")), none)
    plan, chosen = one(plan), one(plan).microbatch_group
    if chosen and not _in_turns(plan):
        yield f"microbatch_group {chosen} without interleaved chunks; nearest microbatch_group: 0"
    if chosen and grouping != "chosen":
        yield f"microbatch_group {chosen}: {runtime.id} takes no number of its own; nearest microbatch_group: 0"
    yield _rounds(plan) if grouping == "rounds" else _groups(plan, int(group), chosen=grouping == "chosen")


def _in_turns(plan: Layout) -> Bools:
    """Whether every rank takes turns on looped chunks."""
    return (plan.vpp > 1) & grouped(plan.schedule)


def _groups(plan: Plan, group: int, *, chosen: bool) -> str:
    stages, count = plan.pp, plan.num_microbatches
    groups = list(group_sizes(stages, count)) if chosen else []
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


def _rounds(plan: Plan) -> str:
    count, rounds = plan.num_microbatches, plan.num_microbatches // plan.pp
    near = range(max(count - plan.pp, 1), count + plan.pp + 1)
    even = [each for each in near if each % max(each // plan.pp, 1) == 0]
    return (
        f"interleaving runs {count} micro-batches in {count} // pp {plan.pp} = {rounds} equal rounds, which do not "
        f"divide them; {change('num_microbatches', count, even)}, or vpp 1"
    )


@limit
def split_backward_compiled(plan: Layout, runtime: Runtime) -> Ruling:
    """Schedules that split the backward pass run beside compiled layers only where the runtime can do so."""
    apart = runtime.plans.compiles_split_backward or runtime.kernels.elementwise != "fused"
    yield negated(splits_backward(plan.schedule)) | apart
    name, usual = SCHEDULE_NAMES[one(plan).schedule], usual_schedule(one(plan).vpp).record.name
    uncompiled = "compiled=false" if "compiled" in runtime.switches else "elementwise=eager"
    yield (
        f"{name} with vpp {plan.vpp} splits the backward pass, which {runtime.id} cannot do "
        f"with compiled layers; set schedule to {usual}, or leave them uncompiled with --with {uncompiled}"
    )


@restriction
def split_backward_keeps_weights(plan: Layout, runtime: Runtime) -> Ruling:
    """Schedules that split the backward pass need weights that stay gathered (ZeRO 2)."""
    yield negated(splits_backward(plan.schedule)) | (plan.zero != 3)
    name = SCHEDULE_NAMES[one(plan).schedule]
    yield (
        f"{name} splits the backward pass, in which {runtime.id} loses gradients of weights "
        f"that ZeRO 3 has given back; {change('zero', plan.zero, [2])}"
    )


@restriction
def split_backward_keeps_norm(plan: Layout, runtime: Runtime) -> Ruling:
    """Schedules that split the backward pass need a loss in one piece: one in pieces reshards the final norm."""
    yield negated(splits_backward(plan.schedule)) | (runtime.entropy.sequence_pieces == 1)
    yield (
        f"{SCHEDULE_NAMES[one(plan).schedule]} splits the backward pass, in which {runtime.id} loses the gradient of a "
        f"final norm that the loss reshards with the head after {runtime.entropy.sequence_pieces} pieces of the "
        f"sequence; set schedule to {usual_schedule(one(plan).vpp).record.name}, or take the loss whole with "
        "--with cross_entropy=eager"
    )


@restriction
def split_backward_recomputes_nothing(plan: Layout, runtime: Runtime) -> Ruling:
    """Under schedules that split the backward pass nothing is recomputed: what that keeps is not modelled."""
    yield negated(splits_backward(plan.schedule)) | (plan.recompute == Recompute.NONE)
    name, usual = SCHEDULE_NAMES[one(plan).schedule], usual_schedule(one(plan).vpp).record.name
    yield (
        f"{name} with vpp {plan.vpp} splits the backward pass, for which {runtime.id} computes a layer again for each "
        f"group of weights and keeps what it computes; set recompute to none, or schedule to {usual}"
    )


@restriction
def microbatches_fill_stages(plan: Layout, *, spare: int = 0) -> Ruling:
    """With 1F1B there are pp micro-batches or more, less those that the runtime spares."""
    fewest = plan.pp - spare
    alternates = plan.schedule == Schedule.ONE_F_ONE_B
    yield negated(alternates) | (plan.num_microbatches >= fewest)
    yield (
        f"1F1B needs {fewest} micro-batches or more for pp {plan.pp} stages, but there are {plan.num_microbatches}; "
        f"nearest num_microbatches: {fewest}; nearest pp: {plan.num_microbatches + spare}"
    )


@restriction
def interleaving_beyond_two(plan: Layout) -> Ruling:
    """vpp 2 or more, but with a V, needs pp 3 or more."""
    yield negated(_in_turns(plan)) | (plan.pp > 2)
    yield f"vpp {plan.vpp} needs more than 2 stages, but pp is {plan.pp}; nearest pp: 3, or vpp 1"
