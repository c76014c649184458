"""Ties: which plans a prediction cannot tell apart, and which of them is worth most: fast, simple and sure to fit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright.arrays import BoolColumn, FloatColumn, Floats, IntColumn, negated, one_of
from meshwright.cost.estimate import Estimates
from meshwright.cost.memory.fit import MOST_CERTAIN, Verdict
from meshwright.distinct import distinct_rows, distinct_values
from meshwright.layout.named import usual_exchange
from meshwright.layout.plan import USUAL
from meshwright.layout.plans import Plans, leaves_split, without_recompute
from meshwright.search.published.layouts import has_equal_stages, has_published_layout, is_known_to_work
from meshwright.search.published.untested import is_unbeaten
from meshwright.search.ranking.rank import rank_time_s
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.predictive import layout_share, tie_share
from meshwright.specs.residuals import like

POINT = 0.0025
"""Of the step time, what a point of complexity may cost among equals; a judgement, not measured."""
AXES = ("tp", "cp", "pp", "ep", "etp", "dp_replicate")
CHOICE = ("tp", "cp", "pp", "ep", "etp", "micro_batch")
"""What makes a plan another choice, with its schedule, whether layers are recomputed, and whether more is sharded than
optimizer states."""


class Ranks(NamedTuple):
    """What many plans are chosen among by, shape (n,) each."""

    verdict: IntColumn
    time_s: FloatColumn
    """As `rank_time_s`."""
    unbeaten: BoolColumn
    """As `is_unbeaten`."""
    known_layout: BoolColumn
    """Whether the fastest published run of a job of the model was split alike, as `has_published_layout`."""
    known_to_work: BoolColumn
    """Of those, as `is_known_to_work`."""
    complexity: IntColumn
    """As `complexity`, and a point for every run in a hundred that does not fit."""

    def take(self, rows: IntColumn | BoolColumn) -> Ranks:
        """The chosen rows, by index or mask."""
        return Ranks(*(column[rows] for column in self))  # type: ignore[arg-type]


def ranks_of(estimates: Estimates) -> Ranks:
    """Of the plans of a table."""
    plans, inputs = estimates.plans, estimates.inputs
    return Ranks(
        verdict=estimates.verdict,
        time_s=rank_time_s(estimates),
        unbeaten=is_unbeaten(plans, inputs),
        known_layout=has_published_layout(plans, inputs),
        known_to_work=is_known_to_work(plans, inputs),
        complexity=complexity(plans, inputs) + risk_points(estimates.probability),
    )


def choices(plans: Plans) -> IntColumn:
    """A number for each plan, equal where plans differ in nothing but how layers are cut into chunks, which modules are
    recomputed, how context-parallel ranks exchange, ZeRO 0 or 1 and replicas of a sharding group; shape (n,).
    """
    columns = [getattr(plans, name) for name in CHOICE]
    columns += [
        np.where(one_of(plans.schedule, USUAL), 0, plans.schedule),
        plans.recompute == Recompute.FULL,
        np.maximum(plans.zero, 1),
    ]
    numbers: IntColumn = distinct_rows(*(column.astype(np.int64) for column in columns))[1]
    return numbers


def recomputed_in_vain(plans: Plans, ranks: Ranks) -> BoolColumn:
    """Which plans recompute layers in full though a safe one among them, no slower, does not and differs in nothing
    else that `choices` tells apart; shape (n,).
    """
    full = plans.recompute == Recompute.FULL
    alike = choices(without_recompute(plans))
    least = np.full(len(plans), np.inf)
    np.minimum.at(least, alike, np.where(~full & (ranks.verdict == Verdict.SAFE), ranks.time_s, np.inf))
    in_vain: BoolColumn = full & (least[alike] <= ranks.time_s)
    return in_vain


def risk_points(probability: Floats) -> IntColumn:
    """Runs of a hundred that do not fit, none where 99 do. probability: of fitting, a share; scalar or array (n,).

    >>> risk_points(np.array([0.995, 0.9])).tolist()
    [0, 9]
    """
    points: IntColumn = np.rint(100 * np.maximum(MOST_CERTAIN - np.asarray(probability), 0)).astype(np.int64)
    return points


def complexity(plans: Plans, inputs: Inputs) -> IntColumn:
    """Points for what an engineer has to set up and to watch, shape (n,); each is worth `POINT` of the step time.

    Each axis above 1 counts 2, tensor parallelism of experts 10, every doubling of pp and of vpp 1. 2 more each: a
    stage of ZeRO above 1 in a pipeline, an exchange of context-parallel ranks that is not the runtime's usual one, ends
    that count as layers where they do not usually or the reverse, a first or last stage of its own size, groups of
    another number of micro-batches than stages, full recomputation and recomputation of some layers alone; each
    recomputed module 1. Tensor parallelism without the sequence parallelism that a runtime has counts 14, chunks that a
    launch spells out one by one 20, where no stages of equal size are to be had 6, schedules that split the backward
    pass or run both ways 4, sharded gradients or weights beside tensor or context parallelism 10 where both want other
    hardware queues, and 10 where an engine of its own shards them. The counts are a judgement, not measured. Source of
    expert before tensor parallelism of experts: Megatron-LM, megatron/core/transformer/moe/README.md, guideline 4; of
    queues: the runtime's `orders_by_one_queue`; of engines: its `shards_by_another_engine`.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> plans = [Plan(tp=8, sp=True, dp=8, zero=1), Plan(tp=4, sp=True, pp=2, dp=8, chunk_layers=(5, 3))]
    >>> complexity(Plans.of(plans), LLAMA).tolist()
    [2, 25]
    """
    usual_ends = inputs.runtime.plans.ends_as_layers[0]
    ends = (plans.embedding_as_layer != usual_ends) | (plans.head_as_layer != usual_ends)
    modules = np.bitwise_count(plans.recompute_modules) * (plans.recompute == Recompute.SELECTIVE)
    settings = [
        *(getattr(plans, name) > 1 for name in AXES),
        (plans.pp > 1) & ends,
        plans.first_stage_layers > 0,
        plans.last_stage_layers > 0,
        (plans.pp > 1) & (plans.zero > 1),
        (plans.cp > 1) & (plans.context_exchange != usual_exchange(inputs)),
        plans.recompute == Recompute.FULL,
        plans.recompute_layers > 0,
        (plans.vpp > 1) & (plans.microbatch_group > 0) & (plans.microbatch_group != plans.pp),
    ]
    points = [2 * np.array(settings, dtype=np.int64).sum(axis=0), modules]
    points += [
        np.where(has_equal_stages(plans, inputs), 20, 6) * _spells_chunks(plans, inputs),
        10 * _contend_for_queues(plans, inputs),
        10 * (inputs.runtime.plans.shards_by_another_engine & (plans.zero > 1)),
        8 * (plans.etp > 1),
        14 * ((plans.tp > 1) & (plans.sp == 0) & inputs.runtime.plans.sequence_parallel),
        4 * negated(one_of(plans.schedule, USUAL)),
        *(np.log2(chunks).astype(np.int64) for chunks in (plans.pp, plans.vpp)),
    ]
    total: IntColumn = np.sum(np.array(points, dtype=np.int64), axis=0)
    return total


def _spells_chunks(plans: Plans, inputs: Inputs) -> BoolColumn:
    """Whether a launch spells out the layers of every chunk: those that a plan names, and those that do not divide
    where the framework has no split of its own for them.
    """
    uneven = inputs.model.num_layers % (plans.pp * plans.vpp) != 0
    left = (plans.pp > 1) & uneven & leaves_split(plans) & (inputs.runtime.pipeline.stage_split == "outer_fewer")
    spelled: BoolColumn = (plans.chunk_layers > 0) | left
    return spelled


def _contend_for_queues(plans: Plans, inputs: Inputs) -> BoolColumn:
    """Whether sharded gradients or weights stand beside tensor or context parallelism that wants one hardware queue."""
    ordered = inputs.runtime.communication.orders_by_one_queue and inputs.cluster.accelerator.needs_one_queue
    contend: BoolColumn = ordered & (plans.zero > 1) & ((plans.tp > 1) | (plans.cp > 1))
    return contend


def share_of_ties(inputs: Inputs, published: bool = True) -> float:
    """As `tie_share`, for the runs of a question; published: whether runs of the faster plan's kind were."""
    return tie_share(like(inputs), published)


