"""Plans: many layouts as integer columns, with the attribute names of `Plan`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Self, TypeAlias, TypeVar

import numpy as np

from meshwright.arrays import BoolColumn, Bools, IntColumn, Ints
from meshwright.layout.plan import DEFAULTS, KINDS, Plan
from meshwright.specs.choices import Recompute


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
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
    first_stage_layers: IntColumn
    last_stage_layers: IntColumn
    chunk_layers: IntColumn
    """Which of `chunkings` each plan has."""
    microbatch_group: IntColumn
    recompute: IntColumn
    recompute_modules: IntColumn
    recompute_layers: IntColumn
    schedule: IntColumn
    chunkings: tuple[tuple[int, ...], ...] = ((),)
    """Layers of every chunk, of the plans that spell them out; the first leaves them to the runtime."""
    only: Plan | None = field(default=None, init=False)
    """Of a table of one plan, that plan, once it has been asked for."""

    @classmethod
    def of(cls, plans: Iterable[Plan]) -> Self:
        """The columns of the given plans, in their order."""
        rows = list(plans)
        codes = _codes(((), *(row.chunk_layers for row in rows)))
        chunks = [codes[row.chunk_layers] for row in rows]
        values = *zip(*map(_NUMBERS_OF, rows), strict=True), chunks
        columns = np.array(values, dtype=np.int64).reshape(len(COLUMNS), len(rows))
        return cls(**dict(zip((*_NUMBERS, "chunk_layers"), columns, strict=True)), chunkings=tuple(codes))

    @classmethod
    def filled(cls, columns: Mapping[str, IntColumn], chunkings: tuple[tuple[int, ...], ...] = ((),)) -> Self:
        """The given columns, every other field at its default; chunkings: which layers of chunks the plans may have."""
        rows = len(next(iter(columns.values())))
        # Columns of one value are one column.
        alike = {value: np.full(rows, value, dtype=np.int64) for value in _VALUES}
        missing = {name: alike[value] for name, value in _CODES.items() if name not in columns}
        return cls(**columns, **missing, chunkings=chunkings)

    @classmethod
    def join(cls, parts: Iterable[Plans]) -> Self:
        """All rows of the parts, in their order."""
        tables = list(parts)
        codes = _codes(((), *(sizes for table in tables for sizes in table.chunkings)))
        columns = {name: [getattr(table, name) for table in tables] for name in COLUMNS}
        columns["chunk_layers"] = [
            np.array([codes[sizes] for sizes in table.chunkings])[table.chunk_layers] for table in tables
        ]
        return cls(**{name: np.concatenate(column) for name, column in columns.items()}, chunkings=tuple(codes))

    def __len__(self) -> int:
        return len(self.tp)

    def __getitem__(self, index: int) -> Plan:
        # Columns hold what plans may have, so that nothing is checked again.
        plan = object.__new__(Plan)
        for name in _COUNTS:
            object.__setattr__(plan, name, getattr(self, name).item(index))
        for name, kind in _CHOICES.items():
            object.__setattr__(plan, name, kind(getattr(self, name).item(index)))
        object.__setattr__(plan, "chunk_layers", self.chunkings[self.chunk_layers.item(index)])
        return plan

    @property
    def num_gpus(self) -> IntColumn:
        """As `Plan.num_gpus`."""
        return self.tp * self.cp * self.pp * self.dp

    @property
    def global_batch(self) -> IntColumn:
        """As `Plan.global_batch`."""
        return self.micro_batch * self.dp * self.num_microbatches

    def take(self, rows: IntColumn | BoolColumn | slice) -> Plans:
        """The chosen rows, by index, mask or slice."""
        if isinstance(rows, slice):
            return Plans(**{name: getattr(self, name)[rows] for name in COLUMNS}, chunkings=self.chunkings)
        # Of each column a mask takes fifteen times as long, and an index in brackets three times.
        index = np.asarray(rows)
        index = np.flatnonzero(index) if index.dtype == bool else index
        return Plans(**{name: getattr(self, name).take(index) for name in COLUMNS}, chunkings=self.chunkings)

    def some(self, rows: IntColumn) -> Plans:
        """The same by index, for as long as these plans are at hand: a column is taken when it is first asked for."""
        if len(self) == len(rows) == 1:
            return self
        plans = object.__new__(_Rows)
        for name, value in {"_whole": self, "_rows": rows, "chunkings": self.chunkings, "only": None}.items():
            object.__setattr__(plans, name, value)
        return plans

    def alone(self) -> Layout:
        """Of one plan in a table, the plan itself; else the table."""
        if len(self) == 1 and self.only is None:
            object.__setattr__(self, "only", self[0])
        return self.only or self

    def chunks(self, size: int) -> Iterator[Plans]:
        """The rows in pieces of at most `size`."""
        return (self.take(slice(start, start + size)) for start in range(0, len(self), size))


class _Rows(Plans):
    """Plans that are rows of others."""

    __slots__ = ("_rows", "_whole")

    def __getattr__(self, name: str) -> IntColumn:
        if name not in KINDS:
            raise AttributeError(name)
        column: IntColumn = getattr(self._whole, name).take(self._rows)
        object.__setattr__(self, name, column)
        return column


def of_rows(plans: Layout, rows: IntColumn) -> Layout:
    """The plan of every row, by index; of one plan that one, which is that of all rows.

    >>> of_rows(Plan(tp=2), np.array([0, 0])).tp, of_rows(Plans.of([Plan(tp=2)]), np.array([0, 0])).tp.tolist()
    (2, [2, 2])
    """
    return plans if isinstance(plans, Plan) else plans.some(rows)


def without_recompute(plans: AnyLayout) -> AnyLayout:
    """The same plans, in which nothing is computed again."""
    if isinstance(plans, Plan):
        return replace(plans, recompute=Recompute.NONE)
    return replace(plans, recompute=np.full_like(plans.recompute, int(Recompute.NONE)))


def of_chunks(plan: Layout, count: Callable[[tuple[int, ...]], int]) -> Ints:
    """`count` of the layers of every chunk that a plan spells out; those of no chunk where it does not.

    >>> of_chunks(Plan(pp=2, chunk_layers=(4, 3)), sum), of_chunks(Plan(pp=2), len)
    (7, 0)
    """
    if isinstance(plan, Plan):
        return count(plan.chunk_layers)
    return np.array([count(sizes) for sizes in plan.chunkings])[plan.chunk_layers]


def leaves_split(plan: Layout) -> Bools:
    """Whether a plan leaves the layers of its stages to the runtime; scalar or array (n,).

    >>> leaves_split(Plan(pp=2)), leaves_split(Plan(pp=2, chunk_layers=(4, 3)))
    (True, False)
    """
    named = plan.first_stage_layers + plan.last_stage_layers
    ends = plan.embedding_as_layer + plan.head_as_layer
    return (of_chunks(plan, len) == 0) & (named == 0) & (ends == 0)


def _codes(chunkings: Iterable[tuple[int, ...]]) -> dict[tuple[int, ...], int]:
    """A code for each that differs, in their order."""
    return {sizes: code for code, sizes in enumerate(dict.fromkeys(chunkings))}


def regrouped(tables: Iterable[Plans], size: int) -> Iterator[Plans]:
    """The rows of all tables, in their order, in tables of `size` rows, the last one of fewer."""
    pending: list[Plans] = []
    rows = 0
    for table in tables:
        pending.append(table)
        rows += len(table)
        if rows >= size:
            *full, rest = Plans.join(pending).chunks(size)
            yield from full
            pending, rows = [rest], len(rest)
    if pending:
        yield pending[0] if len(pending) == 1 else Plans.join(pending)


COLUMNS = tuple(KINDS)
_NUMBERS = tuple(name for name in COLUMNS if name != "chunk_layers")
_NUMBERS_OF = attrgetter(*_NUMBERS)
_COUNTS = [name for name, kind in KINDS.items() if kind is int]
_CHOICES = {name: kind for name, kind in KINDS.items() if kind not in (int, tuple)}
_CODES = {**DEFAULTS, "chunk_layers": 0}
"""The default of every column."""
_VALUES = {*_CODES.values()}
Layout: TypeAlias = Plan | Plans
"""One plan or many: formulas read the same attributes from both."""
AnyLayout = TypeVar("AnyLayout", bound=Plan | Plans)
