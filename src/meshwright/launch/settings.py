"""Settings: what people are told that a launch of a plan must set."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from meshwright.errors import listed
from meshwright.launch.architecture import attention_fields
from meshwright.launch.facts import Facts, facts_of
from meshwright.launch.fields import fields_beside_the_model
from meshwright.launch.framework import Setting, Value, framework_files, launch_file, shell_words
from meshwright.launch.spelling import Settings, spelled_fields, with_settings
from meshwright.launch.table import LaunchTable, launch_table
from meshwright.layout.plan import Plan
from meshwright.specs.inputs import Inputs


class LaunchSetting(NamedTuple):
    """A setting that a plan asks for, spelled with its values."""

    name: str
    set: dict[str, str | bool]
    """Values by their key; true: a flag without a value."""
    unset: tuple[str, ...]
    why: str
    source: str

    def __str__(self) -> str:
        flags = [spelled_setting(key, value) for key, value in self.set.items()]
        flags = [" ".join(flags)] if flags and all(flag.startswith("--") for flag in flags) else flags
        parts = [*flags, *(f"no {key}" for key in self.unset)]
        return f"{listed(parts)}: {self.why}" if parts else self.why


def spelled_setting(key: str, value: str | bool) -> str:
    """A setting as people write it: `--flag value`, `VARIABLE=value` or `path value`."""
    if value is True:
        return key
    text = shell_words(value)
    return f"{key}={text}" if key.isupper() else f"{key} {text}"


def spelled_settings(settings: Mapping[str, str | bool]) -> str:
    """Several of them in one line: flags and variables as a command has them, paths with commas between."""
    apart = " " if all(key.startswith("--") or key.isupper() for key in settings) else ", "
    return apart.join(spelled_setting(key, value) for key, value in settings.items())


@lru_cache(maxsize=64)
def launch_settings(plan: Plan, inputs: Inputs) -> tuple[LaunchSetting, ...]:
    """What a launch of the plan must set, in the order of the file that the runtime names; none without one."""
    launch = inputs.runtime.launch
    if not launch:
        return ()
    file, facts, table = launch_file(launch), facts_of(plan, inputs), _table_of(launch)
    fields = fields_beside_the_model(plan, inputs) | attention_fields(inputs.model)
    spelled = spelled_fields(fields, facts, table) if table else {}
    written = with_settings(spelled, file.settings, fields, facts)
    asked = (each for each in file.settings if each.name and each.asks(facts))
    told = (each for each in asked if not each.tells or written.keys() & {*each.tells})
    return tuple(_filled(each, facts, written, table) for each in told)


def can_say(launch: str, field: str, value: Value) -> bool:
    """Whether people are told of settings that say that a field has a value."""
    told, table = {key for each in launch_file(launch).settings for key in each.tells}, _table_of(launch)
    cases = [case for choice in table.choices for case in choice.cases] if table else []
    return any(case.fields.get(field) == value and told & case.settings.keys() for case in cases)


def as_told(launch: str, settings: Settings) -> dict[str, str | bool]:
    """Settings as the files of a launch say them: the fields of a recipe, where the framework has recipes."""
    return _as_told(settings, _table_of(launch))


def _table_of(launch: str) -> LaunchTable | None:
    """The table that spells the fields of a launch; None where there is none."""
    name = launch_file(launch).fields or launch
    return launch_table(name) if name in framework_files("fields") else None


def _filled(setting: Setting, facts: Facts, written: Settings, table: LaunchTable | None) -> LaunchSetting:
    keys = (*setting.tells, *(() if setting.told else setting.values(facts)))
    told = _as_told({key: written[key] for key in keys if key in written}, table)
    told |= {key: value.format_map(facts) for key, value in setting.told.items()}
    unset = setting.unset
    if table and table.recipe:
        unset = tuple(field for key in unset for field in _unset_in(table, key))
    return LaunchSetting(setting.name, told, unset, why=setting.why.format_map(facts), source=setting.source)


def _as_told(settings: Settings, table: LaunchTable | None) -> dict[str, str | bool]:
    """Values as text, but for a flag without one; of a recipe as Python has them."""
    if table and table.recipe:
        fields = table.as_recipe(settings).items()
        return {name: value if isinstance(value, str) else repr(value) for name, value in fields}
    in_python = table is not None and table.file == "python"
    return {key: _told(value, in_python) for key, value in settings.items()}


def _unset_in(table: LaunchTable, key: str) -> tuple[str, ...]:
    """What a recipe leaves out: the field that says a flag, where it has one, or a variable."""
    return table.recipe_targets(key, None)[:1] if key.startswith("--") else (key,)


def _told(value: Value, in_python: bool) -> str | bool:
    if value is True and not in_python:
        return True
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
