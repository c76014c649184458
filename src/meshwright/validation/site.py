"""Site: how fast kernels run on a user's own site, from runs that were measured there."""

from __future__ import annotations

import math
import statistics
from pathlib import Path

from meshwright.cost.step import estimate_each
from meshwright.errors import InvalidInput
from meshwright.specs.inputs import Inputs
from meshwright.specs.predictive import weight_of_runs
from meshwright.specs.residuals import like, residuals
from meshwright.validation.outcomes import Outcome, outcomes_of
from meshwright.validation.rows.configurations import configurations
from meshwright.validation.rows.reading import Case
from meshwright.validation.rows.siblings import as_known
from meshwright.validation.rows.table import read_rows

FASTEST, SLOWEST = 0.5, 8.0
"""Bounds of the search for a site's factor: kernel times there over those on other sites."""
CLOSE = 1e-4
NO_TIME = "no step time is printed"
SHOWN, MORE = 2, "; ..."
"""Runs that are of no use and are named, and what stands for the others."""


def with_measured_runs(inputs: Inputs, path: Path) -> Inputs:
    """The same question with the site's factor on kernel times: f^k, f the median of those that make the runs'
    predictions right and k how much so many runs count beside how sites differ (`weight_of_runs`). Communication is
    left as it is.

    path: a table of measured runs, as `validate` takes it; where it does not say how experts share tokens, they do as
    is usual in training, since these are no published benchmarks. Raises `InvalidInput` if it holds no run with a step
    time that can be predicted, a run on another accelerator, or one that no speed of kernels explains.
    """
    rows = [row | {"routing": row["routing"] or "natural"} for row in read_rows(path)]
    outcomes = outcomes_of(configurations(as_known(rows)))
    timed = [outcome for outcome in outcomes if outcome.step_time]
    if not timed:
        reasons = "; ".join(dict.fromkeys(each.refusal or NO_TIME for each in outcomes)) or "no rows"
        raise InvalidInput(f"--measured {str(path)!r} has no run whose step time can be predicted: {reasons}")
    factors = [_factor(outcome, outcome.case, inputs) for outcome in timed if outcome.case]
    median, runs = statistics.median(factors), len(factors)
    derate = median ** weight_of_runs(like(inputs), residuals("step_time"), runs)
    factor = (
        f"kernels on this site take {derate:.3g} times as long as on other sites: {median:.3g} times by {runs} of its "
        "own runs, weighed with how sites and runs of one site differ"
    )
    if unused := [f"{each.configuration.id}: {each.refusal or NO_TIME}" for each in outcomes if not each.step_time]:
        more = MORE if len(unused) > SHOWN else ""
        factor += f"; not by {len(unused)} others of the table ({'; '.join(unused[:SHOWN])}{more})"
    cluster = inputs.cluster
    return inputs.replace(
        cluster=cluster.replace(site_derate=derate, measured_runs=runs, assumptions=(*cluster.assumptions, factor))
    )


def _factor(outcome: Outcome, case: Case, inputs: Inputs) -> float:
    """The factor on kernel times that makes one run's prediction right."""
    run, asked = case.inputs.cluster.accelerator.id, inputs.cluster.accelerator.id
    name, measured = outcome.configuration.id, outcome.step_time.measured if outcome.step_time else 0.0
    if run != asked:
        raise InvalidInput(f"run {name} was measured on {run}, and the question is about {asked}; give runs on {asked}")
    low, high = FASTEST, SLOWEST

    def seconds(factor: float) -> float:
        cluster = case.inputs.cluster.replace(site_derate=factor)
        return estimate_each([case.plan], case.inputs.replace(cluster=cluster))[0].step_time_s

    least, most = seconds(low), seconds(high)
    if not least <= measured <= most:
        raise InvalidInput(
            f"run {name} took {measured:.4g} s per step; with kernels {1 / FASTEST:g} times as fast to "
            f"{SLOWEST:g} times as slow it is predicted to take {least:.4g} to {most:.4g} s. Is its row right?"
        )
    while high / low > 1 + CLOSE:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if seconds(middle) < measured else (low, middle)
    return math.sqrt(low * high)
