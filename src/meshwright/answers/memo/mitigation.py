"""Mitigation: the first change to try against the bottleneck, priced again by the planner."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from meshwright.answers.memo.bottleneck import Bottleneck
from meshwright.answers.step_parts import from_peak
from meshwright.cost.estimate import Estimate
from meshwright.cost.step import estimate_each
from meshwright.launch.settings import launch_file
from meshwright.layout.legality import faults
from meshwright.search.sensitivity import Sensitivity
from meshwright.specs.inputs import Inputs

RECOVERS = 0.25
"""Of the bottleneck's seconds: a change that shortens the step by so much is worth trying before a dearer kind."""
LEAST_GAIN = 0.001
"""Of the time of a token."""
KINDS = (
    "a switch of the launch or a change of the layout, and a run to confirm it.",
    "a change of number format: a short run must show that the loss curves agree.",
    "a larger batch: learning rate and warm-up must be tuned again, and beyond the critical batch size more tokens "
    "are needed.",
    "a purchase, or another cluster.",
)
"""What changes cost, the cheapest kind first."""
Before = tuple[Estimate, Inputs, str, float]
"""What is changed: a priced plan, its question, the part of its step that is the bottleneck, and its seconds."""
NUMBERS, BATCH, HARDWARE = ("precision", "gradients"), ("global_batch",), ("network",)


@dataclass(frozen=True)
class Mitigation:
    """One change against the bottleneck."""

    knob: str
    change: str
    """As `overlap.tensor_parallel 0 -> 0.9`."""
    kind: int
    """Row of `KINDS`."""
    inputs: Inputs
    estimate: Estimate
    gain: float
    """Share of the time of a token that it saves."""
    part_before_s: float
    """Of the bottleneck, in the time that the present step's tokens take."""
    part_after_s: float

    @property
    def price(self) -> str:
        """What it costs, in words."""
        return KINDS[self.kind]


def mitigation(
    estimate: Estimate, inputs: Inputs, bottleneck: Bottleneck, sensitivity: Sensitivity
) -> Mitigation | None:
    """Of every single change that fits as safely, and of a batch twice as large: the cheapest kind that takes a
    quarter of the bottleneck's seconds from it and from the step, the one of it that gains most; else the one that
    takes most. None where none saves a thousandth of the step. sensitivity: every single change of the plan, priced.
    """
    part = bottleneck.chosen.part
    before = estimate, inputs, part, from_peak(estimate, inputs)[part]
    priced = [each for each in _changes(before, sensitivity) if each.gain >= LEAST_GAIN]
    helping = [each for each in priced if each.part_after_s < each.part_before_s]
    enough = [each for each in helping if _recovered(each, estimate) >= RECOVERS]
    if enough:
        return min(enough, key=lambda each: (each.kind, -each.gain))
    return max(helping, key=lambda each: _recovered(each, estimate), default=None)


def _recovered(each: Mitigation, estimate: Estimate) -> float:
    """Of the bottleneck's seconds, the share that is gone from it and from the step as well."""
    shorter = each.gain * estimate.step_time_s
    return min(each.part_before_s - each.part_after_s, shorter) / each.part_before_s


def _changes(before: Before, sensitivity: Sensitivity) -> Iterator[Mitigation]:
    estimate, inputs, *_ = before
    for each in sensitivity.changes:
        if _possible(each.knob, inputs) and each.estimate.verdict <= estimate.verdict:
            yield _priced(each.knob, each.change, each.inputs, each.estimate, before)
    plan, job = estimate.plan, inputs.job
    larger = inputs.replace(job=job.replace(global_batch=2 * job.global_batch, assumptions=()))
    doubled = replace(plan, num_microbatches=2 * plan.num_microbatches)
    if not faults(doubled, larger):
        change = f"global batch {job.global_batch} -> {2 * job.global_batch}"
        yield _priced("global_batch", change, larger, estimate_each([doubled], larger)[0], before)


def _possible(knob: str, inputs: Inputs) -> bool:
    """Whether a change can be made where the cluster stands: no more nodes, and overlaps that the runtime has."""
    if knob.startswith("overlap."):
        launch = inputs.runtime.launch
        return bool(launch) and knob.removeprefix("overlap.") in launch_file(launch).overlaps
    return knob != "nodes"


def _priced(knob: str, change: str, changed: Inputs, after: Estimate, before: Before) -> Mitigation:
    estimate, inputs, part, seconds = before
    tokens = changed.job.tokens_per_step / inputs.job.tokens_per_step
    kind = next((row for row, names in enumerate((NUMBERS, BATCH, HARDWARE), 1) if knob in names), 0)
    return Mitigation(
        knob,
        change,
        kind,
        changed,
        after,
        gain=1 - after.step_time_s / tokens / estimate.step_time_s,
        part_before_s=seconds,
        part_after_s=from_peak(after, changed)[part] / tokens,
    )
