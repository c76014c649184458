"""What a runtime's file says of legality: where the framework checks rules, and which it adds."""

from __future__ import annotations

from typing import Literal

from meshwright.specs.base import Spec


class Enforcement(Spec):
    """Where a framework checks a rule, and when."""

    source: str
    enforced: Literal["at start", "late", "silently"] = "at start"
    """With its arguments; only once it has started; or by doing something else without a word."""


class RuleReference(Enforcement):
    """A legality rule that a framework adds to those of all."""

    name: str
    parameters: dict[str, int] = {}
    """Numbers that the rule takes, where they are not its defaults."""
