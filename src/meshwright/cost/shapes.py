"""Shapes: evaluate what depends on a few fields of a plan once for every distinct choice of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from meshwright.arrays import IntColumn
from meshwright.distinct import distinct_rows, gathered
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Layout, Plans

Answer = TypeVar("Answer", bound=tuple[Any, ...])


class Shapes(NamedTuple):
    """The distinct combinations of some fields that many plans have."""

    plans: Plans
    """One of each, all other fields at their defaults, shape (k,)."""
    of_plan: IntColumn
    """For every plan the row of its own, shape (n,)."""


def distinct_shapes(plans: Plans, fields: Iterable[str]) -> Shapes:
    """The distinct combinations of the given fields of plans. fields: their names."""
    names = tuple(fields)
    columns, index = distinct_rows(*(getattr(plans, name) for name in names))
    distinct = Plans.filled(**dict(zip(names, columns, strict=True)))
    return Shapes(replace(distinct, chunkings=plans.chunkings), index)


def on_shapes(function: Callable[[Layout], Answer], plan: Layout, *fields: str) -> Answer:
    """`function(plan)`, of many plans evaluated once for every distinct combination of the given fields.

    function: reads no other field of a plan, and returns a tuple, which may nest, of scalars or arrays (n,); plan:
    scalar or array (n,); fields: their names. Returns what the function returns, in its units.
    """
    if isinstance(plan, Plan):
        return function(plan)
    shapes = distinct_shapes(plan, fields)
    return gathered(function(shapes.plans), shapes.of_plan)
