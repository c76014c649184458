"""Demand: one thing that a launch must set beside the plan, which the plan itself cannot say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from meshwright.layout.plan import Plan
from meshwright.specs.inputs import Inputs


@dataclass(frozen=True)
class Demand:
    """A named demand: whether a plan raises it, and what the launch has to set or to leave out."""

    name: str
    applies: Callable[[Plan, Inputs], bool]
    text: Callable[[Plan, Inputs], str]
    """The setting as the framework spells it, and the values of the plan that ask for it."""
