"""The published runs that are shipped, by configuration."""

from __future__ import annotations

import csv
import statistics
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from .blanks import Row
from .reading import recipe_of
from .recipes import with_recipes

DATA = Path(__file__).parents[1] / "data"
GROUPS = {
    "Megatron": (
        "dense_megatron_runs.csv",
        "low_precision_runs.csv",
        "megatron_scaling_runs.csv",
        "zero_bubble_runs.csv",
    ),
    "Experts and long context": ("expert_runs.csv", "long_context_runs.csv"),
    "PyTorch and InternEvo": ("fully_sharded_runs.csv", "internevo_runs.csv", "small_runs.csv"),
}
"""Files of each group of datasets whose mean errors are averaged."""


@dataclass(frozen=True)
class Configuration:
    """One configuration: what was measured again counts once, by its median."""

    group: str
    rows: tuple[Row, ...]

    @property
    def id(self) -> str:
        """Of its first row."""
        return self.rows[0]["id"]

    @property
    def dataset(self) -> str:
        return self.rows[0]["dataset"]

    @property
    def quality(self) -> str:
        """`ok`, or why it is scored apart."""
        return self.rows[0]["quality"]

    @property
    def fits(self) -> bool:
        """Whether it ran; otherwise it ran out of memory."""
        return self.rows[0]["fits"] != "no"

    @property
    def memory_kind(self) -> str:
        """What its memory counts; empty: no memory is printed."""
        return self.rows[0]["memory_kind"] if self.memory_gib is not None else ""

    @cached_property
    def step_time_s(self) -> float | None:
        """Measured seconds of one step; None: not printed."""
        return self._median("step_time_s")

    @cached_property
    def memory_gib(self) -> float | None:
        """Measured GiB on the worst rank; None: not printed."""
        return self._median("memory_gib")

    def _median(self, column: str) -> float | None:
        values = [float(row[column]) for row in self.rows if row[column]]
        return statistics.median(values) if self.fits and values else None


def configurations() -> Iterator[Configuration]:
    """Every configuration of every file, in the files' order; their recipes tell them apart as well."""
    for group, files in GROUPS.items():
        rows = with_recipes(
            row for file in files for row in csv.DictReader((DATA / file).read_text("utf-8").splitlines())
        )
        keyed: dict[tuple[str, ...], list[Row]] = defaultdict(list)
        for row in rows:
            keyed[row["dataset"], row["config_key"], *recipe_of(row)].append(row)
        yield from (Configuration(group, tuple(each)) for each in keyed.values())
