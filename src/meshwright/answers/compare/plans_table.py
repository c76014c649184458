"""Named plans side by side, as JSON and on a screen: every number of each, and its difference to the first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from meshwright.answers.basis.assumptions import assumptions
from meshwright.answers.compare.attributed import attributed
from meshwright.answers.compare.dropped import drops_tokens
from meshwright.answers.compare.plans import Column, PlanComparison
from meshwright.answers.document.blocks import Block, Lines, Table, Toned
from meshwright.answers.experts.routing import routing_lines
from meshwright.answers.plan_file import plan_entry
from meshwright.answers.plans.ties import unpublished_lines
from meshwright.answers.records import document_of, priced_plan
from meshwright.answers.screen import TOTALS, assumption_list, headline, verdict_cell
from meshwright.answers.step_parts import ALL_NAMES
from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.components import Components
from meshwright.search.changes.variation import question_changes
from meshwright.units import GIB, format_count, format_seconds

SCHEMA = "meshwright.compared-plans/1"
SHORT_LABEL = 5
"""Characters of names of which three plans and two differences stand in 80 columns beside what they are; else two."""
NOTHING = 1e-6
"""Of the first plan's step or memory, below which a difference is none and a part is left out."""
SUMS = TOTALS.values()
MEMORY = tuple(filter(None, (each for name in Components._fields for each in (name, TOTALS.get(name)))))
"""Components in the order in which they add up, and their sums."""


def plans_document(comparison: PlanComparison) -> dict[str, Any]:
    """The question, every plan with its price and the rules that it breaks, the differences to the first, and which is
    the best; numbers of a plan without a price are null.
    """
    inputs = comparison.inputs
    plans = [
        {
            "name": column.label,
            "file": column.named.file,
            "plan": column.named.plan,
            "differs": question_changes(inputs, column.named.inputs),
            "drops_tokens": drops_tokens(column.named.inputs),
            "legal": not column.broken,
            "broken": [{"rule": fault.where, "reason": fault.what} for fault in column.broken],
            "price": plan_entry(column.estimate, column.named.inputs) if column.estimate else None,
            "from_peak": column.parts or None,
            "training": column.training,
            "contradiction": column.contradiction,
        }
        for column in comparison.columns
    ]
    return document_of(
        schema=SCHEMA,
        inputs=inputs,
        plans=plans,
        differences=[_more(comparison.reference, other) for other in comparison.others],
        best=comparison.best.label if comparison.best else None,
        recommended=priced_plan(comparison.recommended) if comparison.recommended else None,
        conclusion=" ".join(comparison.sentences),
        assumptions=_assumptions(comparison),
    )


def _more(first: Column, other: Column) -> dict[str, Any]:
    """What the other has more than the first: seconds by part, which add up to the step, and bytes by component."""
    names = {"name": other.label, "to": first.label}
    if first.estimate is None or other.estimate is None:
        return names | dict.fromkeys(("step_time_s", "time", "memory", "device_bytes"))
    before, after = first.estimate.memory, other.estimate.memory
    return names | {
        "step_time_s": other.estimate.step_time_s - first.estimate.step_time_s,
        "time": {name: other.parts[name] - seconds for name, seconds in first.parts.items()},
        "memory": {name: more - less for name, more, less in zip(after._fields, after, before, strict=True)},
        "device_bytes": after.device - before.device,
    }


def plans_screen(comparison: PlanComparison) -> tuple[Block, ...]:
    """The question, the plans with the rules that they break, the tables, which is better, and the assumptions."""
    inputs, others = comparison.inputs, comparison.others
    width = 2 if all(len(column.label) <= SHORT_LABEL for column in comparison.columns) else 1
    tables: list[Table] = []
    for start in range(0, len(others), width):
        columns = [comparison.reference, *others[start : start + width]]
        tables.append(_speed(columns, inputs.job.tokens))
        priced = [column for column in columns if column.estimate]
        if len(priced) > bool(start):
            tables += [_time(priced), _memory(priced)]
    first, *more = comparison.sentences
    return (
        headline(inputs),
        Lines(tuple(_legend(comparison))),
        *tables,
        Lines((f"**{first}**", *more)),
        *assumption_list(_assumptions(comparison)),
    )


def _assumptions(comparison: PlanComparison) -> list[str]:
    """What the prices of all plans rest on, each once, with the plans that it holds for where it is not all."""
    return attributed({column.label: assumptions(column.named.inputs) for column in comparison.columns})


