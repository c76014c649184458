"""Find: price every legal plan in chunks and keep the best."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.device import Verdict
from meshwright.cost.step import estimate_each, estimate_plans
from meshwright.errors import IllegalPlan
from meshwright.layout.legality import check, faults
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.search.rank import order
from meshwright.search.space import space
from meshwright.specs.inputs import Inputs

CHUNK = 1 << 15
Progress = Callable[[int, int], None]
"""Told after every chunk: (plans considered so far, plans in the space)."""


@dataclass(frozen=True)
class Found:
    """What a search found."""

    inputs: Inputs
    considered: int
    """Plans whose degrees multiply to the cluster."""
    legal: int
    """Of these, plans that the runtime accepts."""
    fitting: int
    """Of these, plans whose verdict is not out-of-memory."""
    refused: dict[str, int]
    """Per rule of the runtime, how many considered plans break it."""
    best: tuple[Estimate, ...]
    """The best plans that fit, best first; empty when nothing fits."""
    other_splits: tuple[Estimate, ...]
    """For every other (tp, cp, pp, dp), the best plan that fits, best first, as many as asked for."""
    at_risk: Estimate | None
    """The fastest plan at risk of running out of memory, where there is one."""
    leanest: Estimate
    """The legal plan with the least memory on its worst stage."""
    elapsed_s: float


@dataclass
class _Tally:
    """Counts, and the candidates of every chunk."""

    considered: int = 0
    legal: int = 0
    fitting: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    best: list[Plan] = field(default_factory=list)
    splits: list[Plan] = field(default_factory=list)
    at_risk: list[Plan] = field(default_factory=list)
    leanest: list[Plan] = field(default_factory=list)


def find(inputs: Inputs, top: int = 5, progress: Progress | None = None) -> Found:
    """Consider every plan of the space, price the legal ones, rank those that fit.

    top: how many of the best to keep. Raises `NotModelled` for a model that is not planned yet, `IllegalPlan` when the
    runtime refuses every plan.
    """
    started = time.perf_counter()
    total = sum(map(len, space(inputs)))
    tally = _Tally()
    for chunk in chunks(inputs):
        _evaluate(chunk, inputs, top, tally)
        if progress:
            progress(tally.considered, total)
    if not tally.legal:
        raise _nothing_legal(tally, inputs)
    finalists = _best(tally.best, inputs)[:top]
    best, at_risk, leanest = (
        estimate_each(plans, inputs)
        for plans in (finalists, _best(tally.at_risk, inputs)[:1], _leanest(tally.leanest, inputs))
    )
    splits = {(plan.tp, plan.cp, plan.pp): plan for plan in reversed(_best(tally.splits, inputs))}
    for plan in finalists[:1]:
        del splits[plan.tp, plan.cp, plan.pp]
    return Found(
        inputs=inputs,
        considered=tally.considered,
        legal=tally.legal,
        fitting=tally.fitting,
        refused=tally.refused,
        best=best,
        other_splits=estimate_each(list(splits.values())[::-1][:top], inputs),
        at_risk=next(iter(at_risk), None),
        leanest=leanest[0],
        elapsed_s=time.perf_counter() - started,
    )


def chunks(inputs: Inputs) -> Iterator[Plans]:
    """Every plan of the space, legal or not, in tables of about `CHUNK` rows."""
    gathered: list[Plans] = []
    for table in space(inputs):
        gathered.append(table)
        if sum(map(len, gathered)) >= CHUNK:
            yield from Plans.join(gathered).chunks(CHUNK)
            gathered = []
    if gathered:
        yield Plans.join(gathered)


def _evaluate(chunk: Plans, inputs: Inputs, top: int, tally: _Tally) -> None:
    legality = check(chunk, inputs)
    tally.considered += len(chunk)
    for rule, count in legality.refused.items():
        tally.refused[rule] = tally.refused.get(rule, 0) + count
    legal = chunk.take(legality.legal)
    if not len(legal):
        return
    estimates = estimate_plans(legal, inputs)
    tally.legal += len(legal)
    tally.fitting += int((estimates.verdict < Verdict.OUT_OF_MEMORY).sum())
    ranked = order(estimates)
    risky = ranked[estimates.verdict[ranked] == Verdict.AT_RISK][:1]
    lean = np.argmin(estimates.memory.device[estimates.worst])
    split = (legal.tp[ranked] * (legal.cp.max() + 1) + legal.cp[ranked]) * (legal.pp.max() + 1) + legal.pp[ranked]
    first_of_split = ranked[np.sort(np.unique(split, return_index=True)[1])]
    tally.best += [legal[row] for row in ranked[:top]]
    tally.splits += [legal[row] for row in first_of_split]
    tally.at_risk += [legal[row] for row in risky]
    tally.leanest.append(legal[int(lean)])


def _best(plans: list[Plan], inputs: Inputs) -> list[Plan]:
    return [plans[row] for row in order(estimate_plans(Plans.of(plans), inputs))]


def _leanest(plans: list[Plan], inputs: Inputs) -> list[Plan]:
    estimates = estimate_plans(Plans.of(plans), inputs)
    return [plans[int(np.argmin(estimates.memory.device[estimates.worst]))]]


def _nothing_legal(tally: _Tally, inputs: Inputs) -> IllegalPlan:
    """The error for a space without a legal plan: the faults of the plan that breaks the fewest rules."""
    simplest = (table[0] for table in space(inputs))
    plan = min(simplest, key=lambda plan: len(faults(plan, inputs)))
    runtime = inputs.runtime.id
    subject = f"none of the {tally.considered} plans for {inputs.cluster.num_gpus} accelerators; the nearest, {plan},"
    return IllegalPlan(f"{runtime}: {subject}", faults(plan, inputs))
