"""Min-max: the one layout that serves several clusters, by what it loses at most to the best plan of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import numpy as np

from meshwright.arrays import FloatColumn, IntColumn
from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.fit import Verdict
from meshwright.cost.step import estimate_each, estimates_of
from meshwright.distinct import distinct_rows
from meshwright.errors import Fault
from meshwright.layout.groups import sharding_ranks
from meshwright.layout.legality import faults
from meshwright.layout.plan import Plan
from meshwright.layout.plans import COLUMNS, Plans
from meshwright.search.changes.changed_plans import changed_plans
from meshwright.search.find import Progress, SearchResult, legal_footprints
from meshwright.search.ranking.rank import TIE_DIGITS
from meshwright.specs.inputs import Inputs

FOLLOWING = ("dp", "num_microbatches", "microbatch_group", "dp_replicate", "zero")
"""Fields that follow the cluster: dp takes the ranks that are left, micro-batches and their groups follow from the
batch, replicas from the size of the sharding group, and ZeRO means nothing on a single rank, unless the runtime shards
that too."""
ALIKE = tuple(name for name in COLUMNS if name not in FOLLOWING)


@dataclass(frozen=True)
class OnePlan:
    """The layout that is safe on every cluster and loses least where it loses most."""

    estimates: tuple[Estimate, ...]
    """Of the layout on each cluster, with its dp there."""
    regrets: tuple[float, ...]
    """Its step time over that of the cluster's recommended plan, less one; a share, 0 where it is faster."""


@dataclass(frozen=True)
class Exclusion:
    """No layout is safe on every cluster: the one that comes nearest, on the cluster that excludes it."""

    cluster: int
    """Which of the clusters, 0 first."""
    plan: Plan
    estimate: Estimate | None
    """Of the plan there; None where it is not legal."""
    faults: tuple[Fault, ...]
    """The rules that it breaks there."""


class _Table(NamedTuple):
    """Plans of one cluster, with a value each, shape (n,)."""

    plans: Plans
    value: FloatColumn


def one_plan(answers: Sequence[SearchResult], progress: Progress | None = None) -> OnePlan | Exclusion:
    """The layout with the least largest regret, among equals the least sum of them.

    Two plans have the same layout if they agree in everything that does not follow the cluster (`FOLLOWING`); a
    sharding group of its own size keeps it. Of every cluster the plans of `chunks` that are safe take part.

    answers: of one question on each cluster; progress: told (plans considered, plans of all clusters).
    """
    tables = _safe_tables(answers, progress)
    rows = shared_rows([table.plans for table in tables], answers[0].inputs.runtime.plans.zero_stages)
    if not len(rows):
        return _nearest(answers)
    steps = np.stack([table.value[column] for table, column in zip(tables, rows.T, strict=True)], axis=1)
    regrets = steps / [answer.best[0].step_time_s for answer in answers] - 1
    first = int(np.lexsort((regrets.sum(axis=1), regrets.max(axis=1).round(TIE_DIGITS)))[0])
    plans = [table.plans[int(row)] for table, row in zip(tables, rows[first], strict=True)]
    return OnePlan(
        estimates=tuple(estimate_each([plan], answer.inputs)[0] for plan, answer in zip(plans, answers, strict=True)),
        regrets=tuple(np.maximum(regrets[first], 0.0).tolist()),
    )


def shared_rows(tables: Sequence[Plans], zero_stages: Sequence[int]) -> IntColumn:
    """Rows of the plans whose layout stands in every table, shape (layouts, tables).

    zero_stages: of the runtime, for each of which a plan without ranks to divide over stands.
    """
    known = [_layout_columns(plans, zero_stages) for plans in tables]
    columns = [np.concatenate(column) for column in zip(*(columns for _, columns in known), strict=True)]
    ends = np.cumsum([len(rows) for rows, _ in known])
    codes = np.split(distinct_rows(*columns)[1], ends[:-1])
    common = reduce(np.intersect1d, codes)
    shared = []
    for code, (rows, _) in zip(codes, known, strict=True):
        present, first = np.unique(code, return_index=True)
        shared.append(rows[first[np.searchsorted(present, common)]])
    return np.stack(shared, axis=1)


