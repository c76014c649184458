"""Unsaid: what a framework's own configurations have where a table without settings leaves a column blank, and what its
code did until some day.
"""

from __future__ import annotations

from functools import cache

from meshwright.specs.base import Spec
from meshwright.validation.rows.released import NEVER, month_of, written_at
from meshwright.validation.rows.said import Taken
from meshwright.validation.rows.settings import document
from meshwright.validation.rows.table import Row

FOR_PEOPLE = ("source", "runtime_detail")
"""Columns of words that name what ran; `notes` say of a word as often that it does not hold."""


class Unsaid(Spec):
    """The value of a blank column."""

    runtime: str
    column: str
    value: str
    what: str
    source: str
    precisions: tuple[str, ...] = ()
    """Of rows in these recipes alone; none: in any."""
    dense_from_b: float = 0.0
    """Of dense models of more billions of parameters alone; 0: of all models."""

    unless_says: tuple[str, ...] = ()
    """Words of the columns for people that say otherwise."""

    def is_of(self, row: Row) -> bool:
        """Whether it is what a row leaves blank."""
        if row[self.column] or framework_of(row) != self.runtime:
            return False
        dense_b = 0.0 if row["moe_experts"] else float(row["params_b"] or 0)
        sized = not self.dense_from_b or dense_b > self.dense_from_b
        fits = not self.precisions or (row["precision"] or "bf16") in self.precisions
        words = " ".join(row[column] for column in FOR_PEOPLE).lower()
        return sized and fits and not any(each in words for each in self.unless_says)


class DoneUntil(Spec):
    """What a framework did until some day, in the rows where a column has a value."""

    runtime: str
    column: str
    value: str
    month: str
    """The last, of a source that names no pull request."""
    pull_requests: tuple[tuple[int, int], ...]
    """The first and the last of each span in which it did so."""
    behaviours: tuple[str, ...]
    what: str
    source: str

    def is_of(self, row: Row) -> bool:
        """Whether a row ran then, by what its source names."""
        if row[self.column] != self.value or framework_of(row) != self.runtime:
            return False
        pull, month = written_at(row)
        if pull:
            return any(first <= pull <= last for first, last in self.pull_requests)
        return NEVER < month <= month_of(self.month)


@cache
def _unsaid() -> tuple[Unsaid, ...]:
    return tuple(Unsaid(**each) for each in document("frameworks")["unsaid"])


@cache
def _until() -> tuple[DoneUntil, ...]:
    return tuple(DoneUntil(**each) for each in document("frameworks")["until"])


def framework_of(row: Row) -> str:
    """The runtime of a row without its release."""
    return row["runtime"].partition("@")[0]


def unsaid_columns(row: Row) -> list[Taken]:
    """What a row leaves blank, the first for each column."""
    first: dict[str, Unsaid] = {}
    for each in _unsaid():
        if each.is_of(row):
            first.setdefault(each.column, each)
    return [Taken(each.what, {each.column: each.value}) for each in first.values()]


def done_until(row: Row) -> list[Taken]:
    """What the framework of a row did otherwise when it ran."""
    done = (each for each in _until() if each.is_of(row))
    return [Taken(f"{each.what}, by the date of its source", behaviours=each.behaviours) for each in done]
