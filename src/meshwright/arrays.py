"""The types of a formula: a scalar for one plan, a column for many.

Fractions are not whole numbers and columns are not scalars: a column of counts where one of seconds belongs, or many
plans' answer where one number belongs, is an error of types. What NumPy's operators make of a union, mypy often takes
for `Any`; arguments and fields say again what it is.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, reduce
from math import ceil, sqrt
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy import ndarray
from numpy.typing import NDArray

IntColumn: TypeAlias = NDArray[np.integer[Any]]
FloatColumn: TypeAlias = NDArray[np.floating[Any]]
BoolColumn: TypeAlias = NDArray[np.bool_]

Ints: TypeAlias = int | IntColumn
"""A whole number or a column of them, shape (n,)."""
Floats: TypeAlias = float | FloatColumn
"""A number or a column of them, shape (n,)."""
Bools: TypeAlias = bool | BoolColumn
"""A truth or a column of them, shape (n,)."""
Numbers: TypeAlias = Ints | Floats
"""Either of the two."""

BLOCK = 1 << 14
"""Rows of which a dozen columns of 8-byte numbers, 1.5 MiB, fit the second cache of a core, 2 MiB where tried."""
LARGEST_THRESHOLD = 31 << 20
"""Bytes; glibc takes no larger one than 32 MiB."""

Amount = TypeVar("Amount", float, FloatColumn, Floats)
"""Of a record: numbers of one plan, columns of many, or either."""
Column = TypeVar("Column", IntColumn, FloatColumn, BoolColumn)
First = TypeVar("First", bound=Numbers)
Second = TypeVar("Second", bound=Numbers)


def column(values: Column | float) -> Column:
    """The answer of a formula that was asked for many plans, which is a column."""
    return np.asarray(values)


def parted(values: FloatColumn) -> Iterable[Floats]:
    """What stands along the first axis: columns, or numbers of Python's, which it multiplies faster than NumPy's.

    >>> [type(each).__name__ for each in parted(np.ones(2))], [each.shape for each in parted(np.ones((2, 3)))]
    (['float', 'float'], [(3,), (3,)])
    """
    parts: Iterable[Floats] = values.tolist() if values.ndim == 1 else values
    return parts


def filled(values: Floats, rows: int) -> FloatColumn:
    """A column of amounts; of one number, as many of it as there are rows.

    >>> filled(2.0, 3).tolist()
    [2.0, 2.0, 2.0]
    """
    if isinstance(values, ndarray) and values.ndim:
        return values
    column = np.empty(rows)
    column.fill(values)  # np.full takes three times as long for a few rows
    return column


def structured(columns: Mapping[str, IntColumn | BoolColumn]) -> NDArray[np.void]:
    """One array with a field for every column; `np.rec.fromarrays` takes three times as long.

    >>> structured({"layers": np.array([2, 3]), "head": np.array([False, True])}).tolist()
    [(2, False), (3, True)]
    """
    kinds = [(name, bool if each.dtype == bool else np.int64, each.shape[1:]) for name, each in columns.items()]
    rows: NDArray[np.void] = np.empty(len(next(iter(columns.values()))), dtype=kinds)
    for name, each in columns.items():
        rows[name] = each
    return rows


def total(parts: Iterable[Amount]) -> Amount:
    """The sum of one or more amounts, one by one."""
    return reduce(operator.add, parts)


def some(values: Numbers | Bools) -> bool:
    """Whether any of them is not 0."""
    return bool(np.count_nonzero(values) if isinstance(values, ndarray) else values)


def negated(values: Bools) -> Bools:
    """`np.logical_not`, which takes forty times as long for a single truth as Python.

    >>> negated(True), negated(np.array([True, False])).tolist()
    (False, [False, True])
    """
    return np.logical_not(values) if isinstance(values, ndarray) else not values


def multiplied(factor: Numbers, values: Floats) -> Floats:
    """A product that a column is spared where its factor is 1.

    >>> multiplied(1, 2.5), multiplied(np.array([2, 3]), 2.0).tolist()
    (2.5, [4.0, 6.0])
    """
    return values if not isinstance(factor, ndarray) and factor == 1 else factor * values


def one_of(values: Ints, known: Iterable[int]) -> Bools:
    """Whether each is one of a few known numbers: `np.isin`, which takes longer for one than for a few comparisons.

    >>> one_of(2, (1, 2)), one_of(np.array([2, 3]), (1, 2)).tolist()
    (True, [True, False])
    """
    return reduce(operator.or_, (values == each for each in known), False)


def where(condition: Bools | Ints, chosen: First, other: Second) -> First | Second | NDArray[Any]:
    """`np.where`, which of a single condition takes the one number, or column, that counts: far less than a call of it.

    >>> where(True, 2, 3), where(np.array([True, False]), 2, 3).tolist()
    (2, [2, 3])
    """
    if isinstance(condition, ndarray):
        return np.where(condition, chosen, other)
    return chosen if condition else other


def larger(first: First, second: Second) -> First | Second | NDArray[Any]:
    """`np.maximum`, which compares two numbers as such.

    >>> larger(2, 3), larger(np.array([2, 4]), 3).tolist()
    (3, [3, 4])
    """
    if isinstance(first, ndarray) or isinstance(second, ndarray):
        columns: NDArray[Any] = np.maximum(first, second)
        return columns
    return first if first >= second else second  # type: ignore[operator]


def smaller(first: First, second: Second) -> First | Second | NDArray[Any]:
    """`np.minimum`, likewise.

    >>> smaller(2, 3), smaller(np.array([2, 4]), 3).tolist()
    (2, [2, 3])
    """
    if isinstance(first, ndarray) or isinstance(second, ndarray):
        columns: NDArray[Any] = np.minimum(first, second)
        return columns
    return first if first <= second else second  # type: ignore[operator]


def root(values: Numbers) -> Floats:
    """`np.sqrt`, likewise; values: not negative.

    >>> root(4), root(np.array([4, 9])).tolist()
    (2.0, [2.0, 3.0])
    """
    return np.sqrt(values) if isinstance(values, ndarray) else sqrt(values)


def ceiling(values: Numbers) -> Floats:
    """`np.ceil`, likewise.

    >>> ceiling(1.5), ceiling(np.array([1.5, 4])).tolist()
    (2.0, [2.0, 4.0])
    """
    return np.ceil(values) if isinstance(values, ndarray) else float(ceil(values))


def blocks(rows: int) -> Iterator[slice]:
    """All rows of a table, some after others, so that what a formula makes of them on its way stays in the cache.

    >>> [(each.start, each.stop) for each in blocks(BLOCK + 1)] == [(0, BLOCK), (BLOCK, BLOCK + 1)]
    True
    """
    return (slice(start, min(start + BLOCK, rows)) for start in range(0, rows, BLOCK))


@cache
def keep_freed_memory() -> None:
    """Let the C library keep what large columns leave, for the next ones.

    glibc hands every block above a threshold back to the system when it is freed, and the next one of its size begins
    with pages that the system must make: up to a fifth of the time of a table of plans. The threshold grows to the
    largest such block that was freed (mallopt(3), M_MMAP_THRESHOLD), here one that nobody has touched. Other C
    libraries take no notice.
    """
    np.empty(LARGEST_THRESHOLD, dtype=np.int8)
