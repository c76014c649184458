"""Siblings: what a table without settings leaves out of its runs, from their words and from runs of the same source."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

from meshwright.errors import InvalidInput
from meshwright.validation.rows.released import as_released
from meshwright.validation.rows.table import Row, normalised, read_rows, split_list

LEVELS = (("model", "gpu", "precision"), ("model", "gpu"), ("model",), ("precision",), ())
"""Columns in which siblings agree, beside their source and runtime: the first that any do."""
UNPRINTED = (
    *("architecture", "vocab", "ends_layers_less", "recompute", "recompute_modules", "expert_capacity"),
    *("mtp_layers", "power_limit_w", "memory_rank", "compiled"),
)
"""Columns that a row takes from its siblings where it leaves them blank and all have the same."""


def as_known(rows: Iterable[Row]) -> list[Row]:
    """The rows of a table that names no settings, each with the release that its words name, and those of a source of
    the project's table with the settings, and in blank columns the values, that all its nearest runs have: what a
    source does not print of a run, it did as in the others. As they are where any names settings.
    """
    rows = [*rows]
    if any(row["settings"] or row["with"] for row in rows):
        return rows
    return [_as_known(row) for row in rows]


@cache
def _published() -> dict[str, tuple[Row, ...]]:
    """The project's own rows by source."""
    by_source: dict[str, list[Row]] = {}
    for row in read_rows():
        by_source.setdefault(row["dataset"], []).append(normalised(row))
    return {source: tuple(rows) for source, rows in by_source.items()}


def _as_known(row: Row) -> Row:
    try:
        read = as_released(normalised(row))
    except InvalidInput:
        return row
    taken = [f"{read['runtime']}, by what the row says of its software"] if read["runtime"] != row["runtime"] else []
    row = row | {name: read[name] for name in ("runtime", "precision")}
    of_source = _published().get(read["dataset"], ())
    others = [each for each in of_source if each["runtime"] == read["runtime"] and not _same_run(each, read)]
    for level in LEVELS:
        alike = [each for each in others if all(each[column] == read[column] for column in level)]
        if alike:
            common = {name: values.pop() for name in UNPRINTED if len(values := {each[name] for each in alike}) == 1}
            blank = {name: value for name, value in common.items() if value and not row[name]}
            settings = {name: _shared(alike, name) for name in ("settings", "with")}
            taken.append(f"what {len(alike)} runs of {row['dataset']} in the project's table have in common")
            row = row | blank | settings
            break
    return row | {"assumed": "; ".join(taken)}


def _same_run(one: Row, other: Row) -> bool:
    return one["id"] == other["id"] or (bool(one["config_key"]) and one["config_key"] == other["config_key"])


def _shared(rows: Sequence[Row], column: str) -> str:
    """The parts of a column that all rows have."""
    first, *rest = (split_list(row[column]) for row in rows)
    return ";".join(part for part in first if all(part in parts for parts in rest))
