"""Mitigation: the first switch of the launch to try, and the part of the step that it makes shorter."""

from __future__ import annotations

from dataclasses import dataclass

from meshwright.answers.memo.bottleneck import Bottleneck
from meshwright.answers.plans.switches import Switch, Switches
from meshwright.answers.step_parts import ALL_NAMES, from_peak
from meshwright.cost.estimate import Estimate
from meshwright.specs.inputs import Inputs


@dataclass(frozen=True)
class Mitigation:
    """A switch, and one part of the step before and after it."""

    switch: Switch
    part: str
    """As `from_peak` names it: the bottleneck where a switch makes it shorter by at least half of what it gains most,
    else where it gains most."""
    part_before_s: float
    part_after_s: float

    @property
    def part_name(self) -> str:
        """The part in words."""
        return ALL_NAMES[self.part]


def mitigation(switches: Switches, estimate: Estimate, inputs: Inputs, bottleneck: Bottleneck) -> Mitigation | None:
    """The first change to try, which costs nothing but a run; None where no switch is worth one."""
    first = switches.first
    if first is None:
        return None
    before, after = from_peak(estimate, inputs), from_peak(first.estimate, first.inputs)
    # What stages differ in is below 0, and left out, where the slowest computes less than the mean of all.
    saved = {part: before[part] - seconds for part, seconds in after.items() if seconds >= 0}
    most = max(saved, key=lambda part: saved[part])
    limiting = bottleneck.chosen.part
    part = limiting if saved.get(limiting, 0.0) >= saved[most] / 2 else most
    return Mitigation(first, part, before[part], after[part])
