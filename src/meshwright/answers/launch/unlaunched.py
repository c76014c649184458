"""Unlaunched: what of a plan the framework of its runtime has no settings for, told wherever a plan is recommended."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from meshwright.answers.document.blocks import Toned
from meshwright.answers.pace import pace
from meshwright.answers.records import json_of
from meshwright.answers.words import plural
from meshwright.errors import InvalidSpec
from meshwright.launch.export import export
from meshwright.launch.table import launch_table, table_of
from meshwright.layout.plan import Plan
from meshwright.search.find import SearchResult
from meshwright.search.ranking.rank import rank_key
from meshwright.specs.inputs import Inputs

MARK = " !"
"""Behind the name of a runtime whose framework cannot launch its plan."""
SHOWN = 2
"""Reasons that a sentence names."""


class LaunchRefusal(NamedTuple):
    """Why no launch files are written for a plan that its runtime accepts."""

    framework: str
    release: str
    reasons: tuple[str, ...]
    instead: str
    """The options with which files are written; empty where there are none."""
    of_model: bool
    """No plan of the model can be launched."""

    @property
    def words(self) -> str:
        """That it cannot be launched, why, and what can."""
        left = len(self.reasons) - SHOWN
        more = f"; and {plural(left, 'other reason')}, which --json lists" if left > 0 else ""
        text = f"{self.framework} cannot launch it as it stands: {'; '.join(self.reasons[:SHOWN])}{more}."
        return f"{text} {self.instead}".rstrip()


@lru_cache(maxsize=64)
def unlaunched(plan: Plan, inputs: Inputs) -> LaunchRefusal | None:
    """Why the framework of a plan's runtime cannot launch it; None where it can, or where no files are written for
    that runtime at all.
    """
    name = table_of(inputs.runtime.id)
    if name is None:
        return None
    try:
        export(plan, inputs, name)
    except InvalidSpec as refusal:
        reasons = tuple(fault.what for fault in refusal.faults)
        table = launch_table(name)
        of_model = any(fault.where == "model" for fault in refusal.faults)
        return LaunchRefusal(table.framework, table.release, reasons, instead=refusal.hint, of_model=of_model)
    return None


def launched_instead(result: SearchResult) -> list[str]:
    """Where the best plan of a search cannot be launched, the best listed one that can; nothing where there is none."""
    best, inputs = result.best[0], result.inputs
    refusal = unlaunched(best.plan, inputs)
    if refusal is None or refusal.of_model:
        return []
    others = sorted((*result.best[1:], *result.other_splits), key=rank_key)
    launched = next((each for each in others if unlaunched(each.plan, inputs) is None), None)
    if launched is None:
        return []
    return [f"The best listed plan that {refusal.framework} can launch: {launched.plan}, {pace(launched, best)}."]


def unlaunched_lines(refusal: LaunchRefusal | None) -> tuple[str, ...]:
    """The refusal on screen; nothing where there is none."""
    return (Toned(f"**{refusal.words}**", "warning"),) if refusal else ()


def unlaunched_entry(refusal: LaunchRefusal | None) -> dict[str, Any]:
    """The refusal as a part of a document; nothing where there is none."""
    return {"launch_refused": {**json_of(refusal), "warning": refusal.words}} if refusal else {}


def mark_words(marked: Iterable[bool]) -> str:
    """What the mark means below a table; nothing where it has none."""
    return f"{MARK.strip()} its framework cannot launch this plan as it stands." if any(marked) else ""