def _layout_columns(plans: Plans, zero_stages: Sequence[int]) -> tuple[IntColumn, list[IntColumn]]:
    """Rows of plans, those that one rank does not shard once for every ZeRO stage, and the columns of their layout."""
    alone = np.flatnonzero((plans.dp * plans.cp == 1) & (plans.zero == 0))
    others = [stage for stage in zero_stages if stage]
    rows = np.concatenate([np.arange(len(plans)), *(alone for _ in others)])
    zero = np.concatenate([plans.zero, *(np.full(len(alone), stage) for stage in others)])
    group = np.where(plans.dp_replicate > 1, sharding_ranks(plans), 0)
    return rows, [zero, group[rows], *(getattr(plans, name)[rows] for name in ALIKE)]


def _safe_tables(answers: Sequence[SearchResult], progress: Progress | None) -> list[_Table]:
    """The safe plans of every cluster, with the seconds of their steps."""
    parts: list[list[_Table]] = [[_Table(Plans.of([]), np.zeros(0))] for _ in answers]
    for index, memory in legal_footprints(answers, progress, fitting_only=True):
        safe = memory.take(memory.verdict == Verdict.SAFE)
        if len(safe):
            parts[index].append(_Table(safe.plans, estimates_of(safe).step_time_s))
    return [_joined(each) for each in parts]


def _joined(parts: Sequence[_Table]) -> _Table:
    return _Table(Plans.join(part.plans for part in parts), np.concatenate([part.value for part in parts]))


def _nearest(answers: Sequence[SearchResult]) -> Exclusion:
    """Of the layouts that every cluster's runtime accepts, the one that lacks least memory where it lacks most; where
    there are none, the best plan of a cluster that breaks the fewest rules on another.
    """
    tables = _legal_tables(answers)
    rows = shared_rows([table.plans for table in tables], answers[0].inputs.runtime.plans.zero_stages)
    if not len(rows):
        return _refused(answers)
    lacks = np.stack([table.value[column] for table, column in zip(tables, rows.T, strict=True)], axis=1)
    first = int(lacks.max(axis=1).argmin())
    cluster = int(lacks[first].argmax())
    plan = tables[cluster].plans[int(rows[first, cluster])]
    return Exclusion(cluster, plan, estimate_each([plan], answers[cluster].inputs)[0], ())


def _legal_tables(answers: Sequence[SearchResult]) -> list[_Table]:
    """The legal plans of every cluster with how far each is from safe: its verdict, then its share of the memory."""
    parts: list[list[_Table]] = [[] for _ in answers]
    for index, memory in legal_footprints(answers):
        share = np.asarray(memory.worst_memory.device) / memory.inputs.cluster.accelerator.visible_memory_bytes
        lack = np.where(memory.verdict == Verdict.SAFE, 0.0, memory.verdict + share)
        parts[index].append(_Table(memory.plans, lack))
    return [_joined(each) for each in parts]


def _refused(answers: Sequence[SearchResult]) -> Exclusion:
    """The best plan of a cluster, or its leanest where none fits, on the other one where it breaks the fewest rules."""
    tried = []
    for index, answer in enumerate(answers):
        best = (*answer.best, answer.leanest)[0].plan
        for other, asked in enumerate(answers):
            if other != index:
                plan = _on_other_cluster(best, asked.inputs)
                broken = tuple(faults(plan, asked.inputs))
                tried.append(Exclusion(other, plan, None if broken else estimate_each([plan], asked.inputs)[0], broken))
    return min(tried, key=lambda excluded: (not excluded.faults, len(excluded.faults)))


def _on_other_cluster(plan: Plan, inputs: Inputs) -> Plan:
    """The layout of a plan on another cluster: dp takes what the other degrees leave."""
    dp = max(inputs.cluster.num_gpus // (plan.tp * plan.cp * plan.pp), 1)
    return next(changed_plans(plan, inputs, {"dp": dp}))
