"""Screens: the calculators' answers as tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from meshwright.textbook.comparison.rows import PlannerComparison

STYLES = {"safe": "green", "at-risk": "yellow", "out-of-memory": "red"}
UNITS = {"gb": "GB", "bytes": "bytes", "ms": "ms"}


def analysis_screen(answer: dict[str, Any], explain: bool) -> RenderableType:
    """The eleven numbers, each with what it is counted over; with `explain` formulas and the volumes per step too."""
    entries = dict(answer["explanation"])
    if explain:
        entries |= answer["per_step"] | {"bubble_over_ideal": answer["bubble_over_ideal"]}
    table = _table("", ("value", "right"), "unit", "formula; scope" if explain else "scope")
    for key, entry in entries.items():
        unit = "" if entry["unit"] == "yes or no" else entry["unit"]
        scope = f"{entry['formula']}; {entry['scope']}" if explain else entry["scope"]
        table.add_row(key, _value(entry["value"]), unit, scope)
    warning = "The four volumes are counted over different things: never add them."
    more = "" if explain else " --explain gives formulas, and the volumes per step."
    return Group(table, "", Text(warning + more, style="dim"))


def facts_screen(answer: Mapping[str, Any]) -> Table:
    """Keys and values, with the unit that the key ends with."""
    table = _table("", ("value", "right"), "unit")
    for key, value in answer.items():
        table.add_row(
            key, Text(_value(value), style=STYLES.get(value, "") if isinstance(value, str) else ""), _unit(key)
        )
    return table


def space_screen(space: dict[str, Any]) -> RenderableType:
    """The configurations by verdict, and how many the rules of divisibility leave out."""
    columns = ("tp", "pp", "cp", "dp", "states GB", "activations GB", "total GB", "usage")
    numbers: list[tuple[str, Literal["right"]]] = [(name, "right") for name in columns]
    table = _table(*numbers, "verdict")
    for verdict, style in STYLES.items():
        for each in space[verdict]:
            states = each["total_gb"] - each["activations_gb"]
            sizes = (f"{size:.1f}" for size in (states, each["activations_gb"], each["total_gb"]))
            degrees = (str(each[axis]) for axis in ("tp", "pp", "cp", "dp"))
            table.add_row(*degrees, *sizes, f"{each['usage']:.0%}", Text(verdict, style=style))
    counts = ", ".join(f"{len(space[verdict])} {verdict}" for verdict in STYLES)
    refused = "; ".join(f"{rule}: {count}" for rule, count in space["refused"].items() if count)
    head = f"{space['considered']} configurations of {space['num_gpus']} GPUs, {space['legal']} legal: {counts}"
    left_out = [Text(f"Left out, by rule: {refused}", style="dim")] if refused else []
    return Group(Text(head, style="bold"), *left_out, "", table)


def search_screen(answer: dict[str, Any]) -> RenderableType:
    """The best degrees, the runners-up by part, what the planner says, and what the cost model leaves out."""
    dp, tp, pp = answer["best"]
    names = ("dp", "tp", "pp", "ms", "compute ms", "dp ms", "tp ms", "pp ms")
    columns: list[tuple[str, Literal["right"]]] = [(name, "right") for name in names]
    table = _table(*columns)
    for entry in answer["fastest"]:
        parts = (f"{entry['parts'][name]:.4f}" for name in ("compute", "dp", "tp", "pp"))
        table.add_row(*map(str, entry["degrees"]), f"{entry['ms']:.4f}", *parts)
    written = Text(f"{answer['evaluated']} configurations, written to {answer['output']}", style="dim")
    left_out = [Text(f"- {line}") for line in answer["left_out"]]
    return Group(
        Text(f"Best: dp {dp}, tp {tp}, pp {pp} at {answer['ms']:.4f} ms an iteration", style="bold"),
        written,
        "",
        table,
        "",
        *_planner(answer["comparison"]),
        "",
        Text("What this cost model leaves out", style="bold"),
        *left_out,
    )


def comparison_screen(comparison: PlannerComparison) -> RenderableType:
    """Where the planner differs, by how much and why."""
    title = Text("Compared with the planner", style="bold")
    notes = [Text(f"- {note}") for note in comparison.notes]
    if comparison.refused:
        return Group("", title, Text(f"The planner does not price this: {comparison.refused}"), *notes)
    table = _table("", ("closed form", "right"), ("planner", "right"), ("difference", "right"))
    for row in comparison.rows:
        relative = row.to_dict()["relative"]
        name = f"{row.quantity}, {row.unit}" if row.unit else row.quantity
        shown = "" if relative is None else f"{relative:+.1%}"
        table.add_row(name, _value(row.closed_form), _value(row.planner), shown)
    reasons = [Text(f"- {row.quantity}: {row.why}") for row in comparison.rows if row.planner != row.closed_form]
    return Group("", title, table, "", Text("Why", style="bold"), *reasons, *notes)


def _planner(comparison: dict[str, Any]) -> list[RenderableType]:
    title = Text("What the planner says about the same job", style="bold")
    if "missing" in comparison:
        return [title, "It needs more to answer:", *(Text(f"- {line}") for line in comparison["missing"])]
    answers = [_line("its best plan", comparison["planner"]), _line("the degrees above", comparison["same_degrees"])]
    disagreements = [Text(f"- not the same job: {line}", style="yellow") for line in comparison["disagreements"]]
    return [title, *answers, *disagreements]


def _line(name: str, answer: dict[str, Any]) -> Text:
    if "refused" in answer:
        return Text(f"- {name}: {answer['refused']}")
    memory = f"{answer['device_memory_gb']:.1f} GB, {answer['verdict']}"
    return Text(f"- {name}: {answer['plan']}, {answer['step_time_ms']:.1f} ms, MFU {answer['mfu']:.1%}, {memory}")


def _table(*columns: str | tuple[str, Literal["right"]]) -> Table:
    """A plain table; a column is a name, or a name and `right` for numbers."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        if isinstance(column, str):
            table.add_column(column, overflow="fold", no_wrap=not column)
        else:
            table.add_column(column[0], justify=column[1], no_wrap=True)
    return table


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.4f}" if abs(value) < 1e15 else f"{value:.10g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _unit(key: str) -> str:
    return UNITS.get(key.rsplit("_", 1)[-1], "")
