"""Configurations: the rows of a table that measured the same thing."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from meshwright.validation.rows.reading import recipe_of
from meshwright.validation.rows.recipes import with_recipes
from meshwright.validation.rows.table import Row

SOUND = "ok"
"""The quality of rows that count."""


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
        """`ok`, or why it is scored apart."""
        return self.rows[0]["quality"] or SOUND

    @property
    def fits(self) -> bool:
        """Whether it ran; otherwise it ran out of memory."""
        return self.rows[0]["fits"].lower() not in ("no", "false", "0")

    @property
    def memory_kind(self) -> str:
        """What its memory counts; empty: no memory is printed."""
        return (self.rows[0]["memory_kind"] or "unknown") if self.memory_gib is not None else ""

    @cached_property
    def step_time_s(self) -> float | None:
        """Measured seconds of one step; None: not printed."""
        return self._median("step_time_s")

    @cached_property
    def tokens_per_s_per_gpu(self) -> float | None:
        """Measured throughput; None: not printed."""
        return self._median("tokens_per_s_per_gpu")

    @cached_property
    def memory_gib(self) -> float | None:
        """Measured GiB on the worst rank; None: not printed."""
        return self._median("memory_gib")

    def _median(self, column: str) -> float | None:
        values = [value for row in self.rows if (value := _figure(row[column]))]
        return statistics.median(values) if self.fits and values else None


def _figure(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def configurations(rows: Iterable[Row]) -> Iterator[Configuration]:
    """Every configuration of a table, in its order; rows without a `config_key` stand alone, and recipes that changed
    between releases tell configurations apart as well.
    """
    keyed: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in with_recipes(rows):
        keyed[row["dataset"], row["config_key"] or row["id"], *recipe_of(row)].append(row)
    yield from (Configuration(tuple(each)) for each in keyed.values())
