"""Everything behind the summary: each configuration, what was assumed, and what cannot be represented."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from .scoring import PREDICTED_MEMORY, Outcome, predicted_gib


def print_scores(outcomes: Iterable[Outcome]) -> None:
    """One line per configuration and quantity."""
    print(f"{'run':17} {'model':15.15} {'plan':47} {'measured':>9} {'predicted':>12}  error")
    for outcome in outcomes:
        for score in outcome.scores:
            figures = f"{score.measured:7.3f} {score.unit:3} {score.predicted:7.3f} {score.unit:3} {score.error:+7.1%}"
            apart = "" if outcome.configuration.quality == "ok" else f"  apart: {outcome.configuration.quality}"
            print(f"{_label(outcome)} {figures}{apart}")


def print_unscored_memory(outcomes: Iterable[Outcome]) -> None:
    """Memory of a kind that its source does not name, beside every kind that is predicted."""
    print("\nMemory of unknown kind, GiB, not scored")
    for outcome in outcomes:
        given, estimate = outcome.configuration, outcome.estimate
        if estimate and given.memory_gib is not None and given.memory_kind not in PREDICTED_MEMORY:
            kinds = ", ".join(f"{kind} {predicted_gib(estimate.memory, kind):5.1f}" for kind in PREDICTED_MEMORY)
            print(f"{_label(outcome)} measured {given.memory_gib:5.1f}, predicted {kinds}")


def print_assumptions(outcomes: Iterable[Outcome]) -> None:
    """What the rows of each dataset do not print or what is left out, with the number of configurations."""
    print("\nAssumed, with the number of configurations")
    found: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for outcome in outcomes:
        for said in outcome.case.assumed if outcome.case else ():
            found[outcome.configuration.dataset][said] += 1
    for dataset, counts in found.items():
        for said, count in counts.items():
            print(f"{dataset:13} {count:4} {said}")


def print_refusals(outcomes: Iterable[Outcome]) -> None:
    """Why configurations are not represented, with the ids of all their rows."""
    print("\nNot represented")
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.refusal:
            ids = [row["id"] for row in outcome.configuration.rows]
            found[outcome.configuration.dataset, outcome.refusal] += ids
    for (dataset, reason), ids in found.items():
        print(f"{dataset}, {len(ids)} rows: {reason} ({', '.join(ids)})")


def print_wrong_verdicts(outcomes: Iterable[Outcome]) -> None:
    """Runs that fitted and are called out-of-memory, and runs that did not fit and are called something else."""
    print("\nWrong verdicts")
    for outcome in outcomes:
        if outcome.estimate and outcome.estimate.verdict.fits != outcome.configuration.fits:
            happened = "fitted" if outcome.configuration.fits else "ran out of memory"
            print(f"{_label(outcome)} {happened}, called {outcome.estimate.verdict}")


def _label(outcome: Outcome) -> str:
    given, plan = outcome.configuration, outcome.case.plan if outcome.case else ""
    return f"{given.id:17} {given.rows[0]['model']:15.15} {plan!s:47}"
