"""Whether schedules come out in the order in which they were measured, where nothing but the schedule differs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from meshwright.validation.outcomes import Outcome

ALIKE = (
    *("dataset", "source", "model", "layers", "num_gpus", "tp", "pp", "cp", "dp", "ep", "micro_batch_size"),
    *("global_batch_size", "seq_len", "precision", "recompute", "quality"),
)
"""Columns in which the runs of one group agree."""


class Ordered(NamedTuple):
    """Runs that differ in their schedules alone, fastest measured first."""

    dataset: str
    runs: tuple[tuple[str, float, float], ...]
    """Schedule, measured and predicted seconds of a step."""

    @property
    def right(self) -> bool:
        """No run that was measured to be faster than another is predicted to be as slow or slower."""
        return all(fast[2] < slow[2] for fast in self.runs for slow in self.runs if fast[1] < slow[1])


def schedule_orders(outcomes: Sequence[Outcome]) -> list[Ordered]:
    """The groups in which two or more schedules were measured."""
    groups: dict[tuple[str, ...], list[tuple[str, float, float]]] = defaultdict(list)
    for outcome in outcomes:
        row = outcome.configuration.rows[0]
        if outcome.step_time and outcome.sound:
            run = (row["schedule"], outcome.step_time.measured, outcome.step_time.predicted)
            groups[tuple(row[name] for name in ALIKE)].append(run)
    orders = [Ordered(key[0], tuple(sorted(runs, key=lambda run: run[1]))) for key, runs in groups.items()]
    return [order for order in orders if len({run[0] for run in order.runs}) > 1]
