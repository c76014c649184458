"""Columns: the widths of a table's columns on a screen that is too narrow for all of their text."""

from __future__ import annotations

from collections.abc import Sequence


def fitted(natural: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Widths that together take at most `room`, in characters: the widest column shrinks first, and none shrinks below
    its least width while another can shrink; no column is narrower than 1.

    >>> fitted([40, 60], [30, 10], 60)
    [30, 30]
    >>> fitted([40, 60], [30, 10], 50), fitted([5, 9], [5, 9], 10)
    ([30, 20], [5, 5])
    """
    widths = [*natural]
    for floor in (least, [1] * len(widths)):
        while sum(widths) > room and any(width > low for width, low in zip(widths, floor, strict=True)):
            widest = max(range(len(widths)), key=lambda index: (widths[index] > floor[index], widths[index]))
            widths[widest] -= 1
    return widths
