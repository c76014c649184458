"""Choices: the values with names that fields of a plan take, and their names in every file and on the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any

from pydantic import AfterValidator

from meshwright.schedules.records import SCHEDULE_NAMES
from meshwright.specs.recompute_modules import RECOMPUTE_MODULE_NAMES


class Recompute(IntEnum):
    """What the backward pass computes again instead of keeping it."""

    NONE = 0
    SELECTIVE = 1
    """Parts of every layer: the plan's `recompute_modules`, or what the runtime chooses."""
    FULL = 2
    """Every layer, from its input."""


class ContextExchange(IntEnum):
    """How context-parallel ranks bring queries together with keys and values."""

    RING = 0
    """Keys and values travel from rank to rank (ring attention, arXiv:2310.01889)."""
    ALL_GATHER = 1
    """Keys and values are gathered whole (Llama 3, arXiv:2407.21783)."""
    ALL_TO_ALL = 2
    """Ranks exchange their share of the sequence for a share of the heads (Ulysses, arXiv:2309.14509)."""
    HIERARCHICAL = 3
    """All-to-all inside the scale-up domain, rings across."""


CONTEXT_EXCHANGE_NAMES = {kind: kind.name.lower() for kind in ContextExchange}
RECOMPUTE_NAMES = {kind: kind.name.lower() for kind in Recompute}
CHOICES: dict[str, Mapping[Any, str]] = {
    "recompute": RECOMPUTE_NAMES,
    "recompute_modules": RECOMPUTE_MODULE_NAMES,
    "schedule": SCHEDULE_NAMES,
    "context_exchange": CONTEXT_EXCHANGE_NAMES,
}
"""By field of a plan, the names of its values."""


def one_of(names: Iterable[str]) -> AfterValidator:
    """What holds a text to some names."""
    known = tuple(names)

    def require(name: str) -> str:
        if name not in known:
            raise ValueError(f"must be one of {', '.join(known)}")
        return name

    return AfterValidator(require)
