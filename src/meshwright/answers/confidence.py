"""Confidence: how far memory may lie from what is expected, what a verdict has to spare, and where that comes from."""

from __future__ import annotations

from typing import Any, NamedTuple

from rich.text import Text

from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.device import Verdict
from meshwright.specs.inputs import Inputs
from meshwright.units import format_gib

UNCERTAIN = ("fragmentation", "communicators")
"""What is uncertain, by the keys under which a runtime's data says where its figures come from."""


class Confidence(NamedTuple):
    """What the worst stage may hold, in bytes."""

    least_bytes: float
    """When a run is lucky: more than this must fit for anything but out-of-memory."""
    most_bytes: float
    """On the worst rank that was measured: a safe plan fits even then."""
    margin_bytes: float
    """What the verdict has to spare: visible memory less the most of a safe plan, less the least of any other; negative
    where even that does not fit."""


def confidence(estimate: Estimate, inputs: Inputs) -> Confidence:
    """The least and the most that the worst stage may hold, as the verdict reckons them (`cost.memory.device`).

    least = (1 + f_likely) allocated + context + communicators; most = device + (f_safe - f) allocated +
    u communicators, with f the expected fragmentation and u how far communicators may exceed their count.
    """
    memory, margins = estimate.memory, inputs.runtime.memory
    least = (1 + margins.fragmentation_likely) * memory.allocated + memory.context + memory.communicators
    wider = margins.fragmentation_safe - margins.fragmentation
    most = memory.device + wider * memory.allocated + margins.communicator_uncertainty * memory.communicators
    held = most if estimate.verdict == Verdict.SAFE else least
    return Confidence(least, most, inputs.cluster.accelerator.visible_memory_bytes - held)


def confidence_line(estimate: Estimate, inputs: Inputs) -> Text:
    """What the verdict has to spare, and which uncertainty it allows for."""
    known, margins = confidence(estimate, inputs), inputs.runtime.memory
    least, most = format_gib(known.least_bytes), format_gib(known.most_bytes)
    over = format_gib(known.most_bytes - inputs.cluster.accelerator.visible_memory_bytes)
    spared = {
        Verdict.SAFE: f"Sure: even at its most, {most}, it leaves {format_gib(known.margin_bytes)} free.",
        Verdict.AT_RISK: f"Unsure: at its least, {least}, it fits; at its most, {most}, it is {over} over.",
        Verdict.OUT_OF_MEMORY: f"Sure: even at its least, {least}, it is {format_gib(-known.margin_bytes)} over.",
    }[estimate.verdict]
    text = Text(f"{spared} Uncertain: the allocator holds {margins.fragmentation_likely:.1%} to ")
    text.append(f"{margins.fragmentation_safe:.1%} more than live tensors, communicators up to ")
    return text.append(f"{1 + margins.communicator_uncertainty:g} times what is counted.")


def confidence_entry(estimate: Estimate, inputs: Inputs) -> dict[str, Any]:
    """The confidence as it stands in the plan file of `explain`, with the sources of its figures."""
    sources = [inputs.runtime.sources[key] for key in UNCERTAIN if key in inputs.runtime.sources]
    return {**confidence(estimate, inputs)._asdict(), "sources": sources}
