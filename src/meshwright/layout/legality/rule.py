"""Rule: one thing that a framework demands of a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from meshwright.arrays import Ints
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs


@dataclass(frozen=True)
class Rule:
    """A named rule: whether a plan keeps it, and what to say when it does not."""

    name: str
    legal: Callable[[Layout, Inputs], Ints]
    """Truth per plan, scalar or array (n,)."""
    reason: Callable[[Plan, Inputs], str]
    """The values, the rule and the nearest legal change, for a plan that breaks it."""


def divisors(number: int) -> list[int]:
    """The divisors of a number, growing.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    small = [low for low in range(1, int(number**0.5) + 1) if number % low == 0]
    return sorted({*small, *(number // low for low in small)})


def multiples(step: int, value: int) -> list[int]:
    """The positive multiples of a step around a value.

    >>> multiples(8, 20)
    [16, 24]
    """
    return [multiple for multiple in (value // step * step, (value // step + 1) * step) if multiple]


def nearest(value: int, choices: list[int]) -> str:
    """The choices next to a value, below and above, for a message.

    >>> nearest(6, [1, 2, 4, 8])
    '4 or 8'
    """
    below = [choice for choice in choices if choice < value]
    above = [choice for choice in choices if choice > value]
    return " or ".join(str(choice) for choice in below[-1:] + above[:1])


def change(field: str, value: int, choices: Iterable[int]) -> str:
    """The nearest choices of a field, for a message; empty where there is none.

    >>> change("cp", 6, [4, 8])
    'nearest cp: 4 or 8'
    """
    near = nearest(value, sorted(set(choices)))
    return near and f"nearest {field}: {near}"


def changes(*named: str) -> str:
    """Several changes, each of which would do, in one line.

    >>> changes("nearest pp: 1", "", "nearest zero: 1")
    'nearest pp: 1; nearest zero: 1'
    """
    return "; ".join(filter(None, named))
