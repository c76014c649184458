"""Framework: what launches of one framework set beside the fields of a plan, each setting once.

A folder of `launch/frameworks/` has `settings.toml`, read here, and `fields.toml`, how the fields are spelled, read by
`table`. Files write what the two say, `settings.launch_settings` tells of it what has a name.
"""

from __future__ import annotations

import shlex
import tomllib
from functools import cache
from importlib import resources
from typing import Any

from meshwright.errors import UnknownName
from meshwright.launch.facts import Facts, holds
from meshwright.specs.base import Spec
from meshwright.specs.like import over_like

FILES = resources.files("meshwright.launch") / "frameworks"
Value = bool | int | float | str | list[Any]
"""Of a setting, as JSON and TOML have them; a flag of a command line is true, its other values are text."""


class Setting(Spec):
    """Something that a launch must set or leave out, because the prediction rests on it, or a default would refuse the
    plan or run another one.
    """

    name: str = ""
    """By which people are told of it; none: it is written, and not worth telling."""
    when: tuple[str, ...] = ()
    """Conditions that all hold, by their names in `facts`; none: always."""
    set: dict[str, Value] = {}
    """Values by their key, a flag, a variable of the environment or a path, which are written and told. A fact or field
    in braces stands for its value; true: a flag without a value."""
    by: str = ""
    """The fact that chooses among `choices`."""
    choices: dict[str, dict[str, Value]] = {}
    """What is set as well where `by` has this value."""
    tells: tuple[str, ...] = ()
    """Keys that other settings or the fields of a plan write: told with the values that are written, if any is."""
    told: dict[str, str] = {}
    """Templates of values that are told in place of what is `set`."""
    instead: str = ""
    """What files say in place of what is `told`."""
    unset: tuple[str, ...] = ()
    """Keys that must be left out."""
    left_out: dict[str, Value] = {}
    """Of keys whose other values are not priced: what the framework takes where they are left out."""
    why: str
    """Template of the reason, with the facts of the plan."""
    source: str = ""
    """Of a setting that is told."""

    def asks(self, facts: Facts) -> bool:
        """Whether a plan asks for it."""
        return all(holds(condition, facts) for condition in self.when)

    def values(self, facts: Facts) -> dict[str, Value]:
        """What it sets for a plan, as templates."""
        return self.set | (self.choices.get(str(facts[self.by]), {}) if self.by else {})

    @property
    def every_value(self) -> dict[str, Value]:
        """What it sets for any plan, as templates."""
        return {key: value for each in (self.set, *self.choices.values()) for key, value in each.items()}


class LaunchFile(Spec):
    """What launches of one framework at one release set beside the fields of a plan."""

    framework: str
    release: str
    fields: str = ""
    """The framework whose `fields.toml` spells the fields, where there is none beside it."""
    overlaps: dict[str, str] = {}
    """The key that switches on an overlap, by its name among the runtime's `overlap`."""
    settings: tuple[Setting, ...] = ()


def shell_words(value: Value) -> str:
    """A value as a command line has it: words of a list, and in quotes what a shell would take for its own.

    >>> shell_words([8, 2]), shell_words("Et|(t|)*2tL")
    ('8 2', "'Et|(t|)*2tL'")
    """
    text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    return shlex.quote(text) if set("|*()") & set(text) else text


def framework_files(kind: str) -> list[str]:
    """Names of the frameworks that have a file of this kind, `fields` or `settings`."""
    return sorted(folder.name for folder in FILES.iterdir() if (folder / f"{kind}.toml").is_file())


@cache
def framework_text(name: str, kind: str) -> str:
    """A file of a framework as it is written."""
    return (FILES / name / f"{kind}.toml").read_text("utf-8")


@cache
def launch_file(name: str) -> LaunchFile:
    """The settings of that name, first those of a file that it is like, but for names that it has itself.

    Raises `UnknownName`.
    """
    if name not in framework_files("settings"):
        raise UnknownName("launch", name, framework_files("settings"))
    return LaunchFile(**_settings_entry(name))


def _settings_entry(name: str) -> dict[str, Any]:
    return over_like(tomllib.loads(framework_text(name, "settings")), _settings_entry, _settings_over)


def _settings_over(like: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """What two files set, in the order of the one below."""
    named = {each["name"]: each for each in own.get("settings", ()) if "name" in each}
    kept = [named.pop(each.get("name"), each) for each in like.get("settings", ())]
    added = [each for each in own.get("settings", ()) if each.get("name") in (None, *named)]
    overlaps = like.get("overlaps", {}) | own.get("overlaps", {})
    return like | own | {"overlaps": overlaps, "settings": [*kept, *added]}