def share_of_layouts(inputs: Inputs) -> float:
    """As `layout_share`, for the runs of a question."""
    return layout_share(like(inputs))


def tied_rows(ranks: Ranks, inputs: Inputs) -> IntColumn:
    """Rows of the plans that are as good as the fastest of the best verdict, those of published layouts first, then by
    step time and what their complexity may cost: seconds * (1 + `POINT` * complexity).

    Equal are plans whose step times differ by less than `share_of_ties`. Where the fastest is of a kind that no
    published run has, or only runs that another plan was measured to beat, others are as good up to a larger share, and
    take its place. So are plans that were
    split as the fastest published run of a job of the model and recompute whole layers only where it did: they are
    known to work, and up to `share_of_layouts` not known to be slower.
    """
    return _worth_most_first(ranks, np.flatnonzero(_tied(ranks, np.zeros(len(ranks.time_s), dtype=np.int64), inputs)))


def _tied(ranks: Ranks, groups: IntColumn, inputs: Inputs) -> BoolColumn:
    """Whether plans are as good as the fastest of the best verdict of their group, as `tied_rows` says, shape (n,)."""
    times = np.where(ranks.verdict == _least(ranks.verdict, groups), ranks.time_s, np.inf)
    unbeaten = np.where(ranks.unbeaten, times, np.inf)
    least, known = _least(times, groups), _least(unbeaten, groups)
    gives_way = known <= least * (1 + share_of_ties(inputs, published=False))
    times, least = np.where(gives_way, unbeaten, times), np.where(gives_way, known, least)
    share = share_of_ties(inputs)
    tied: BoolColumn = times <= least * (1 + np.where(ranks.known_to_work, max(share_of_layouts(inputs), share), share))
    return tied


