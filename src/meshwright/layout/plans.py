"""Plans: many layouts as integer columns, with the attribute names of `Plan`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Self, TypeAlias

import numpy as np

from meshwright.arrays import BoolColumn, IntColumn
from meshwright.layout.plan import ContextExchange, Plan, Recompute, Schedule
from meshwright.layout.recompute_modules import RecomputeModules


@dataclass(frozen=True, kw_only=True, slots=True)
class Plans:
    """Many plans; each attribute is a column of shape (n,)."""

    tp: IntColumn
    sp: IntColumn
    cp: IntColumn
    context_exchange: IntColumn
    pp: IntColumn
    vpp: IntColumn
    dp: IntColumn
    ep: IntColumn
    etp: IntColumn
    zero: IntColumn
    dp_replicate: IntColumn
    micro_batch: IntColumn
    num_microbatches: IntColumn
    embedding_as_layer: IntColumn
    head_as_layer: IntColumn
    recompute: IntColumn
    recompute_modules: IntColumn
    schedule: IntColumn

    @classmethod
    def of(cls, plans: Iterable[Plan]) -> Self:
        """The columns of the given plans, in their order."""
        rows = list(plans)
        return cls(**{name: np.array([getattr(row, name) for row in rows], dtype=np.int64) for name in COLUMNS})

    @classmethod
    def filled(cls, **columns: IntColumn) -> Self:
        """The given columns, every other field at its default."""
        rows = len(next(iter(columns.values())))
        defaults = {field.name: field.default for field in fields(Plan)}
        return cls(**{name: columns.get(name, np.full(rows, defaults[name], dtype=np.int64)) for name in COLUMNS})

    @classmethod
    def join(cls, parts: Iterable[Plans]) -> Self:
        """All rows of the parts, in their order."""
        tables = list(parts)
        return cls(**{name: np.concatenate([getattr(table, name) for table in tables]) for name in COLUMNS})

    def __len__(self) -> int:
        return len(self.tp)

    def __getitem__(self, index: int) -> Plan:
        row = {name: int(getattr(self, name)[index]) for name in COLUMNS}
        return Plan(
            **row  # type: ignore[arg-type]
            | {
                **{name: bool(row[name]) for name in ("sp", "embedding_as_layer", "head_as_layer")},
                "context_exchange": ContextExchange(row["context_exchange"]),
                "recompute": Recompute(row["recompute"]),
                "recompute_modules": RecomputeModules(row["recompute_modules"]),
                "schedule": Schedule(row["schedule"]),
            }
        )

    def take(self, rows: IntColumn | BoolColumn | slice) -> Plans:
        """The chosen rows, by index, mask or slice."""
        return Plans(**{name: getattr(self, name)[rows] for name in COLUMNS})

    def chunks(self, size: int) -> Iterator[Plans]:
        """The rows in pieces of at most `size`."""
        return (self.take(slice(start, start + size)) for start in range(0, len(self), size))


COLUMNS = tuple(field.name for field in fields(Plan))
Layout: TypeAlias = Plan | Plans
"""One plan or many: formulas read the same attributes from both."""
