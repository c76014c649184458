"""Shapes: evaluate what depends on a few fields of a plan once for every distinct choice of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from meshwright.distinct import on_distinct
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Layout, Plans

Answer = TypeVar("Answer", bound=tuple[Any, ...])


def on_shapes(function: Callable[[Layout], Answer], plan: Layout, *fields: str) -> Answer:
    """`function(plan)`, of many plans evaluated once for every distinct combination of the given fields.

    function: reads no other field of a plan, and returns a tuple, which may nest, of scalars or arrays (n,); plan:
    scalar or array (n,); fields: their names. Returns what the function returns, in its units.
    """
    if isinstance(plan, Plan):
        return function(plan)
    return on_distinct(
        lambda *columns: function(Plans.filled(**dict(zip(fields, columns, strict=True)))),
        *(getattr(plan, field) for field in fields),
    )
