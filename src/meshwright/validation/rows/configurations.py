"""Configurations: the rows of a table that measured the same thing."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from meshwright.errors import NotModelled
from meshwright.validation.rows.reading import recipe_of
from meshwright.validation.rows.recipes import with_recipes
from meshwright.validation.rows.table import COLUMNS, FALSE, Row, checked, figure

SOUND = "ok"
"""The quality of rows that count."""
MEASURED = {
    *("id", "source", "runtime_detail", "software_release", "step_time_s", "step_time_is", "tokens_per_s_per_gpu"),
    *("memory_gib", "memory_kind", "quality", "notes"),
}
"""Columns in which rows of one configuration may differ."""
ASKED = tuple(column for column in COLUMNS if column not in MEASURED)


@dataclass(frozen=True)
class Configuration:
    """One configuration: what was measured again counts once, by its median."""

    rows: tuple[Row, ...]

    @property
    def id(self) -> str:
        """Of its first row."""
        return self.rows[0]["id"]

    @property
    def dataset(self) -> str:
        """The source that it belongs to."""
        return self.rows[0]["dataset"]

    @property
    def quality(self) -> str:
        """`ok`, or why it is scored apart: what its source says of the first row that it doubts."""
        return next((row["quality"] for row in self.rows if row["quality"] not in ("", SOUND)), SOUND)

    @property
    def fits(self) -> bool:
        """Whether it ran; otherwise it ran out of memory."""
        return self.rows[0]["fits"].lower() not in FALSE

    @property
    def memory_kind(self) -> str:
        """What its memory counts; empty: no memory is printed."""
        return next((_kind(row) for row in self.rows if self.fits and _measured(row, "memory_gib")), "")

    @cached_property
    def step_time_s(self) -> float | None:
        """Measured seconds of one step; None: not printed."""
        return self._median("step_time_s", self.rows)

    @cached_property
    def tokens_per_s_per_gpu(self) -> float | None:
        """Measured throughput; None: not printed."""
        return self._median("tokens_per_s_per_gpu", self.rows)

    @cached_property
    def memory_gib(self) -> float | None:
        """Measured GiB of that kind on the worst rank; None: not printed."""
        return self._median("memory_gib", [row for row in self.rows if _kind(row) == self.memory_kind])

    def _median(self, column: str, rows: Iterable[Row]) -> float | None:
        values = [value for row in rows if (value := _measured(row, column))]
        return statistics.median(values) if self.fits and values else None


def _kind(row: Row) -> str:
    return row["memory_kind"] or "unknown"


def _measured(row: Row, column: str) -> float | None:
    """Nothing where a row prints 0 or no number."""
    value = figure(row[column])
    return value if value and value > 0 else None


def configurations(rows: Iterable[Row]) -> Iterator[Configuration]:
    """Every configuration of a table, in its order. Rows of one `config_key` are one where they agree in all but what
    was measured and in their recipe, which changes between releases; a row without a key stands alone, and so does one
    that holds a value which cannot be read.
    """
    keyed: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for index, row in enumerate(with_recipes(rows)):
        keyed[_asked(row) or (index,)].append(row)
    yield from (Configuration(tuple(each)) for each in keyed.values())


def _asked(row: Row) -> tuple[str, ...]:
    """What was run, where rows can have that in common."""
    try:
        given = checked(row)
    except NotModelled:
        return ()
    return (*(given[column] for column in ASKED), *recipe_of(row)) if row["config_key"] else ()
