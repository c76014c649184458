"""Degrees: every way to write a number of GPUs as a product."""

from __future__ import annotations

from collections.abc import Iterator

from meshwright.layout.legality.rule import divisors

MAX_GPUS = 10_000_000
"""More than any site has; a larger count is taken for a slip."""


def products(number: int, factors: int) -> Iterator[tuple[int, ...]]:
    """Every tuple of so many factors whose product is the number, in ascending order.

    >>> list(products(4, 2))
    [(1, 4), (2, 2), (4, 1)]
    """
    if factors == 1:
        yield (number,)
        return
    for first in divisors(number):
        for rest in products(number // first, factors - 1):
            yield (first, *rest)