def _least(values: FloatColumn | IntColumn, groups: IntColumn) -> FloatColumn:
    """The least value of the group of each row, shape (n,); groups: a number each, from 0."""
    least = np.full(groups.max(initial=-1) + 1, np.inf)
    np.minimum.at(least, groups, values)
    return least[groups]


def tied_within(longer: float, published: bool, inputs: Inputs) -> float:
    """The share of the fastest plan's step up to which predictions cannot tell the recommended one from it.

    longer: what the recommended one takes more, a share; published: whether runs of the fastest one's kind were, not
    all of them beaten.
    """
    share = share_of_ties(inputs, published or longer == 0)
    both = (1 + share) * (1 + share_of_ties(inputs)) - 1
    return next((most for most in (share, both) if longer <= most), share_of_layouts(inputs))


def equal_plans(ranks: Ranks, inputs: Inputs) -> int:
    """How many plans of the best verdict predictions cannot tell from the fastest, as far as they cannot tell the
    recommended one from it (`tied_within`).
    """
    times = np.where(ranks.verdict == ranks.verdict.min(), ranks.time_s, np.inf)
    fastest, recommended = int(times.argmin()), tied_rows(ranks, inputs)[0]
    longer = float(times[recommended] / times[fastest] - 1)
    most = tied_within(longer, bool(ranks.unbeaten[fastest]), inputs)
    return int(np.count_nonzero(times <= times[fastest] * (1 + most)))


def _worth_most_first(ranks: Ranks, rows: IntColumn) -> IntColumn:
    ranks = ranks.take(rows)
    worth = ranks.time_s * (1 + POINT * ranks.complexity)
    return rows[np.lexsort((ranks.time_s, worth, ~ranks.known_to_work))]


def best_of_groups(ranks: Ranks, groups: IntColumn, inputs: Inputs) -> IntColumn:
    """Of each group the first of its tied rows; groups by verdict and step time. groups: a number each, shape (n,)."""
    tied = _worth_most_first(ranks, np.flatnonzero(_tied(ranks, groups, inputs)))
    rows = tied[distinct_values(groups[tied]).first]
    ordered: IntColumn = rows[np.lexsort((ranks.time_s[rows], ranks.verdict[rows]))]
    return ordered


def contenders_of_all(ranks: Ranks, inputs: Inputs) -> IntColumn:
    """Rows that may be as good as the fastest, whatever other plans there are."""
    fastest = np.lexsort((ranks.time_s, ranks.verdict))[0]
    return np.flatnonzero(_not_behind(ranks, fastest, inputs))


def _not_behind(ranks: Ranks, row: int, inputs: Inputs) -> BoolColumn:
    """Whether plans may be as good as the one of a row, or worth most of those as good as it, shape (n,)."""
    verdict, most = ranks.verdict[row], ranks.time_s[row] * (1 + share_of_ties(inputs, published=False)) ** 2
    near: BoolColumn = (ranks.verdict < verdict) | ((ranks.verdict == verdict) & (ranks.time_s <= most))
    return near


def contenders(ranks: Ranks, groups: IntColumn, most: int, inputs: Inputs) -> IntColumn:
    """Rows that may be the best of one of the best groups, whatever other plans there are.

    Of those no slower than the last of the best groups, and what its ties allow, the fastest of each group, verdict and
    complexity. groups: a number each, shape (n,); most: how many groups.
    """
    fastest_first = np.lexsort((ranks.time_s, ranks.verdict))
    firsts = fastest_first[np.sort(distinct_values(groups[fastest_first]).first)[:most]]
    near = fastest_first[_not_behind(ranks, firsts[-1], inputs)[fastest_first]]
    rows = ranks.take(near)
    marks = (each.astype(np.int64) for each in (rows.unbeaten, rows.known_layout, rows.known_to_work))
    alike = distinct_rows(groups[near], rows.verdict, *marks, rows.complexity)[1]
    kept: IntColumn = near[distinct_values(alike).first]
    return kept
