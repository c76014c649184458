"""Difference: what a changed question changes, figure by figure."""

from __future__ import annotations

from collections.abc import Iterator

from meshwright.answers.compare.training import training_of
from meshwright.answers.document.blocks import Block, Heading, Paragraph, Table
from meshwright.answers.screen import memory_cell, verdict_cell
from meshwright.cost.estimate import Estimate
from meshwright.errors import InvalidInput
from meshwright.search.find import Progress, SearchResult, find
from meshwright.specs.inputs import Inputs
from meshwright.units import format_count, format_seconds
from meshwright.web.fields import FIELDS
from meshwright.web.task import Task

NONE = "none fits"
Figures = dict[str, tuple[str, float | None]]
"""By name: in words, and as a number where more or less of it says something."""


def difference(task: Task, after: SearchResult, progress: Progress) -> Iterator[Block]:
    """The question before beside this one; nothing where there is none. progress: of the search for the one before."""
    if task.before is None or task.question_before is None:
        return
    yield Heading("What changed", 2)
    try:
        before = find(task.before, top=1, progress=progress)
    except InvalidInput as refusal:
        yield Paragraph(f"The question before has no answer: {refusal}")
        return
    names = ("", "before", "now", "change")
    yield Table(
        names, (*_knobs(task), *_rows(task, before, after)), "llll", caption="The question before, and this one"
    )


def _knobs(task: Task) -> Iterator[tuple[str, ...]]:
    was = task.question_before
    for name, field in FIELDS.items():
        now, before = (each.values.get(name, "") if each else "" for each in (task.question, was))
        if now != before:
            words = ("pasted" if now else "", "pasted" if before else "") if name == "config" else (now, before)
            yield f"**{field.label}**", words[1] or "not given", words[0] or "not given", ""


def _rows(task: Task, before: SearchResult, after: SearchResult) -> Iterator[tuple[str, ...]]:
    price = task.question.price
    was, now = (_figures(each.best[0] if each.best else None, each.inputs, price) for each in (before, after))
    for name in dict.fromkeys((*was, *now)):
        (old, old_value), (new, new_value) = was.get(name, (NONE, None)), now.get(name, (NONE, None))
        if old_value and new_value is not None:
            change = f"{new_value / old_value - 1:+.1%}"
        else:
            change = "" if old != new else "the same"
        yield name, old, new, change


def _figures(best: Estimate | None, inputs: Inputs, price: float | None) -> Figures:
    if best is None:
        return {"plan": (NONE, None)}
    whole = best.tokens_per_s_per_gpu * inputs.cluster.num_gpus
    figures: Figures = {
        "plan": (str(best.plan), None),
        "step time": (format_seconds(best.step_time_s), best.step_time_s),
        "tokens/s in all": (_speed(whole), whole),
        "tokens/s per accelerator": (_speed(best.tokens_per_s_per_gpu), best.tokens_per_s_per_gpu),
        "MFU": (f"{best.mfu:.1%}", None),
        "GiB": (memory_cell(best), best.memory.device),
        "verdict": (verdict_cell(best.verdict), None),
    }
    if training := training_of(best, inputs, price):
        figures["days of training"] = (f"{training.days:,.1f}", training.days)
        figures["accelerator-hours"] = (format_count(training.accelerator_hours), training.accelerator_hours)
        if training.cost is not None:
            figures["cost"] = (format_count(training.cost), training.cost)
    return figures


def _speed(tokens_per_s: float) -> str:
    return format_count(float(f"{tokens_per_s:.4g}"))