def _legend(comparison: PlanComparison) -> Iterator[str]:
    """What each column is, and why it could not run."""
    for column in comparison.columns:
        file = f" ({column.named.file})" if column.named.file else ""
        changes = question_changes(comparison.inputs, column.named.inputs)
        question = "".join(f", {change.name} {change.after}" for change in changes)
        yield f"**{column.label}**: {column.named.plan}{question}{file}"
        for fault in column.broken:
            yield Toned(f"  breaks {fault}", "bad")
        if column.broken:
            yield "  priced as if it were legal" if column.estimate else "  not priced: its numbers would mean nothing"
        if column.contradiction:
            yield Toned(f"  {column.contradiction.sentence}", "bad")
        if column.estimate:
            yield from (f"  {line}" for line in routing_lines(column.estimate, column.named.inputs))
            yield from (f"  {line}" for line in unpublished_lines(column.estimate, column.named.inputs))


def _speed(columns: Sequence[Column], tokens: int | None) -> Table:
    verdicts = [verdict_cell(each.estimate.verdict) if each.estimate else "-" for each in columns]
    legal = ["yes" if not column.broken else Toned("no", "bad") for column in columns]
    rows = [("legal", *_spread(legal)), ("verdict", *_spread(verdicts))]
    dropping = [drops_tokens(column.named.inputs) for column in columns]
    if any(dropping):
        rows.append(("drops tokens", *_spread(["yes" if drops else "no" for drops in dropping])))
    for name, number, written in (
        ("step", lambda each: each.step_time_s, format_seconds),
        ("tokens/s per GPU", lambda each: each.tokens_per_s_per_gpu, lambda value: f"{value:,.0f}"),
        ("MFU, %", lambda each: 100 * each.mfu, lambda value: f"{value:.1f}"),
    ):
        rows.append(_row(name, _numbers(columns, number), written))
    if tokens:
        days = [column.training.days if column.training else None for column in columns]
        rows.append(_row(f"days for {format_count(tokens)} tokens", days, lambda value: f"{value:,.1f}"))
    return _table("", columns, rows)


def _time(columns: Sequence[Column]) -> Table:
    """Every part of the step, from the ideal on."""
    steps, rows = _numbers(columns, lambda estimate: estimate.step_time_s), []
    for name, called in ALL_NAMES.items():
        seconds = [column.parts.get(name, 0.0) if column.estimate else None for column in columns]
        if any(abs(part or 0.0) > NOTHING * (step or 1.0) for part, step in zip(seconds, steps, strict=True)):
            rows.append(_row(called, seconds, format_seconds, max(filter(None, steps))))
    rows.append(_row("= step", steps, format_seconds))
    return _table("time of one step", columns, rows, total=True)


def _memory(columns: Sequence[Column]) -> Table:
    """Every component of the worst stage."""
    stages = [str(column.estimate.worst_stage) if column.estimate else "-" for column in columns]
    rows = [("stage", *_spread(stages))]
    for name in MEMORY:
        sizes = [float(getattr(each.estimate.memory, name)) if each.estimate else None for each in columns]
        if any(sizes):
            cells = _row(f"= {name}" if name in SUMS else name.replace("_", " "), sizes, _gib)
            rows.append(tuple(f"**{cell}**" for cell in cells) if name in SUMS else cells)
    return _table("memory of the worst stage, GiB", columns, rows)


def _gib(size: float) -> str:
    return f"{size / GIB:.1f}"


def _numbers(columns: Sequence[Column], number: Callable[[Estimate], float]) -> list[float | None]:
    return [number(column.estimate) if column.estimate else None for column in columns]


def _table(title: str, columns: Sequence[Column], rows: Sequence[tuple[str, ...]], total: bool = False) -> Table:
    """A table with a column for each plan and, from the second on, one for what it has more than the first."""
    first, *others = (column.label for column in columns)
    names = (title, first, *(name for label in others for name in (label, f"- {first}")))
    return Table(names, tuple(rows), total=total)


def _row(
    name: str, values: Sequence[float | None], written: Callable[[float], str], whole: float | None = None
) -> tuple[str, ...]:
    """A row of numbers with their differences to the first; whole: what a difference must be seen beside."""
    first, *others = values
    pairs = ((_cell(other, written), _difference(first, other, written, whole)) for other in others)
    return name, _cell(first, written), *(cell for pair in pairs for cell in pair)


def _cell(value: float | None, written: Callable[[float], str]) -> str:
    return "-" if value is None else written(value)


def _difference(first: float | None, other: float | None, written: Callable[[float], str], whole: float | None) -> str:
    if first is None or other is None:
        return "-"
    more = other - first
    text = written(more)
    if abs(more) <= NOTHING * (whole or abs(first)) or not set(text) & set("123456789"):
        return "="
    return text if text.startswith("-") else f"+{text}"


def _spread(cells: Sequence[str]) -> list[str]:
    """Cells that have no difference, with an empty one in its place."""
    return [cells[0], *(each for cell in cells[1:] for each in (cell, ""))]
