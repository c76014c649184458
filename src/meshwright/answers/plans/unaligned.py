"""Unaligned sizes: which sizes of the model slow a plan's kernels down, what they cost, and what padding them saves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from meshwright.answers.document.blocks import Toned
from meshwright.answers.records import json_of
from meshwright.cost.estimate import Estimate
from meshwright.cost.step import estimate_each
from meshwright.search.changes.padding import Padding, paddings
from meshwright.specs.inputs import Inputs
from meshwright.units import format_bytes, format_seconds

LEAST = 0.001
"""Of the step: what an unaligned size must cost to be named."""


class UnalignedSize(NamedTuple):
    """One size of the model that is not aligned on a rank, and what padding it changes."""

    padding: Padding
    cost_s: float
    """Seconds of a step that padding saves."""
    cost_share: float
    """Of the step."""
    more_bytes: float
    """Device memory that padding takes, on the worst stage; below 0: that it frees."""
    source: str
    """Of what unaligned sizes cost on this accelerator."""
    unfused: bool
    """No fused attention takes heads of that size."""

    @property
    def warning(self) -> str:
        """What is wrong, in one sentence."""
        padding = self.padding
        rank = "" if padding.on_rank == padding.size else f" on a rank ({padding.on_rank})"
        guess = " (assumed here)" if self.source.startswith("assumed") else ""
        size = f"The {padding.name} of {padding.size} is not a multiple of {padding.multiple}{rank}, so"
        if self.unfused:
            return f"{size} no fused attention takes it: its scores are written to memory and kept for backward."
        return f"{size} slower kernels run on it{guess}."

    @property
    def change(self) -> str:
        """What to pad, with its seconds and bytes."""
        saved = f"{format_seconds(self.cost_s)} ({self.cost_share:.1%}) less a step"
        more = f"{format_bytes(abs(self.more_bytes))} {'less' if self.more_bytes < 0 else 'more'} per GPU"
        return f"Pad the {self.padding.name} from {self.padding.size} to {self.padding.padded}: {saved}, {more}."


def unaligned_sizes(estimate: Estimate, inputs: Inputs) -> tuple[UnalignedSize, ...]:
    """The sizes that are not aligned on the ranks of a priced plan and that padding makes faster, the dearest first."""
    source, sizes = inputs.cluster.accelerator.kernels.sources.get("unaligned", "not said"), []
    for each in paddings(estimate.plan, inputs):
        (after,) = estimate_each([estimate.plan], each.inputs)
        saved = estimate.step_time_s - after.step_time_s
        if saved >= LEAST * estimate.step_time_s:
            sizes.append(
                UnalignedSize(
                    padding=each,
                    cost_s=saved,
                    cost_share=saved / estimate.step_time_s,
                    more_bytes=after.memory.device - estimate.memory.device,
                    source=source,
                    unfused=inputs.attention_generation == "eager" != each.inputs.attention_generation,
                )
            )
    return tuple(sorted(sizes, key=lambda each: -each.cost_s))


def unaligned_entry(sizes: Sequence[UnalignedSize]) -> list[dict[str, Any]]:
    """The sizes as JSON, with both sentences."""
    return [_entry(each) for each in sizes]


def _entry(size: UnalignedSize) -> dict[str, Any]:
    fields = size.padding._asdict() | size._asdict()
    del fields["inputs"], fields["padding"]
    return {**json_of(fields), "warning": size.warning, "change": size.change}


def unaligned_lines(sizes: Sequence[UnalignedSize]) -> tuple[str, ...]:
    """The sizes on screen: what each costs, and what to pad."""
    return tuple(Toned(f"**{each.warning}** {each.change}", "warning") for each in sizes)
