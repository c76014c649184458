"""Replaced: a behaviour of a runtime that one question replaced."""

from __future__ import annotations

from meshwright.specs.base import Spec


class ReplacedBehaviour(Spec):
    """What a question says of a runtime that its catalogue says otherwise."""

    behaviour: str
    """As the question names it, with or without its section: `overlap.expert`, `dispatcher`."""
    value: str
    """As TOML writes it."""
    usual: str = ""
    """What it stands in place of; empty where the runtime has nothing there."""

    @property
    def field(self) -> str:
        """The name of the field, without its section."""
        return self.behaviour.split(".")[-1]

    @property
    def change(self) -> str:
        """What is said, without what it stands in place of."""
        return f"{self.behaviour} {self.value}"

    def __str__(self) -> str:
        return f"{self.change} in place of {self.usual}" if self.usual not in ("", self.value) else self.change
