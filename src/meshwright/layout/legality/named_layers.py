"""Rules of the numbers of layers that a plan itself names, for the ends of a pipeline or for every chunk."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from meshwright.arrays import Bools, larger, negated, smaller, where
from meshwright.layout.legality.rule import Ruling, invariant, one
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Layout, of_chunks
from meshwright.layout.splits import outer_fewer
from meshwright.specs.model import Model
from meshwright.specs.runtime import Runtime


def named_layers(plan: Layout) -> Bools:
    """Whether a plan names numbers of layers; scalar or array (n,)."""
    return negated(_no_ends(plan)) | (of_chunks(plan, len) > 0)


def numbers_of(plan: Plan) -> str:
    """The numbers of layers that a plan names, for a message.

    >>> numbers_of(Plan(pp=2, chunk_layers=(4, 3)))
    '4,3'
    """
    return ",".join(map(str, plan.chunk_layers or (plan.first_stage_layers, plan.last_stage_layers)))


@invariant
def end_stage_layers(plan: Layout, model: Model, runtime: Runtime) -> Ruling:
    """Layers named for the first or the last stage, where the runtime takes them, and what they leave to each other
    stage divide by vpp.
    """
    yield _no_ends(plan) | (_ends_fill(plan, model.num_layers) & runtime.plans.takes_end_stage_layers)
    plan, layers = one(plan), model.num_layers
    first, last = plan.first_stage_layers, plan.last_stage_layers
    asked = f"first_stage_layers {first} and last_stage_layers {last}"
    if not runtime.plans.takes_end_stage_layers:
        yield f"{asked}: {runtime.id} takes no such numbers; nearest first_stage_layers: 0 and last_stage_layers: 0"
    if plan.chunk_layers or plan.pp == 1:
        where = f"beside chunk_layers {numbers_of(plan)}" if plan.chunk_layers else "with pp 1"
        yield f"{asked} mean nothing {where}; name no end_stage_layers"
    near = min(_end_choices(plan, layers), key=lambda ends: abs(ends[0] - first) + abs(ends[1] - last), default=(0, 0))
    yield (
        f"{asked} of {layers} layers: each, and what they leave to each of the other stages of pp {plan.pp}, is one or "
        f"more and divides by vpp {plan.vpp}; nearest first_stage_layers: {near[0]} with last_stage_layers: {near[1]}"
    )


def _no_ends(plan: Layout) -> Bools:
    return (plan.first_stage_layers == 0) & (plan.last_stage_layers == 0)


def _ends_fill(plan: Layout, layers: int) -> Bools:
    first, last = plan.first_stage_layers, plan.last_stage_layers
    between = plan.pp - (first > 0) - (last > 0)
    rest, share = layers - first - last, larger(between, 1) * plan.vpp
    filled = where(between > 0, (rest > 0) & (rest % share == 0), rest == 0)
    alike = (first % plan.vpp == 0) & (last % plan.vpp == 0) & (smaller(first, last) >= 0)
    return filled & alike & (of_chunks(plan, len) == 0) & (plan.pp > 1)


def _end_choices(plan: Plan, layers: int) -> list[tuple[int, int]]:
    """Legal numbers of layers for the ends that this plan names."""
    counts = range(plan.vpp, layers, plan.vpp)
    ends = product(counts if plan.first_stage_layers else (0,), counts if plan.last_stage_layers else (0,))
    plans = ((pair, replace(plan, first_stage_layers=pair[0], last_stage_layers=pair[1])) for pair in ends)
    return [pair for pair, choice in plans if _ends_fill(choice, layers)]


@invariant
def chunk_layers(plan: Layout, model: Model, runtime: Runtime) -> Ruling:
    """Layers named for the chunks, where the runtime takes them: one number for each of pp x vpp, which add up to the
    model.
    """
    count = of_chunks(plan, len)
    fits = (count == plan.pp * plan.vpp) & (of_chunks(plan, sum) == model.num_layers)
    positive = of_chunks(plan, lambda sizes: min(sizes, default=0)) >= 0
    yield (count == 0) | (fits & positive & (plan.pp > 1) & runtime.plans.takes_chunk_layers)
    plan, layers = one(plan), model.num_layers
    sizes, chunks = plan.chunk_layers, plan.pp * plan.vpp
    if not runtime.plans.takes_chunk_layers:
        yield f"chunk_layers {numbers_of(plan)}: {runtime.id} splits the layers itself; name no chunk_layers"
    if plan.pp == 1:
        yield f"chunk_layers {numbers_of(plan)} with pp 1, where one rank holds all layers; name no chunk_layers"
    wanted = ",".join(map(str, outer_fewer(layers, chunks))) if layers >= chunks else ""
    yield (
        f"chunk_layers names {sum(sizes)} layers for {len(sizes)} chunks, the smallest {min(sizes)}; it takes {layers} "
        f"layers for pp {plan.pp} x vpp {plan.vpp} = {chunks} chunks, none below 0; "
        + (f"nearest chunk_layers: {wanted}" if wanted else "name no chunk_layers")
    )
