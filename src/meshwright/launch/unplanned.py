"""Unplanned: what a launch needs and no price rests on, of the model's config.json and of data."""

from __future__ import annotations

from meshwright.launch.framework import Value
from meshwright.specs.base import Spec


class Carried(Spec):
    """A value of the model's config.json that no price rests on, and its settings."""

    value: str
    """Its key in `Model.config_values`."""
    when: dict[str, Value] = {}
    """Values of other keys that go with it, one or a list of some; an empty text: that the key is not there."""
    settings: dict[str, Value] = {}
    """`{value}`: the value itself; `{count}`: as a whole number."""
    only: float | None = None
    """The only value that a command line takes, which has no option for it; the settings are those of a recipe."""

    def is_said(self, recipe: bool) -> bool:
        """Whether there are settings for the value; recipe: whether they are fields of one."""
        return bool(self.settings) and (self.only is None or recipe)


class MockData(Spec):
    """How a launch is tried without any data."""

    variable: str
    """Of the environment, which is 1 then."""
    settings: dict[str, Value]
    instead_of: tuple[str, ...]
    """Settings to fill that these replace."""
