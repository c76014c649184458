"""Parts: the seconds of a step by what its rank waits for, measured beside predicted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from meshwright.arrays import FloatColumn
from meshwright.cost.estimate import Estimate
from meshwright.cost.messages import step_messages
from meshwright.cost.step import estimate_plans
from meshwright.layout.plans import Plans
from meshwright.specs.inputs import Inputs
from meshwright.units import parse_seconds
from meshwright.validation.profile.spans import AXES, PARTS, Spans

MICROSECOND = parse_seconds("1us")
NAMES = {
    "products": "matrix products",
    "attention": "attention",
    "elementwise": "element-wise, norms and copies",
    "optimizer": "optimizer step",
    "tp": "exposed tensor-parallel communication",
    "cp": "exposed context-parallel communication",
    "ep": "exposed expert exchange",
    "pp": "stage-to-stage messages and pipeline bubble",
    "dp": "exposed gradient and weight exchange",
    "other": "exposed collectives of groups without a name",
    "idle": "no kernel: the host, and bubbles without a message",
}
"""What the parts are called; in this order they add up to the step."""


class PartOfStep(NamedTuple):
    """One part: seconds of a step."""

    name: str
    measured_s: float
    predicted_s: float | None
    overlapped_s: float
    """Of collectives: what ran beside compute, measured."""
    predicted_overlapped_s: float | None

    @property
    def difference_s(self) -> float:
        """Measured less predicted."""
        return self.measured_s - (self.predicted_s or 0.0)


@dataclass(frozen=True)
class StepParts:
    """A step of a trace, part by part."""

    rank: int | None
    steps: int
    step_s: float
    kernels: int
    parts: tuple[PartOfStep, ...]
    notes: tuple[str, ...]

    @property
    def largest(self) -> PartOfStep | None:
        """The part that differs most; None: nothing is predicted."""
        known = [part for part in self.parts if part.predicted_s is not None]
        return max(known, key=lambda part: abs(part.difference_s), default=None)


def step_parts(spans: Spans, estimate: Estimate | None = None, inputs: Inputs | None = None) -> StepParts:
    """Every instant of the steps counts for one part: for compute where a kernel of it runs, in the order of `PARTS`,
    else for the collective that runs, else for none. The parts add up to the step.
    """
    begin, end, steps, notes = _window(spans)
    if spans.on_host:
        notes.append("it ran on the host: its operators stand for kernels, and what an accelerator would take does not")
        estimate = None
    exposed, busy = _exclusive(spans, begin, end)
    predicted, hidden = _predicted(estimate, inputs) if estimate and inputs else ({}, {})
    notes += _other_stage(spans.rank, estimate) if estimate else []
    scale = MICROSECOND / steps
    parts = [
        PartOfStep(
            name=name,
            measured_s=exposed[name] * scale,
            predicted_s=predicted.get(name, 0.0) if predicted else None,
            overlapped_s=(busy[name] - exposed[name]) * scale if name in AXES else 0.0,
            predicted_overlapped_s=hidden.get(name, 0.0) if predicted and name in AXES else None,
        )
        for name in NAMES
    ]
    shown = tuple(part for part in parts if part.measured_s > 0 or part.predicted_s)
    return StepParts(spans.rank, steps, (end - begin) * scale, spans.count, shown, tuple(notes))


def _other_stage(rank: int | None, estimate: Estimate) -> list[str]:
    """What to know where the trace is of another stage than the prediction."""
    plan, slowest = estimate.plan, estimate.slowest_stage
    if plan.pp == 1:
        return []
    if rank is None or rank >= plan.num_gpus:
        return [f"the trace does not say which stage it is from; the prediction is for stage {slowest}, the slowest"]
    stage = rank * plan.pp // plan.num_gpus
    told = f"the trace is from rank {rank} on stage {stage}; the prediction is for stage {slowest}, the slowest"
    return [told] if stage != slowest else []


def _window(spans: Spans) -> tuple[float, float, int, list[str]]:
    """Begin, end and number of the steps, in microseconds, and what had to be taken for granted."""
    notes = ["the file is cut off; the part before that was read"] if spans.broken else []
    if spans.steps:
        if not spans.on_device and not spans.on_host:
            notes.append("step marks come from the host, which runs ahead of the accelerator")
        begins, ends = zip(*spans.steps.values(), strict=True)
        begin, end = min(begins), max(ends)
        if any(len(starts) and min(starts) < end and max(last) > begin for starts, last in spans.kernels.values()):
            return begin, end, len(spans.steps), notes
        notes.append("its steps hold no kernels")
    starts = min(min(starts) for starts, _ in spans.kernels.values() if starts)
    ends_ = max(max(ends) for _, ends in spans.kernels.values() if ends)
    steps = max(spans.optimizer_steps, 1)
    counted = f"{steps} step{'s' * (steps > 1)}"
    notes.append(f"it has no step marks (prof.step()); the time from first to last kernel is taken as {counted}")
    return starts, max(ends_, starts + 1e-3), steps, notes


def _exclusive(spans: Spans, begin: float, end: float) -> tuple[dict[str, float], dict[str, float]]:
    """Microseconds that every part has for itself, and in which it runs at all."""
    clipped = {part: _clipped(spans, part, begin, end) for part in PARTS}
    edges = np.unique(np.concatenate([[begin, end], *(column for pair in clipped.values() for column in pair)]))
    lengths = np.diff(edges)
    free = np.ones(len(lengths), dtype=bool)
    exposed, busy = {}, {}
    for part, (starts, ends) in clipped.items():
        running = _running(edges, starts, ends)
        busy[part], exposed[part] = float(lengths[running].sum()), float(lengths[running & free].sum())
        free &= ~running
    return exposed | {"idle": float(lengths[free].sum())}, busy


def _clipped(spans: Spans, part: str, begin: float, end: float) -> tuple[FloatColumn, FloatColumn]:
    starts, ends = (np.clip(np.asarray(column, dtype=float), begin, end) for column in spans.kernels[part])
    return starts[ends > starts], ends[ends > starts]


def _running(edges: FloatColumn, starts: FloatColumn, ends: FloatColumn) -> NDArray[np.bool_]:
    """Whether one of the intervals covers the pieces between edges."""
    changes = np.zeros(len(edges), dtype=np.int64)
    np.add.at(changes, np.searchsorted(edges, starts), 1)
    np.add.at(changes, np.searchsorted(edges, ends), -1)
    return np.asarray(np.cumsum(changes)[:-1] > 0)


def _predicted(estimate: Estimate, inputs: Inputs) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds of every part, and of collectives what is hidden; bubbles stand with the messages that wait in them."""
    time, compute = estimate.time, estimate.compute
    kinds = {"products": compute.gemm, "attention": compute.attention, "elementwise": compute.elementwise}
    seconds = {name: float(each) for name, each in kinds.items()}
    seconds |= {axis: float(getattr(time, f"exposed_{axis}_s")) for axis in ("tp", "cp", "ep", "dp")}
    seconds |= {"optimizer": time.optimizer_s, "pp": time.exposed_pp_s + time.bubble_s, "idle": time.host_s}
    rows = step_messages(estimate_plans(Plans.of([estimate.plan]), inputs, keep_all_stages=True))
    hidden = dict.fromkeys(AXES, 0.0)
    for row in rows:
        hidden[row.part] += max(row.seconds - row.exposed_s, 0.0)
    return seconds, hidden
