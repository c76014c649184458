"""Rule: one thing that a plan must keep, as a function that asks by name for what it needs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from operator import attrgetter
from typing import Any, Literal, TypeAlias, cast

from meshwright.arrays import Bools, Ints
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs

Ruling: TypeAlias = Iterator[Bools | str]
"""What a rule yields: first whether a plan keeps it, scalar or array (n,); then, asked of a single plan that breaks it,
the values, the rule and the nearest legal change. Of several such reasons the first counts."""

PARTS = ("model", "cluster", "job", "runtime", "recipe")
"""Parts of a question that a rule may ask for by name, beside `inputs`, the whole of it."""


@dataclass(frozen=True)
class Rule:
    """A named rule. Its function takes the plan, then what it names of the question, then its parameters by name."""

    function: Callable[..., Ruling]
    kind: Literal["invariant", "limit", "restriction"]
    """What any plan must keep for its price to hold, with what the runtime has read from its fields; a limit of the
    framework that a field of the runtime states; or one that the runtime's file lists. The first two always apply."""
    parameters: Mapping[str, int] = field(default_factory=dict)
    """As a runtime's file gives them; the function has the defaults."""

    @property
    def name(self) -> str:
        """As runtimes' files and answers call it."""
        return self.function.__name__

    @property
    def topic(self) -> str:
        """The file of `legality` in which it stands."""
        return self.function.__module__.rpartition(".")[2]

    @property
    def summary(self) -> str:
        """What it asks of a plan, in one sentence."""
        return " ".join((self.function.__doc__ or "").split())

    @property
    def known_parameters(self) -> frozenset[str]:
        """What a runtime's file may give it."""
        return frozenset(_asks(self.function)) - {"inputs", *PARTS}

    @cached_property
    def _parts(self) -> tuple[Callable[[Inputs], Any], ...]:
        """What takes from a question those of its parts that the function asks for, which come first."""
        return tuple(_OF_INPUTS[name] for name in _asks(self.function) if name in _OF_INPUTS)

    def legal(self, plan: Layout, inputs: Inputs) -> Bools:
        """Whether a plan keeps it; scalar or array (n,)."""
        kept: Bools = next(self._ruling(plan, inputs))  # type: ignore[assignment]
        return kept

    def reason(self, plan: Plan, inputs: Inputs) -> str:
        """The values, the rule and the nearest legal change, for a plan that breaks it."""
        ruling = self._ruling(plan, inputs)
        next(ruling)
        return cast(str, next(ruling))

    def _ruling(self, plan: Layout, inputs: Inputs) -> Ruling:
        return self.function(plan, *[getter(inputs) for getter in self._parts], **self.parameters)


_OF_INPUTS: dict[str, Callable[[Inputs], Any]] = {"inputs": lambda inputs: inputs} | {
    name: attrgetter(name) for name in PARTS
}


@cache
def _asks(function: Callable[..., Ruling]) -> tuple[str, ...]:
    """The names of what a rule asks for beside the plan."""
    return tuple(inspect.signature(function).parameters)[1:]


def invariant(function: Callable[..., Ruling]) -> Rule:
    """A rule that any plan must keep, under any runtime."""
    return Rule(function, "invariant")


def limit(function: Callable[..., Ruling]) -> Rule:
    """A rule of frameworks alone, stated by a field of the runtime; a plan that breaks it still has a price."""
    return Rule(function, "limit")


def restriction(function: Callable[..., Ruling]) -> Rule:
    """A rule of the frameworks whose files list it; a plan that breaks it still has a price."""
    return Rule(function, "restriction")


def lacking(plan: Layout, field: str, has: bool, what: str, without: int = 1) -> Ruling:
    """The ruling on a field that must stay at what stands for none, unless the runtime has such a thing.

    plan: scalar or array (n,); what: what the runtime does not have, as a sentence.
    """
    yield (getattr(plan, field) == without) | has
    yield f"{field} {getattr(plan, field)}: {what}; nearest {field}: {without}"


def dividing(plan: Layout, field: str, count: int, subject: str) -> Ruling:
    """The ruling on a degree that must divide a count, or with it every one of those whose common divisor it is.

    plan: scalar or array (n,); field: of the degree; subject: what the count is of, with its verb.
    """
    degree = getattr(plan, field)
    yield count % degree == 0
    yield f"{subject} not divisible by {field} {degree}; {change(field, degree, divisors(count))}"


def one(plan: Layout) -> Plan:
    """The plan whose reason is asked for: a single one."""
    return cast(Plan, plan)


def divisors(*factors: int) -> list[int]:
    """The divisors of a number, or of the product of several, growing. A product takes no longer than its factors.

    >>> divisors(12), divisors(2, 6)
    ([1, 2, 3, 4, 6, 12], [1, 2, 3, 4, 6, 12])
    """
    found, *others = map(_divisors, factors)
    for each in others:
        found = tuple(sorted({here * there for here in found for there in each}))
    return list(found)


@lru_cache(maxsize=1 << 14)
def _divisors(number: int) -> tuple[int, ...]:
    small = [low for low in range(1, int(number**0.5) + 1) if number % low == 0]
    return tuple(sorted({*small, *(number // low for low in small)}))


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


def change(field: str, value: Ints, choices: Iterable[int]) -> str:
    """The nearest choices of a field, for a message; empty where there is none.

    >>> change("cp", 6, [4, 8])
    'nearest cp: 4 or 8'
    """
    near = nearest(int(value), sorted(set(choices)))
    return near and f"nearest {field}: {near}"


def changes(*named: str) -> str:
    """Several changes, each of which would do, in one line.

    >>> changes("nearest pp: 1", "", "nearest zero: 1")
    'nearest pp: 1; nearest zero: 1'
    """
    return "; ".join(filter(None, named))
