"""Varied plan: what changed against the saved one, and what that does to time and memory; JSON and screen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from meshwright.answers.document.blocks import Block, Lines, Table
from meshwright.answers.records import priced_plan
from meshwright.answers.screen import verdict_cell
from meshwright.answers.step_parts import ALL_NAMES, from_peak
from meshwright.cost.estimate import Estimate
from meshwright.search.changes.question_knobs import FieldChange
from meshwright.search.changes.variation import Variation
from meshwright.units import GIB, format_seconds

LEAST_SHARE = 0.005
"""Of the step, or of the memory, below which the difference of a part is not shown."""


def variation_lines(variation: Variation) -> Iterator[str]:
    """What was changed, and what follows from that."""
    yield f"Changed: **{_words(variation.named) or 'nothing'}**"
    if variation.follows:
        yield f"This also changes: {_words(variation.follows)}"


def _words(changes: Sequence[FieldChange]) -> str:
    return ", ".join(map(str, changes))


def variation_section(estimate: Estimate, variation: Variation) -> tuple[Block, ...]:
    """What changed, and a table of the step, its parts and the memory, saved and varied."""
    saved = variation.saved_estimate
    before, after = from_peak(saved, variation.saved_inputs), from_peak(estimate, variation.inputs)
    rows = [_row("step", saved.step_time_s, estimate.step_time_s, format_seconds)]
    for name, seconds in after.items():
        if abs(seconds - before[name]) >= LEAST_SHARE * saved.step_time_s:
            rows.append(_row(f"  {ALL_NAMES[name]}", before[name], seconds, format_seconds))
    pace, now = saved.tokens_per_s_per_gpu, estimate.tokens_per_s_per_gpu
    rows.append(_row("tokens/s per GPU", pace, now, lambda value: f"{value:,.0f}"))
    rows.append(_row("MFU, %", 100 * saved.mfu, 100 * estimate.mfu, lambda value: f"{value:.1f}"))
    rows.append(_row("memory, GiB", saved.memory.device, estimate.memory.device, _gib))
    for name, size in estimate.memory._asdict().items():
        less = getattr(saved.memory, name)
        if abs(size - less) >= LEAST_SHARE * saved.memory.device:
            rows.append(_row(f"  {name.replace('_', ' ')}", less, size, _gib))
    rows.append(("verdict", verdict_cell(saved.verdict), verdict_cell(estimate.verdict), ""))
    table = Table(("", "saved", "varied", "difference"), tuple(rows), caption="Against the saved plan")
    return Lines((*variation_lines(variation), f"Saved: {variation.saved}")), table


def _row(name: str, before: float, after: float, written: Callable[[float], str]) -> tuple[str, ...]:
    more = after - before
    share = f" ({more / before:+z.1%})" if before and not name.startswith(" ") and "%" not in name else ""
    sign = "-" if more < 0 else "+"
    return name, written(before), written(after), f"{sign}{written(abs(more))}{share}"


def _gib(size: float) -> str:
    return f"{size / GIB:.1f}"


def variation_entry(estimate: Estimate, variation: Variation) -> dict[str, Any]:
    """The same for JSON: differences are of the varied plan over the saved one, and add up."""
    saved = variation.saved_estimate
    before, after = from_peak(saved, variation.saved_inputs), from_peak(estimate, variation.inputs)
    less = saved.memory._asdict()
    return {
        "changed": [change._asdict() for change in variation.named],
        "follows": [change._asdict() for change in variation.follows],
        "saved": priced_plan(saved),
        "differences": {
            "step_time_s": estimate.step_time_s - saved.step_time_s,
            "from_peak": {name: seconds - before[name] for name, seconds in after.items()},
            "device_bytes": estimate.memory.device - saved.memory.device,
            "memory": {name: size - less[name] for name, size in estimate.memory._asdict().items()},
        },
    }
