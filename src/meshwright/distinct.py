"""Price shapes, not plans: evaluate on the distinct rows of some columns and gather the answers back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy import ndarray

from meshwright.arrays import Floats, IntColumn, Numbers, some

Answer = TypeVar("Answer", bound=tuple[Any, ...])
Part = TypeVar("Part", bound=Numbers)

LARGEST_CODE = 1 << 62
FEW = 3
"""Groups of rows that stand together and are alike, one in so many rows or fewer."""
WORD = 64
GOLDEN = 0x9E3779B97F4A7C15
"""2^64 over the golden ratio, odd: a product with it spreads codes over their highest bits (Knuth, TAOCP 3, 6.4)."""


def distinct_rows(*columns: IntColumn) -> tuple[list[IntColumn], IntColumn]:
    """The distinct rows of some columns in order, and for each row the position of its like among them.

    columns: whole numbers, each of shape (n,). Returns columns of shape (k,) and an index of shape (n,).
    """
    first, index = first_rows(*columns)
    if len(first) == len(index) == 1:
        return list(columns), index
    return [column.take(first) for column in columns], index


def first_rows(*columns: IntColumn) -> tuple[IntColumn, IntColumn]:
    """A row of each that differs in some columns, in their order, and for each row the position of its like among them.

    columns: whole numbers, each of shape (n,). Returns rows of shape (k,) and an index of shape (n,). The key is a
    mixed-radix code of the columns.
    """
    count = len(columns[0])
    if count <= 1:
        return np.arange(count), np.zeros(count, dtype=np.int64)
    code: IntColumn = np.zeros(1, dtype=np.int64)
    radix, least = 1, 0
    for column in columns:
        low, high = int(np.minimum.reduce(column)), int(np.maximum.reduce(column))
        if low == high:
            continue
        width = high - low + 1
        if (radix + abs(least)) * width + abs(low) > LARGEST_CODE:
            (first, code), (_, column) = _places(code - least, radix), _places(column - low, width)
            low, width, radix, least = 0, int(column.max()) + 1, len(first), 0
        # In place: code * width + column, of which the least is taken away when all columns are in.
        if radix > 1:
            code *= width
            code += column
        else:
            code = column.astype(np.int64)
        least = least * width + low
        radix *= width
    if least:
        code -= least
    return _places(code, radix) if radix > 1 else (code, np.zeros(count, dtype=np.int64))


def _places(code: IntColumn, radix: int) -> tuple[IntColumn, IntColumn]:
    """A row of each distinct code in their order, shape (k,), and for each row the place of its code, shape (n,).

    code: 0 to radix - 1, shape (n,).
    """
    ends = np.flatnonzero(code[1:] != code[:-1])
    if 0 < len(ends) * FEW < len(code):
        # Rows that are alike stand together: one row of each group of them is looked for.
        starts = np.empty(len(ends) + 1, dtype=np.int64)
        starts[0], starts[1:] = 0, ends + 1
        heights = np.empty_like(starts)
        heights[:-1], heights[-1] = starts[1:] - starts[:-1], len(code) - starts[-1]
        first, place = _places(code.take(starts), radix)
        return starts.take(first), place.repeat(heights)
    hashed = radix > max(10 * len(code), 1 << 12)
    number, size = (_like(code), len(code)) if hashed else (code, radix)
    # Which numbers there are, (size,), those, (k,), in order of their codes, and the place of each.
    there = np.zeros(size, dtype=bool)
    there[number] = True
    numbers = np.flatnonzero(there)
    if hashed:
        numbers = numbers[np.argsort(code.take(numbers))]
    place = np.empty(size, dtype=np.int64)
    place[numbers] = np.arange(len(numbers))
    index = place.take(number)
    if hashed:
        return numbers, index
    first = np.empty(len(numbers), dtype=np.int64)
    first[index] = np.arange(len(code))
    return first, index


def _like(code: IntColumn) -> IntColumn:
    """For each row one row with the same code, which is the same for all of them, by hashing; shape (n,)."""
    bits, odd = 1 + len(code).bit_length(), GOLDEN
    like, rows = np.empty(len(code), dtype=np.int64), np.arange(len(code))
    slots, left = np.empty(1 << bits, dtype=np.int64), code
    while len(rows):
        slot = ((left.view(np.uint64) * np.uint64(odd)) >> np.uint64(WORD - bits)).astype(np.int64)
        slots[slot] = rows
        like[rows] = own = slots.take(slot)
        # Of codes in one slot all but one are hashed again.
        again = code.take(own) != left
        rows, left, odd = rows[again], left[again], odd * GOLDEN % (1 << WORD)
    return like


class DistinctValues(NamedTuple):
    """The distinct values of a column."""

    values: IntColumn
    """In order, shape (k,)."""
    first: IntColumn
    """The row of the first of each, shape (k,)."""
    ranks: IntColumn
    """For each row the position of its value among them, shape (n,)."""


def distinct_values(column: IntColumn) -> DistinctValues:
    """The distinct values of a column of any whole numbers; shape (n,)."""
    order = np.argsort(column, kind="stable")
    in_order = column[order]
    is_first = np.concatenate([[True], in_order[1:] != in_order[:-1]])[: len(column)]
    ranks = np.empty(len(column), dtype=np.int64)
    ranks[order] = np.cumsum(is_first) - 1
    return DistinctValues(in_order[is_first], order[is_first], ranks)


def gathered(answer: Answer, index: IntColumn) -> Answer:
    """The chosen rows of every column of nested tuples, scalars as often as there are rows."""
    parts = [gathered(part, index) if isinstance(part, tuple) else spread(part, index) for part in answer]
    return _alike(answer, parts)


def gathered_on_demand(answer: Answer, index: IntColumn) -> Answer:
    """The same of a tuple whose columns are read by name, for as long as it is at hand: one is taken when it is first
    asked for.

    >>> values = DistinctValues(np.array([5, 7]), first=np.array([0, 1]), ranks=np.array([0, 1]))
    >>> gathered_on_demand(values, np.array([1, 1, 0])).values.tolist()
    [7, 7, 5]
    """
    if isinstance(answer, _Chosen):
        answer, index = answer._whole, answer._rows.take(index)
    return _Chosen(answer, index)  # type: ignore[return-value]


class _Chosen:
    """Rows of the columns of a tuple."""

    def __init__(self, whole: Any, rows: IntColumn) -> None:
        self._whole, self._rows = whole, rows

    def __getattr__(self, name: str) -> Any:
        column = spread(getattr(self._whole, name), self._rows)
        setattr(self, name, column)
        return column


def rows_of(amounts: Floats, index: IntColumn) -> Floats:
    """The chosen rows of a column of amounts; one 0 for all where it has no others."""
    return spread(amounts, index) if some(amounts) else 0.0


def combined(function: Callable[..., Any], first: Answer, *others: Answer) -> Answer:
    """The tuple that holds `function` of the numbers that stand at the same place in all the given ones.

    first, others: tuples alike in form, which may nest; scalars or arrays (n,). Returns the first one's form, in the
    unit that the function makes.
    """
    parts = zip(first, *others, strict=True)
    whole = [combined(function, *part) if isinstance(part[0], tuple) else function(*part) for part in parts]
    return _alike(first, whole)


def _alike(form: Answer, parts: list[Any]) -> Answer:
    """A tuple of the same kind as another of as many parts: `_make`, which counts them, takes three times as long."""
    return tuple.__new__(type(form), parts)


def spread(part: Part, index: IntColumn) -> Part:
    """The chosen rows of a column; a number, which is that of all rows, as it is."""
    return part.take(index, axis=0) if isinstance(part, ndarray) and part.ndim else part  # type: ignore[return-value]
