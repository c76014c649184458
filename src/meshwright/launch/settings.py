"""Settings: the file of a framework's launch settings, and those that a plan asks for."""

from __future__ import annotations

import shlex
import tomllib
from functools import cache
from importlib import resources
from typing import NamedTuple

from meshwright.errors import UnknownName
from meshwright.launch.facts import Facts, facts_of, holds
from meshwright.layout.plan import Plan
from meshwright.specs.base import Spec
from meshwright.specs.inputs import Inputs

FILES = resources.files("meshwright.launch") / "frameworks"


class Setting(Spec):
    """One thing that a launch must set or leave out, because a default would refuse the plan or run another one."""

    name: str
    when: tuple[str, ...] = ()
    """Conditions that all hold, by their names in `facts`; none: always."""
    set: dict[str, str | bool] = {}
    """Templates of values by their key: a flag, an environment variable or a path in a configuration; true: a flag
    without a value."""
    by: str = ""
    """The value that chooses among `choices`."""
    choices: dict[str, dict[str, str | bool]] = {}
    """What is set as well where `by` has this value."""
    unset: tuple[str, ...] = ()
    """Keys that must be left out."""
    why: str
    """Template of the reason, with the values of the plan."""
    source: str


class LaunchFile(Spec):
    """The launch settings of one framework at one release."""

    framework: str
    release: str
    overlaps: dict[str, str] = {}
    """The key that switches on an overlap, by its name among the runtime's `overlap`."""
    settings: tuple[Setting, ...] = ()


class LaunchSetting(NamedTuple):
    """A setting that a plan asks for, spelled with its values."""

    name: str
    set: dict[str, str | bool]
    """Values by their key; true: a flag without a value."""
    unset: tuple[str, ...]
    why: str
    source: str

    def __str__(self) -> str:
        flags = [_spelled(key, value) for key, value in self.set.items()]
        flags = [" ".join(flags)] if flags and all(flag.startswith("--") for flag in flags) else flags
        parts = [*flags, *(f"no {key}" for key in self.unset)]
        listed = " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)
        return f"{listed}: {self.why}" if listed else self.why


def _spelled(key: str, value: str | bool) -> str:
    """A setting as people write it: `--flag value`, `VARIABLE=value` or `path value`."""
    if value is True:
        return key
    text = shlex.quote(str(value)) if set("|*()") & set(str(value)) else str(value)
    return f"{key}={text}" if key.isupper() else f"{key} {text}"


@cache
def launch_file(name: str) -> LaunchFile:
    """The launch settings of that name, first those of a file that it is like, but for names that it has itself.

    Raises `UnknownName`.
    """
    known = {file.name.removesuffix(".toml"): file for file in FILES.iterdir() if file.name.endswith(".toml")}
    if name not in known:
        raise UnknownName("launch", name, known)
    entry = tomllib.loads(known[name].read_text("utf-8"))
    like = launch_file(entry.pop("like")) if "like" in entry else None
    own = LaunchFile(**entry)
    if like is None:
        return own
    settings = {each.name: each for each in (*like.settings, *own.settings)}
    return own.replace(overlaps={**like.overlaps, **own.overlaps}, settings=tuple(settings.values()))


def launch_settings(plan: Plan, inputs: Inputs) -> list[LaunchSetting]:
    """What a launch of the plan must set, in the order of the file that the runtime names; none without one."""
    launch = inputs.runtime.launch
    if not launch:
        return []
    facts = facts_of(plan, inputs)
    settings = (
        each for each in launch_file(launch).settings if all(holds(condition, facts) for condition in each.when)
    )
    return [_filled(setting, facts) for setting in settings]


def _filled(setting: Setting, facts: Facts) -> LaunchSetting:
    chosen = setting.choices.get(str(facts[setting.by]), {}) if setting.by else {}
    templates = {**setting.set, **chosen}
    values = {
        key.format_map(facts): value if isinstance(value, bool) else value.format_map(facts)
        for key, value in templates.items()
    }
    return LaunchSetting(setting.name, values, setting.unset, why=setting.why.format_map(facts), source=setting.source)
