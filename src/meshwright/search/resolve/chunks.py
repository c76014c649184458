"""Chunks: how many layers the last chunk of an interleaved pipeline gives up for the head."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from meshwright.arrays import FloatColumn, IntColumn
from meshwright.cost.shape_times import ShapeTimes
from meshwright.cost.step import stage_costs
from meshwright.layout.microbatches import microbatch_group
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.layout.splits import front, layers_before, layers_of_chunks
from meshwright.layout.stages import Stages
from meshwright.schedules.action import ChunkTimes, play
from meshwright.schedules.pipeline import PipelineShape
from meshwright.schedules.records import Schedule, blocks
from meshwright.search.ranking.rank import LEAST_GAIN
from meshwright.search.resolve.stages import as_stages, with_chunks
from meshwright.specs.inputs import Inputs

LATE = 0.02
"""Of the price of an interleaved pipeline, how much longer its order may take on a clock."""
ROUNDS = 3
"""Groups of micro-batches that the clock plays, where the plan has more."""
MOST_ACTIONS = 6144
"""On a clock, which takes some 30 ms; a pipeline that has more in two groups of micro-batches is not played."""
TRIED = 2
"""Splits of a kind that are played, the fastest first."""


def lighter_ends(plans: Sequence[Plan], inputs: Inputs, times: ShapeTimes | None = None) -> list[list[Plan]]:
    """Every plan with as many layers in the last chunk of its interleaved pipeline, which has the head, as make it
    fastest; the others share the rest alike, where it does not divide the first ones one more (as ranks with few layers
    to wait for), or the last ones (as ranks with few micro-batches in flight).

    The price, m max_r sum_c t_cr + (sum_cr t_cr - max_r sum_c t_cr) / v with t_cr the time of chunk c of rank r, does
    not know when a rank works on which chunk, and is not reached by every split: of the faster ones, the fastest whose
    order, played with every chunk's own time, takes at most 2 % more than the price.

    Returns none where none is faster by half a percent, and for a plan that has no such pipeline, or one too long to be
    played, recomputes a part of the layers, or has a runtime that takes no numbers of layers. The chunks of all plans
    are priced together. times: as of `estimate_plans`.
    """
    spreads = [
        np.vstack([layers_of_chunks(inputs, plan), *_spreads(inputs.model.num_layers, plan.pp * plan.vpp)])
        if _spreadable(plan, inputs)
        else None
        for plan in plans
    ]
    asked = [(plan, each) for plan, each in zip(plans, spreads, strict=True) if each is not None]
    seconds = iter(chunk_times(asked, inputs, times))
    return [
        [] if each is None else _faster(plan, each, next(seconds)) for plan, each in zip(plans, spreads, strict=True)
    ]


def _spreadable(plan: Plan, inputs: Inputs) -> bool:
    spelled = inputs.runtime.plans.takes_chunk_layers and not inputs.constraints.even_chunks
    enough = inputs.model.num_layers >= plan.pp * plan.vpp - 1
    return plan.schedule == Schedule.INTERLEAVED and spelled and enough and not plan.recompute_layers


def _faster(plan: Plan, spreads: IntColumn, seconds: FloatColumn) -> list[Plan]:
    """The fastest of each kind of the splits that is faster than the first one; seconds: of their chunks."""
    times = seconds.reshape(-1, plan.vpp, plan.pp)
    prices = _price(times, plan.num_microbatches)
    faster = [row for row in np.argsort(prices) if prices[row] < (1 - LEAST_GAIN) * prices[0]]
    families = ([row for row in faster if row % 2 == family % 2][:TRIED] for family in (1, 2))
    chosen = (next((row for row in family if _on_time(times[row], plan)), 0) for family in families)
    return [with_chunks(plan, spreads[row]) for row in chosen if row]


def chunk_times(
    plans: Sequence[tuple[Plan, IntColumn]], inputs: Inputs, times: ShapeTimes | None = None
) -> list[FloatColumn]:
    """Of every plan the seconds of one micro-batch in every chunk, in the order of the model, shape (n, pp x vpp).

    plans: each with the layers of every chunk in the order of the model, of so many of its splits, shape (n, pp x vpp).
    """
    if not plans:
        return []
    parts, before = [], layers_before(inputs.model)
    for plan, spreads in plans:
        ends = spreads.cumsum(axis=1)
        layers = (before[ends] - before[ends - spreads]).reshape(spreads.size, -1)
        parts.append(as_stages(plan, inputs, np.tile(np.arange(plan.pp * plan.vpp), len(spreads)), layers))
    stages = Stages.join(parts)
    seconds, _ = stage_costs(Plans.of(plan for plan, _ in plans), stages, inputs, times)
    pieces = np.split(seconds, stages.start[1:])
    return [np.reshape(piece, spreads.shape) for piece, (_, spreads) in zip(pieces, plans, strict=True)]


def _spreads(layers: int, chunks: int) -> list[IntColumn]:
    """Layers of every chunk with 0 to an equal share in the last one, each with the first others one more, then with
    the last others; shape (chunks,) each.
    """
    most = min(-(-layers // chunks), layers - chunks + 1)
    others = ((front(layers - last, chunks - 1), last) for last in range(most + 1))
    return [np.append(each, last) for sizes, last in others for each in (sizes, sizes[::-1])]


def _price(times: FloatColumn, micro_batches: int) -> FloatColumn:
    """Seconds of interleaved pipelines by their closed form; times: shape (..., vpp, pp)."""
    slowest = times.sum(axis=-2).max(axis=-1)
    price: FloatColumn = micro_batches * slowest + (times.sum(axis=(-2, -1)) - slowest) / times.shape[-2]
    return price


def _on_time(times: FloatColumn, plan: Plan) -> bool:
    """Whether a clock confirms the price of chunks; times: shape (vpp, pp), a third of them forward."""
    group = int(microbatch_group(plan))
    rounds = min(MOST_ACTIONS // (2 * plan.pp * plan.vpp * group), ROUNDS)
    if rounds < 2 and rounds * group < plan.num_microbatches:
        return False
    micro_batches = min(rounds * group, plan.num_microbatches)
    third = (times / 3).tolist()
    actions = plan.schedule.record.actions(
        PipelineShape(stages=plan.pp, micro_batches=micro_batches, chunks=plan.vpp, microbatch_group=group)
    )
    timeline = play(actions, ChunkTimes(third, third, third), blocks(plan.schedule, plan.pp, plan.vpp))
    return bool(timeline.makespan_s <= (1 + LATE) * _price(times, micro_batches))
