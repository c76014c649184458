"""References of a runtime's file to the rules that the framework enforces, and to what it demands of a launch."""

from __future__ import annotations

from typing import Literal

from meshwright.specs.base import Spec


class RuleReference(Spec):
    """A named legality rule that the framework enforces, or a demand that it makes on the launch."""

    name: str
    source: str
    """Where the framework enforces it."""
    enforced: Literal["at start", "late", "silently"] = "at start"
    """With its arguments; only once it has started; or by doing something else without a word."""
