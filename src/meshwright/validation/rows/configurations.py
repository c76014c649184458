"""Configurations: the rows of a table that measured the same thing."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter

from meshwright.errors import InvalidInput
from meshwright.validation.rows.released import with_its_recipe
from meshwright.validation.rows.settings import RUNTIME, behaviours_of
from meshwright.validation.rows.table import COLUMNS, FALSE, FREE_TEXT, UNKNOWN, Row, figure, normalised

SOUND = "ok"
"""The quality of rows that count."""
MEASURED = (
    "id",
    "software_release",
    "assumed",
    "known_by",
    "step_time_s",
    "tokens_per_s_per_gpu",
    "memory_gib",
    "memory_kind",
    "quality",
)
"""Columns in which rows of one configuration may differ, beside those for people."""
RUN = tuple(column for column in COLUMNS if column not in (*MEASURED, *FREE_TEXT, *RUNTIME))
"""Columns in which they agree, where their runtimes behave alike, in whichever release."""
_run_of = itemgetter(*RUN)


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
        """`ok`, or why it is scored separately: what its source says of the first row that it doubts."""
        return next((row["quality"] for row in self.rows if row["quality"] not in ("", SOUND)), SOUND)

    @property
    def fits(self) -> bool:
        """Whether it ran; otherwise it ran out of memory."""
        return self.rows[0]["fits"].lower() not in FALSE

    @property
    def measured(self) -> bool:
        """Whether it says anything that a prediction can be held against."""
        figures = self.step_time_s or self.tokens_per_s_per_gpu or self.memory_gib
        return figures is not None or any(row["fits"] for row in self.rows)

    @cached_property
    def memory_kind(self) -> str:
        """What its memory counts; empty: no memory is printed."""
        kinds = [row["memory_kind"] for row in self.rows if self.fits and _measured(row, "memory_gib")]
        return next((kind for kind in kinds if kind != UNKNOWN), kinds[0] if kinds else "")

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
        return self._median("memory_gib", [row for row in self.rows if row["memory_kind"] == self.memory_kind])

    def _median(self, column: str, rows: Iterable[Row]) -> float | None:
        values = [value for row in rows if (value := _measured(row, column))]
        return statistics.median(values) if self.fits and values else None


def _measured(row: Row, column: str) -> float | None:
    """Nothing where a row prints 0 or no number."""
    value = figure(row[column])
    return value if value and value > 0 else None


def configurations(rows: Iterable[Row]) -> Iterator[Configuration]:
    """Every configuration of a table, in its order. Rows of one `config_key` are one where they agree in what was run;
    a row without a key stands alone, and so does one that holds a value which cannot be read.
    """
    keyed: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for index, row in enumerate(rows):
        try:
            read = normalised(row)
            run = (*_run_of(read), *behaviours_of(with_its_recipe(read)[0]))
        except InvalidInput:
            read, run = row, ()
        keyed[run if run and row["config_key"] else (index,)].append(read)
    yield from (Configuration(tuple(each)) for each in keyed.values())
