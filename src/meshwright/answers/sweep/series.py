"""Series: rows of a sweep in groups, each named by what it differs in from the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from meshwright.answers.sweep.columns import LABELS, OF_QUESTIONS, Row

NOT_NAMED = ("question", "nodes", "gpus", "accelerator")
"""Labels that the name of the cluster says."""
WORDS = {each.field: each.said for each in OF_QUESTIONS}
"""Of labels that do not speak for themselves."""


def differing(rows: Sequence[Row], names: Iterable[str] = ()) -> list[str]:
    """The labels in which rows differ, without a batch that follows from the length of sequences; names: of these,
    where any are given.
    """
    candidates = [name for name in (*names,) or LABELS if name not in NOT_NAMED or name in (*names,)]
    different = [name for name in candidates if len({row[name] for row in rows}) > 1]
    pairs = {(row["sequence_length"], row["global_batch"]) for row in rows}
    follows = len({length for length, _ in pairs}) == len(pairs)
    return [name for name in different if name != "global_batch" or not follows]


def words_of(row: Row, names: Iterable[str]) -> str:
    """What a row says under some labels, those that are empty left out."""
    words = (WORDS.get(name, str)(row[name]) for name in names if row[name] not in (None, ""))
    return ", ".join(words)


def groups(rows: Iterable[Row], names: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    """Rows by what they say under some labels."""
    grouped: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        grouped.setdefault(tuple(row[name] for name in names), []).append(row)
    return grouped
