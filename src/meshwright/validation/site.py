"""Site: what a user's own measured runs say about the speed of his kernels."""

from __future__ import annotations

import math
import statistics
from pathlib import Path

from meshwright.cost.step import estimate_each
from meshwright.errors import InvalidInput
from meshwright.specs.inputs import Inputs
from meshwright.validation.rows.configurations import configurations
from meshwright.validation.rows.reading import Case
from meshwright.validation.rows.table import read_rows
from meshwright.validation.score.outcomes import Outcome, outcomes_of

FASTEST, SLOWEST = 0.5, 8.0
"""Times of a site's kernels over those of other sites, between which its own is sought."""
CLOSE = 1e-4


def with_measured_runs(inputs: Inputs, path: Path) -> Inputs:
    """The question on a site of which runs were measured: kernels as fast as makes the runs' predictions right.

    The site's factor is the median over the runs; what lies beside kernels stays. path: a table of measured runs, as
    `validate` takes it. Raises `InvalidInput` if it holds no run with a step time that can be predicted, a run on
    another accelerator, or one that no speed of kernels explains.
    """
    outcomes = outcomes_of(configurations(read_rows(path)))
    timed = [outcome for outcome in outcomes if outcome.step_time]
    if not timed:
        reasons = "; ".join(dict.fromkeys(each.refusal or "no step time is printed" for each in outcomes)) or "no rows"
        raise InvalidInput(f"--measured {str(path)!r} holds no run that tells how fast kernels are: {reasons}")
    factors = [_factor(outcome, outcome.case, inputs) for outcome in timed if outcome.case]
    derate, runs = statistics.median(factors), len(factors)
    told = f"kernels of this site take {derate:.3g} times what they take on others, by {runs} of its own runs"
    cluster = inputs.cluster
    return inputs.replace(
        cluster=cluster.replace(site_derate=derate, measured_runs=runs, assumptions=(*cluster.assumptions, told))
    )


def _factor(outcome: Outcome, case: Case, inputs: Inputs) -> float:
    """Times of kernels that make one run's prediction right."""
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
            f"run {name} took {measured:.4g} s a step, and with kernels from {1 / FASTEST:g} times as fast to "
            f"{SLOWEST:g} times as slow it is predicted to take {least:.4g} to {most:.4g} s; is its row right?"
        )
    while high / low > 1 + CLOSE:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if seconds(middle) < measured else (low, middle)
    return math.sqrt(low * high)
