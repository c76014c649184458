"""The summary: errors by quantity and dataset, their means, and the verdicts."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence

from meshwright.cost.memory.device import Verdict

from .runs import GROUPS
from .scoring import STEP_TIME, Outcome, measured_quantities

HEAD = f"{'quantity':36} {'dataset':13} {'n':>4} {'rows':>8} {'mean':>7} {'median':>7} {'bias':>7} {'worst':>7}"


def errors_of(outcomes: Sequence[Outcome]) -> dict[str, dict[str, list[float]]]:
    """Errors (shares) of every represented configuration by quantity and dataset."""
    errors: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for outcome in outcomes:
        for score in outcome.scores:
            errors[score.quantity][outcome.configuration.dataset].append(score.error)
    return errors


def mean_error(errors: Sequence[float]) -> float:
    """Mean of the absolute errors, a share."""
    return statistics.mean(map(abs, errors))


def print_summary(outcomes: Sequence[Outcome]) -> None:
    """Scored configurations, then the means of the datasets' means, the ones scored apart and the verdicts."""
    print("\n" + HEAD)
    sound = [outcome for outcome in outcomes if outcome.configuration.quality == "ok"]
    _print_errors(sound)
    for group in GROUPS:
        members = [outcome for outcome in sound if outcome.configuration.group == group]
        for quantity, errors in errors_of(members).items():
            mean = statistics.mean(map(mean_error, errors.values()))
            print(f"{quantity:36} {group}, mean of {len(errors)} datasets' means: {mean:.1%}")
    _print_precisions(sound)
    for quality in dict.fromkeys(outcome.configuration.quality for outcome in outcomes):
        apart = [outcome for outcome in outcomes if outcome.configuration.quality == quality != "ok"]
        if errors_of(apart):
            print(f"scored apart, {quality}:")
            _print_errors(apart)
    _print_verdicts(outcomes)


def _print_precisions(outcomes: Sequence[Outcome]) -> None:
    """Errors of step time by group, dataset and precision, where a dataset has several."""
    errors: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for outcome in outcomes:
        if outcome.case:
            given, recipe = outcome.configuration, outcome.case.inputs.job.precision
            times = [score.error for score in outcome.scores if score.quantity == STEP_TIME]
            errors[given.group, given.dataset][recipe] += times
    for (group, dataset), recipes in errors.items():
        for name, each in recipes.items() if len(recipes) > 1 else ():
            print(f"{STEP_TIME + ', ' + group:36} {dataset:13} {len(each):4} {name:>8} {_figures(each)}")


def _figures(errors: Sequence[float]) -> str:
    median, bias, worst = statistics.median(map(abs, errors)), statistics.mean(errors), max(errors, key=abs)
    return f"{mean_error(errors):7.1%} {median:7.1%} {bias:+7.1%} {worst:+7.1%}"


def _print_errors(outcomes: Sequence[Outcome]) -> None:
    for quantity, datasets in errors_of(outcomes).items():
        for dataset, errors in datasets.items():
            rows = f"{_rows(outcomes, quantity, dataset, True)}/{_rows(outcomes, quantity, dataset, False)}"
            print(f"{quantity:36} {dataset:13} {len(errors):4} {rows:>8} {_figures(errors)}")


def _rows(outcomes: Sequence[Outcome], quantity: str, dataset: str, represented: bool) -> int:
    """Published rows with that quantity: all, or those of represented configurations."""
    return sum(
        len(outcome.configuration.rows)
        for outcome in outcomes
        if outcome.configuration.dataset == dataset
        and any(quantity.startswith(each) for each in measured_quantities(outcome.configuration))
        and (outcome.estimate or not represented)
    )


def _print_verdicts(outcomes: Sequence[Outcome]) -> None:
    """How the configurations that fitted, and those that ran out of memory, are called, by dataset."""
    counts: dict[tuple[bool, str], dict[Verdict, int]] = defaultdict(lambda: defaultdict(int))
    for outcome in outcomes:
        if outcome.estimate:
            counts[outcome.configuration.fits, outcome.configuration.dataset][outcome.estimate.verdict] += 1
    for fits in (True, False):
        for (fitted, dataset), verdicts in counts.items():
            if fitted == fits:
                called = ", ".join(f"{verdict} {verdicts[verdict]}" for verdict in Verdict if verdicts[verdict])
                print(f"{'fitted' if fits else 'ran out of memory'}, {dataset}: called {called}")
