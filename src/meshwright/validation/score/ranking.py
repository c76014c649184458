"""Ranking: whether plans for the same job come out in the measured order, and what our first pick would have cost."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from itertools import combinations, groupby
from operator import attrgetter
from statistics import median
from typing import NamedTuple

import numpy as np

from meshwright.arrays import FloatColumn
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.search.ranking.ties import Ranks, complexity, risk_points, tied_rows
from meshwright.specs.inputs import Inputs
from meshwright.specs.residuals import OrderError
from meshwright.validation.fit.plan_kinds import plan_kind_difference
from meshwright.validation.outcomes import Outcome
from meshwright.validation.score.errors import grouped

SAME_JOB = (
    *("dataset", "model", "layers", "gpu", "num_gpus", "seq_len", "global_batch_size", "precision"),
    *("runtime", "software_release"),
)
"""Columns in which the runs of one group agree: a plan is chosen for one version of a framework."""
FEWEST = 2
"""Runs that make a group."""


class Ranking(NamedTuple):
    """Runs of one job that differ in their plans."""

    group: str
    n: int
    spearman: float
    """Correlation of the measured ranks with the predicted ones, -1 to 1."""
    regret: float
    """How much longer than the fastest measured step that of the plan takes that the search would recommend among them,
    by its prediction and its ties, a share; of several runs of it predicted alike, their mean."""
    regret_of_fastest: float
    """The same of the plan that is predicted to be the fastest."""


def rankings(outcomes: Iterable[Outcome]) -> list[Ranking]:
    """Every group of two or more runs of one job."""
    groups = _jobs(outcomes)
    return [_ranking(key, runs) for key, runs in groups.items() if len(runs) >= FEWEST]


class LogError(NamedTuple):
    """ln(predicted / measured) of the step time of a run."""

    source: str
    inputs: Inputs
    plan: Plan
    error: float


def order_error_of(outcomes: Iterable[Outcome], recipes: Iterable[LogError] = ()) -> OrderError:
    """How far the ratio of two runs of one job, whose plans differ, lies from its prediction, of dense models; and of
    models with experts, of plans that split the work differently; recipes: published plans with a measured time that
    are no rows, which count with the experts.
    """
    known = list(outcomes)
    runs = [(key[0], *pair) for key, job in _jobs(known).items() for pair in combinations(_errors(job), 2)]
    printed = [(one.source, one, two) for one, two in combinations(recipes, 2) if one.inputs == two.inputs]
    medians, pairs = _median_errors([each for each in runs if not each[1].inputs.model.is_moe])
    split = [each for each in (*runs, *printed) if _split(each[1].plan) != _split(each[2].plan)]
    experts, _ = _median_errors([each for each in split if each[1].inputs.model.is_moe])
    return OrderError(
        median=round(median(medians), 4),
        experts=round(median(experts or medians), 4),
        plan_kinds=plan_kind_difference(known),
        pairs=pairs,
        sources=len(medians),
    )


def _split(plan: Plan) -> tuple[int | bool, ...]:
    """How a plan splits the work over ranks, and whether weights are sharded."""
    return plan.tp, plan.cp, plan.pp, plan.ep, plan.etp, plan.zero == 3


def _median_errors(pairs: Iterable[tuple[str, LogError, LogError]]) -> tuple[list[float], int]:
    """Of each source's pairs whose plans differ, and how many pairs there are; a source with a single one has none."""
    errors: dict[str, list[float]] = defaultdict(list)
    for source, one, two in pairs:
        if one.plan != two.plan:
            errors[source].append(abs(one.error - two.error))
    several = [each for each in errors.values() if len(each) > 1]
    return [median(each) for each in several], sum(map(len, several))


def _errors(job: Iterable[Outcome]) -> list[LogError]:
    return [
        LogError(
            source=each.configuration.dataset,
            inputs=each.case.inputs,
            plan=each.case.plan,
            error=math.log(each.step_time.predicted / each.step_time.measured),
        )
        for each in job
        if each.case and each.step_time
    ]


def _jobs(outcomes: Iterable[Outcome]) -> dict[tuple[str, ...], list[Outcome]]:
    """The runs with a step time by their job, the source first."""
    timed = [outcome for outcome in outcomes if outcome.step_time]
    return grouped(timed, lambda each: tuple(each.configuration.rows[0][column] for column in SAME_JOB))


def _ranking(key: tuple[str, ...], runs: list[Outcome]) -> Ranking:
    pairs = [each.step_time for each in runs if each.step_time]
    measured, predicted = (np.array(column) for column in zip(*((p.measured, p.predicted) for p in pairs), strict=True))
    chosen = (predicted[_recommended(runs, predicted)], predicted.min())
    regrets = [float(measured[predicted == each].mean() / measured.min() - 1) for each in chosen]
    dataset, model, _, gpu, ranks, length, batch, precision, *_ = key
    name = f"{dataset}: {model}, {ranks} {gpu}, {batch} x {length}, {precision or 'bf16'}"
    order = spearman(measured, predicted)
    return Ranking(group=name, n=len(runs), spearman=order, regret=regrets[0], regret_of_fastest=regrets[1])


def _recommended(runs: list[Outcome], predicted: FloatColumn) -> int:
    """The index of the run whose plan the search would recommend; all ran, and none is known beforehand."""
    cases = [each.case for each in runs if each.case]
    sure = np.array([each.estimate.fit.probability if each.estimate else 1.0 for each in runs if each.case])
    none = np.zeros(len(cases), dtype=bool)
    asked = groupby(cases, key=attrgetter("inputs"))
    points = np.concatenate([complexity(Plans.of(each.plan for each in same), inputs) for inputs, same in asked])
    ranks = Ranks(
        verdict=none.astype(np.int64),
        time_s=predicted,
        unbeaten=~none,
        known_layout=none,
        known_to_work=none,
        complexity=points + risk_points(sure),
    )
    return int(tied_rows(ranks, cases[0].inputs)[0])


def spearman(one: FloatColumn, other: FloatColumn) -> float:
    """The correlation of two columns' ranks, from -1 to 1, a share; equal values share the mean of their ranks; 0
    where all values of a column are equal. one, other: shape (n,).

    >>> spearman(np.array([1.0, 2.0, 4.0]), np.array([10.0, 30.0, 20.0]))
    0.5
    """
    ranks = [_ranks(each) for each in (one, other)]
    spread = [float(each.std()) for each in ranks]
    if not all(spread):
        return 0.0
    return float(((ranks[0] - ranks[0].mean()) * (ranks[1] - ranks[1].mean())).mean() / (spread[0] * spread[1]))


def _ranks(values: FloatColumn) -> FloatColumn:
    # Counts of smaller and of equal values for each value, shape (n,); equal ones share the mean of their ranks.
    below = (values[:, None] > values).sum(axis=1)
    equal = (values[:, None] == values).sum(axis=1)
    ranks: FloatColumn = below + (equal - 1) / 2
    return ranks
