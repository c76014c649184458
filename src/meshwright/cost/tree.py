"""Tree: one operation on every number of nested named tuples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Tree = TypeVar("Tree", bound=tuple[Any, ...])


def combined(function: Callable[..., Any], first: Tree, *others: Tree) -> Tree:
    """The tuple that holds `function` of the numbers that stand at the same place in all the given ones.

    first, others: tuples alike in form, which may nest; scalars or arrays (n,). Returns the first one's form, in the
    unit that the function makes.
    """
    parts = zip(first, *others, strict=True)
    make: Any = getattr(first, "_make", tuple)
    whole: Tree = make(combined(function, *part) if isinstance(part[0], tuple) else function(*part) for part in parts)
    return whole
