"""Screens: the calculators' answers as blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from meshwright.answers.document.blocks import Block, Bullets, Heading, Lines, Paragraph, Table, Toned
from meshwright.answers.screen import TONE_OF

if TYPE_CHECKING:
    from meshwright.textbook.comparison.rows import PlannerComparison

UNITS = {"gb": "GB", "bytes": "bytes", "ms": "ms"}


def analysis_screen(answer: dict[str, Any], explain: bool) -> tuple[Block, ...]:
    """The eleven numbers, each with what it is counted over; with `explain` formulas and the volumes per step too."""
    entries = dict(answer["explanation"])
    if explain:
        entries |= answer["per_step"] | {"bubble_over_ideal": answer["bubble_over_ideal"]}
    rows = tuple(
        (
            key,
            _value(entry["value"]),
            "" if entry["unit"] == "yes or no" else entry["unit"],
            f"{entry['formula']}; {entry['scope']}" if explain else entry["scope"],
        )
        for key, entry in entries.items()
    )
    more = "" if explain else " --explain gives formulas, and the volumes per step."
    return (
        Table(("", "value", "unit", "formula; scope" if explain else "scope"), rows, align="wrll"),
        Paragraph(f"The four volumes are counted over different things: never add them.{more}"),
    )


def facts_screen(answer: Mapping[str, Any]) -> Table:
    """Keys and values, with the unit that the key ends with."""
    rows = ((key, _toned(_value(value)), UNITS.get(key.rsplit("_", 1)[-1], "")) for key, value in answer.items())
    return Table(("", "value", "unit"), tuple(rows), align="wrl")


def judged_by(memory_gb: float, given: float | None, cluster: str | None) -> Paragraph:
    """Which memory the verdict is about. given: by a flag, 1e9 bytes; cluster: as it was asked for."""
    origin = "--gpu-memory-gb" if given is not None else f"--cluster {cluster}" if cluster else ""
    why = f"as {origin} says" if origin else "the usual A100 or H100; --gpu-memory-gb or --cluster says another"
    return Paragraph(f"Judged by a GPU of {memory_gb:g} GB, {why}: safe up to 80 % of it, at risk up to all of it.")


def space_screen(space: dict[str, Any]) -> tuple[Block, ...]:
    """The configurations by verdict, the least usage first, and how many the rules of divisibility leave out."""
    degrees, sizes = ("tp", "pp", "cp", "dp"), ("states GB", "activations GB", "total GB")
    rows = tuple(
        (
            *(str(each[axis]) for axis in degrees),
            f"{each['total_gb'] - each['activations_gb']:.1f}",
            f"{each['activations_gb']:.1f}",
            f"{each['total_gb']:.1f}",
            f"{each['usage']:.0%}",
            _toned(verdict),
        )
        for verdict in TONE_OF
        for each in sorted(space[verdict], key=lambda each: each["usage"])
    )
    counts = ", ".join(f"{len(space[verdict])} {verdict}" for verdict in TONE_OF)
    refused = "; ".join(f"{rule}: {count}" for rule, count in space["refused"].items() if count)
    head = f"{space['considered']} configurations of {space['num_gpus']} GPUs, {space['legal']} legal: {counts}"
    return (
        Lines((f"**{head}**", *([f"Left out, by rule: {refused}"] if refused else []))),
        Table((*degrees, *sizes, "usage", "verdict"), rows, align="rrrrrrrrl"),
    )


def search_screen(answer: dict[str, Any]) -> tuple[Block, ...]:
    """The best degrees, the runners-up by part, what the planner says, and what the cost model leaves out."""
    dp, tp, pp = answer["best"]
    parts = ("compute", "dp", "tp", "pp")
    rows = tuple(
        (*map(str, each["degrees"]), f"{each['ms']:.4f}", *(f"{each['parts'][part]:.4f}" for part in parts))
        for each in answer["fastest"]
    )
    best = f"Best: dp {dp}, tp {tp}, pp {pp} at {answer['ms']:.4f} ms an iteration"
    written = f"{answer['evaluated']} configurations, written to {answer['output']}"
    return (
        Lines((f"**{best}**", written)),
        Table(("dp", "tp", "pp", "ms", *(f"{part} ms" for part in parts)), rows, align="r" * 8),
        Heading("What the planner says about the same job", 2),
        Lines(_planner(answer["comparison"])),
        Heading("What this cost model leaves out", 2),
        Bullets(tuple(answer["left_out"])),
    )


def comparison_screen(comparison: PlannerComparison) -> tuple[Block, ...]:
    """Where the planner differs, by how much and why."""
    title = Heading("Compared with the planner", 2)
    if comparison.refused:
        notes = (f"- {note}" for note in comparison.notes)
        return title, Lines((f"The planner does not price this: {comparison.refused}", *notes))
    rows = tuple(
        (
            f"{row.quantity}, {row.unit}" if row.unit else row.quantity,
            _value(row.closed_form),
            _value(row.planner),
            "" if row.relative is None else f"{row.relative:+.1%}",
        )
        for row in comparison.rows
    )
    reasons = (f"{row.quantity}: {row.why}" for row in comparison.rows if row.difference)
    return (
        title,
        Table(("", "closed form", "planner", "difference"), rows, align="wrrr"),
        Heading("Why", 2),
        Bullets((*reasons, *comparison.notes)),
    )


def _planner(comparison: dict[str, Any]) -> tuple[str, ...]:
    if "missing" in comparison:
        return "It needs more to answer:", *(f"- {line}" for line in comparison["missing"])
    answers = _line("its best plan", comparison["planner"]), _line("the degrees above", comparison["same_degrees"])
    return *answers, *(Toned(f"- not the same job: {line}", "warning") for line in comparison["disagreements"])


def _line(name: str, answer: dict[str, Any]) -> str:
    if "refused" in answer:
        return f"- {name}: {answer['refused']}"
    memory = f"{answer['device_memory_gb']:.1f} GB, {answer['verdict']}"
    return f"- {name}: {answer['plan']}, {answer['step_time_ms']:.1f} ms, MFU {answer['mfu']:.1%}, {memory}"


def _toned(text: str) -> str:
    """A verdict in its tone; any other text as it is."""
    return Toned(text, TONE_OF[text]) if text in TONE_OF else text


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.4f}" if abs(value) < 1e15 else f"{value:.10g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
