"""Bottleneck: which part of the step keeps the job from scaling, decided from its prices here and at the baseline."""

from __future__ import annotations

from dataclasses import dataclass

from meshwright.answers.memo.scaling import Point, Scaling
from meshwright.answers.step_parts import ALL_NAMES, from_peak
from meshwright.cost.estimate import Estimate
from meshwright.specs.inputs import Inputs

GROWS = 0.02
"""Of the target's accelerator-seconds: a part that grows by less, or is less, is not what stops scaling, as predictions
are not told apart by less."""
LOCAL = ("kernels_s", "elementwise_s", "optimizer_s")
"""Parts that one accelerator alone would have too: named only where no other part costs `GROWS` of the step."""


@dataclass(frozen=True)
class Overhead:
    """One part of the step beyond the model's FLOPs at peak."""

    part: str
    """As `answers.step_parts.from_peak` names it."""
    share_before: float
    """Of the accelerator-seconds of the reference's step."""
    share_after: float
    """Of the accelerator-seconds of the target's step."""
    growth: float
    """Accelerator-seconds that the target adds for the same tokens, as a share of its step; perfect scaling: 0."""

    @property
    def name(self) -> str:
        """In words."""
        return ALL_NAMES[self.part]


@dataclass(frozen=True)
class Bottleneck:
    """The part of the step that is named, and how it was found."""

    reference: Point | None
    """What the target is compared with; None where there is nothing smaller."""
    overheads: tuple[Overhead, ...]
    """All parts, that with the largest growth first."""
    chosen: Overhead
    largest: Overhead
    """Of the target's step: of those that one accelerator alone would not have, or of all where these are small."""
    local: Overhead
    """The largest of those that one accelerator alone would have too."""
    seconds: float
    """Of the target's step that it takes."""
    grows: bool
    """Whether it is named for its growth from the reference; else for its size."""
    efficiency: float
    """Accelerator-seconds of the reference for the same tokens, as a share of the target's; perfect scaling: 1."""


def bottleneck(estimate: Estimate, inputs: Inputs, scaled: Scaling, smaller: Point | None) -> Bottleneck:
    """The one part that most likely keeps the plan from perfect scaling.

    Perfect scaling keeps the accelerator-seconds of a token. The part that adds most of them between the reference and
    the target is the bottleneck; where none adds 2 %, the largest part of the target's step that one accelerator
    alone would not have, and where that is less than 2 %, the largest of all. The reference is the same layout on the
    fewest accelerators that are likely to hold it, else the best plan on the fewest that hold one.

    scaled: the layout on fewer accelerators, where it fits; smaller: the best plan on fewer, None where there is none.
    """
    reference = _reference(scaled, smaller, inputs.cluster.num_gpus)
    after = _spent(estimate, inputs, inputs)
    before = _spent(reference.estimate, reference.inputs, inputs) if reference else after
    total_before, total = sum(before.values()), sum(after.values())
    parts = (
        Overhead(part, before[part] / total_before, after[part] / total, (after[part] - before[part]) / total)
        for part in after
        if part != "ideal_s"
    )
    overheads = sorted(parts, key=lambda each: -each.growth)
    grows = overheads[0].growth >= GROWS
    largest = _largest(overheads)
    chosen = overheads[0] if grows else largest
    local = max((each for each in overheads if each.part in LOCAL), key=lambda each: each.share_after)
    seconds, efficiency = after[chosen.part] / inputs.cluster.num_gpus, total_before / total
    return Bottleneck(reference, tuple(overheads), chosen, largest, local, seconds, grows, efficiency)


def _reference(scaled: Scaling, smaller: Point | None, total: int) -> Point | None:
    fewer = [point for point in scaled.strong if point.gpus < total]
    return next(iter(fewer), smaller)


def most_saved(estimate: Estimate, inputs: Inputs, smaller: Point) -> str:
    """The part of the step of which a plan takes fewest accelerator-seconds more, for the same tokens, than one on
    fewer accelerators: in words.
    """
    before, after = _spent(smaller.estimate, smaller.inputs, inputs), _spent(estimate, inputs, inputs)
    return ALL_NAMES[min((part for part in after if part != "ideal_s"), key=lambda part: after[part] - before[part])]


def _spent(estimate: Estimate, inputs: Inputs, target: Inputs) -> dict[str, float]:
    """Accelerator-seconds of every part, for the tokens of the target's step."""
    scale = inputs.cluster.num_gpus * target.job.tokens_per_step / inputs.job.tokens_per_step
    return {part: seconds * scale for part, seconds in from_peak(estimate, inputs).items()}


def _largest(overheads: list[Overhead]) -> Overhead:
    between = [each for each in overheads if each.part not in LOCAL]
    largest = max(between, key=lambda each: each.share_after)
    return largest if largest.share_after >= GROWS else max(overheads, key=lambda each: each.share_after)
