"""Predictions beside what was measured, configuration by configuration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.components import Components
from meshwright.cost.step import estimate_each
from meshwright.errors import InvalidInput
from meshwright.units import GIB

from .reading import Case, read_case
from .runs import Configuration

STEP_TIME = "step time"
SITE_STEP_TIME = "step time at the site's kernel speed"
PREDICTED_MEMORY = {
    "allocated": lambda memory: memory.allocated,
    "reserved": lambda memory: memory.reserved,
    "device": lambda memory: memory.device,
}
"""What is predicted for each kind of measured memory; other kinds are shown and not scored."""


@dataclass(frozen=True)
class Score:
    """One quantity of one configuration."""

    quantity: str
    unit: str
    measured: float
    predicted: float

    @property
    def error(self) -> float:
        """Predicted over measured, less one: a share."""
        return self.predicted / self.measured - 1


@dataclass(frozen=True)
class Outcome:
    """What became of one configuration: an estimate, or the reason why it cannot be represented."""

    configuration: Configuration
    case: Case | None = None
    estimate: Estimate | None = None
    scores: tuple[Score, ...] = ()
    refusal: str = ""


def outcome_of(configuration: Configuration) -> Outcome:
    """Read a configuration, price it and hold it against what was measured."""
    try:
        case = read_case(configuration.rows[0])
    except InvalidInput as reason:
        return Outcome(configuration, refusal=" ".join(str(reason).split()))
    (estimate,) = estimate_each([case.plan], case.inputs)
    return Outcome(configuration, case, estimate, tuple(_scores(configuration, case, estimate)))


def measured_quantities(configuration: Configuration) -> list[str]:
    """The quantities that could be scored, whether or not the configuration can be represented."""
    time = [STEP_TIME] if configuration.step_time_s is not None else []
    return time + (
        [memory_quantity(configuration.memory_kind)] if configuration.memory_kind in PREDICTED_MEMORY else []
    )


def memory_quantity(kind: str) -> str:
    """What one kind of memory is called in the tables."""
    return f"{kind} memory"


def predicted_gib(memory: Components, kind: str) -> float:
    """Predicted GiB on the worst stage of one kind of memory."""
    return float(PREDICTED_MEMORY[kind](memory)) / GIB


def _scores(configuration: Configuration, case: Case, estimate: Estimate) -> Iterator[Score]:
    seconds, kind, gib = configuration.step_time_s, configuration.memory_kind, configuration.memory_gib
    if seconds is not None:
        yield Score(STEP_TIME, "s", seconds, estimate.step_time_s)
        if case.site_derate > 1:
            yield Score(SITE_STEP_TIME, "s", seconds, _seconds_at_the_site(case))
    if gib is not None and kind in PREDICTED_MEMORY:
        yield Score(memory_quantity(kind), "GiB", gib, predicted_gib(estimate.memory, kind))


def _seconds_at_the_site(case: Case) -> float:
    cluster = case.inputs.cluster.replace(site_derate=case.site_derate)
    return estimate_each([case.plan], case.inputs.replace(cluster=cluster))[0].step_time_s
