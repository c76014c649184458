"""Settings: what people are told that a launch of a plan must set."""

from __future__ import annotations

import shlex
from typing import NamedTuple

from meshwright.launch.architecture import attention_fields
from meshwright.launch.facts import Facts, facts_of
from meshwright.launch.fields import fields_beside_the_model
from meshwright.launch.framework import Setting, Value, framework_files, launch_file
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
        listed = " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)
        return f"{listed}: {self.why}" if listed else self.why


def spelled_setting(key: str, value: str | bool) -> str:
    """A setting as people write it: `--flag value`, `VARIABLE=value` or `path value`."""
    if value is True:
        return key
    text = shlex.quote(str(value)) if set("|*()") & set(str(value)) else str(value)
    return f"{key}={text}" if key.isupper() else f"{key} {text}"


def launch_settings(plan: Plan, inputs: Inputs) -> list[LaunchSetting]:
    """What a launch of the plan must set, in the order of the file that the runtime names; none without one."""
    launch = inputs.runtime.launch
    if not launch:
        return []
    file, facts, table = launch_file(launch), facts_of(plan, inputs), _table_of(launch)
    fields = fields_beside_the_model(plan, inputs) | attention_fields(inputs.model)
    spelled = spelled_fields(fields, facts, table) if table else {}
    written = with_settings(spelled, file.settings, fields, facts)
    asked = (each for each in file.settings if each.name and each.asks(facts))
    told = (each for each in asked if not each.tells or written.keys() & {*each.tells})
    in_python = table is not None and table.file == "python"
    return [_filled(each, facts, written, in_python=in_python) for each in told]


def can_say(launch: str, field: str, value: Value) -> bool:
    """Whether people are told of settings that say that a field has a value."""
    told, table = {key for each in launch_file(launch).settings for key in each.tells}, _table_of(launch)
    cases = [case for choice in table.choices for case in choice.cases] if table else []
    return any(case.fields.get(field) == value and told & case.settings.keys() for case in cases)


def _table_of(launch: str) -> LaunchTable | None:
    """The table that spells the fields of a launch; None where there is none."""
    name = launch_file(launch).fields or launch
    return launch_table(name) if name in framework_files("fields") else None


def _filled(setting: Setting, facts: Facts, written: Settings, *, in_python: bool) -> LaunchSetting:
    keys = (*setting.tells, *(() if setting.told else setting.values(facts)))
    values = {key: _told(written[key], in_python) for key in keys if key in written}
    values |= {key: value.format_map(facts) for key, value in setting.told.items()}
    return LaunchSetting(setting.name, values, setting.unset, why=setting.why.format_map(facts), source=setting.source)


def _told(value: Value, in_python: bool) -> str | bool:
    """A value as it is told: as text, but for a flag without one."""
    if value is True and not in_python:
        return True
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
