"""Distinct: the rows that differ, in order, and the row that each one is like, whatever the columns hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.distinct import distinct_rows

WIDTHS = [[1], [1, 1], [3, 4], [100_000, 3], [5, 1, 7, 100, 2, 9, 16, 3], [2] * 70]
WIDTHS += [[10**6] * 4, [10**15, 10**15, 2], [3 * 2**61]]


@given(widths=st.sampled_from(WIDTHS), rows=st.integers(0, 400), low=st.integers(-5, 5), seed=st.integers(0, 1000))
@settings(max_examples=200, deadline=None)
def test_distinct_rows_are_those_that_sorting_finds(widths: list[int], rows: int, low: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    columns = [random.integers(low, low + width, rows) for width in widths]
    repeated = random.integers(0, max(rows, 1), 2 * rows)
    _check(columns)
    _check([column[repeated] for column in columns])
    _check([column.repeat(7) for column in columns])


@pytest.mark.parametrize("count", [2, 1000, 70_000])
def test_codes_that_share_a_slot_are_told_apart(count: int) -> None:
    """Far more distinct codes than a table of their size has slots to spare."""
    _check([np.random.default_rng(count).integers(0, 1 << 60, count)])


def _check(columns: list[np.ndarray]) -> None:
    distinct, index = distinct_rows(*columns)
    if len(columns[0]):
        expected, inverse = np.unique(np.stack(columns), axis=1, return_inverse=True)
        np.testing.assert_array_equal(np.stack(distinct), expected)
        np.testing.assert_array_equal(index, np.ravel(inverse))
    assert len(index) == len(columns[0])
