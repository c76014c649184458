"""Spelling: fields as a framework's settings, and settings as fields; both from the same table."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from meshwright.errors import InvalidInput, any_of, quoted
from meshwright.launch.facts import Facts, holds
from meshwright.launch.forms import FORMS, Fields, read_value
from meshwright.launch.framework import Setting, Value
from meshwright.launch.table import Case, Choice, LaunchTable, Row

Settings = dict[str, Value]
"""Values by key, as `LaunchTable` has them."""
_FIELD = re.compile(r"\{([\w.]+)\}")
_APART = ("job.precision", "job.gradients", "plan.recompute", "runtime.attention_kernel")
"""Fields that no other rule of a plan rests on but those about themselves."""


@dataclass(frozen=True)
class Understood:
    """What settings say, and what they say beside it."""

    fields: Fields
    unpriced: dict[str, str] = field(default_factory=dict)
    """Settings that change memory or time and are not priced, with what they change."""
    ignored: dict[str, Any] = field(default_factory=dict)
    """Settings that change neither."""
    unknown: dict[str, Any] = field(default_factory=dict)
    """Settings that the table does not have."""
    wrong: tuple[str, ...] = ()
    """What is wrong with settings that it has."""
    hides_the_plan: bool = False
    """Whether that leaves a degree, a batch, a length or the model unknown."""


def settings_of(fields: Fields, facts: Facts, table: LaunchTable) -> Settings:
    """The settings that say these fields, in the order of the table; places to fill in are not among them.

    facts: what conditions of the table may name.
    """
    return with_settings(spelled_fields(fields, facts, table), table.settings, fields, facts)


def with_settings(spelled: Settings, beside: Iterable[Setting], fields: Fields, facts: Facts) -> Settings:
    """Settings that say fields with those that are set beside them where a plan asks for it; no flag that is off."""
    for each in beside:
        if each.asks(facts):
            spelled = spelled | {key: filled(value, fields | facts) for key, value in each.values(facts).items()}
    return {key: value for key, value in spelled.items() if value is not False or not key.startswith("--")}


def spelled_fields(fields: Fields, facts: Facts, table: LaunchTable) -> Settings:
    """The settings of the rows and the choices of a table that say these fields; false: a flag that is off."""
    settings: Settings = {}
    for name, row in table.rows.items():
        if all(holds(condition, facts) for condition in row.when) and _spells(row, fields.get(name)):
            settings[row.key] = _written(row, fields[name], fields)
    for choice in table.choices:
        if case := _chosen(choice, fields, facts):
            settings |= {key: filled(value, fields | facts) for key, value in (case.settings | case.also).items()}
    return settings


def understand(settings: Settings, table: LaunchTable) -> Understood:
    """The fields that settings say, with the framework's defaults where they are left out, and all that is no field."""
    fields: Fields = dict(table.fixed)
    wrong = [f"{key} is of {table.refused[name]}, not modelled" for key, name in _refused(settings, table)]
    unread = ["model."] * len(wrong)
    for name, row in table.rows.items():
        key = next((key for key in (row.key, *row.aliases) if key in settings), None)
        if key is None:
            continue
        try:
            fields[name] = _read(row, key, settings[key])
        except InvalidInput as error:
            wrong.append(str(error))
            unread.append(name)
    for choice in table.choices:
        try:
            fields |= _told(choice, settings)
        except InvalidInput as error:
            wrong.append(str(error))
            unread += [name for case in choice.cases for name in case.fields] or [choice.part]
    for name, row in table.rows.items():
        if name not in fields and row.default is not None:
            value = _reckoned(row.default, fields)
            fields |= {} if value is None else {name: value}
    known = table.keys | _written_beside(settings, table) | table.to_fill.keys()
    known |= {key for key, value in table.as_priced.items() if settings.get(key) == value}
    others = {key: value for key, value in settings.items() if key not in known}
    unpriced = {key: table.unpriced[key] for key in others if key in table.unpriced}
    ignored = {key: value for key, value in others.items() if _ignores(table, key) or _is_off(table, key, value)}
    unknown = {key: value for key, value in others.items() if key not in unpriced and key not in ignored}
    hides = any(name not in _APART for name in unread)
    return Understood(fields, unpriced, ignored, unknown, tuple(wrong), hides)


def _written_beside(settings: Settings, table: LaunchTable) -> set[str]:
    """Settings that are written beside the fields; those that have prices at some values alone, at these."""
    written = [pair for each in table.settings for pair in each.every_value.items()]
    return {key for key, value in written if key not in table.unpriced or settings.get(key) == value}


def _written(row: Row, value: Any, fields: Fields) -> Value:
    return FORMS[row.form].write(row.values[_name(value)] if row.values else value, fields)


def _spells(row: Row, value: Any) -> bool:
    return value is not None and (not row.values or _name(value) in row.values)


def _read(row: Row, key: str, value: Any) -> Any:
    spelled = read_value(row.form, key, value)
    if not row.values:
        return spelled
    for name, theirs in row.values.items():
        if theirs == spelled or str(theirs).lower() == str(spelled).lower():
            return {"true": True, "false": False}.get(name, name)
    raise InvalidInput(f"{key} {quoted(value)} is not modelled; known: {', '.join(map(str, row.values.values()))}")


def _chosen(choice: Choice, fields: Fields, facts: Facts) -> Case | None:
    """The first case that holds."""
    for case in choice.cases:
        says = not case.read_only and all(fields.get(name) in (value, None) for name, value in case.fields.items())
        if says and all(holds(condition, facts) for condition in case.when):
            return case
    return None


def _told(choice: Choice, settings: Settings) -> Fields:
    """The fields of the first case whose settings are there; raises `InvalidInput` where none is."""
    for case in choice.cases:
        captured: Fields = {}
        for key, wanted in case.settings.items():
            given = settings.get(key, False)
            match = _FIELD.fullmatch(wanted) if isinstance(wanted, str) else None
            if match and given is not False:
                captured[match[1]] = read_value("count", key, given)
            elif match or str(given).lower() != str(wanted).lower():
                break
        else:
            return dict(case.fields) | captured
    named = {key: settings[key] for case in choice.cases for key in case.settings if key in settings}
    listed = " ".join(f"{key} {value}" for key, value in named.items())
    known = any_of(dict.fromkeys(key for case in choice.cases for key, value in case.settings.items() if value))
    raise InvalidInput(f"{choice.about}: {listed or f'a file without {known}'} is not modelled")


def filled(value: Value, fields: Fields) -> Value:
    """A value with fields in braces filled in; one alone keeps its kind."""
    if not isinstance(value, str):
        return value
    if match := _FIELD.fullmatch(value):
        filled: Value = fields[match[1]]
        return filled
    return _FIELD.sub(lambda each: str(fields[each[1]]), value)


def _reckoned(default: Value, fields: Fields) -> Any:
    """A default; with fields in braces, their product or quotient from left to right, or None where one is unknown.

    >>> _reckoned("4 * {model.hidden_size}", {"model.hidden_size": 1024})
    4096
    """
    if not isinstance(default, str) or "{" not in default:
        return default
    value, operator = None, "*"
    for word in default.split():
        if word in "*/":
            operator = word
            continue
        match = _FIELD.fullmatch(word)
        number = fields.get(match[1]) if match else int(word)
        if not number:
            return None
        value = number if value is None else value * number if operator == "*" else value // number
    return value


def _name(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _ignores(table: LaunchTable, key: str) -> bool:
    return any(_matches(key, name) for name in table.ignored)


def _is_off(table: LaunchTable, key: str, value: Any) -> bool:
    """Whether a setting of what is not modelled says that it is not there."""
    return value in (False, None) and any(_matches(key, name) for name in table.refused)


def _refused(settings: Settings, table: LaunchTable) -> list[tuple[str, str]]:
    """Settings of models that are not modelled, with the names that the table has for them."""
    given = [key for key, value in settings.items() if value is not False and value is not None]
    return [(key, name) for name in table.refused for key in given if _matches(key, name)]


def _matches(key: str, name: str) -> bool:
    return key == name or (name.endswith("*") and key.startswith(name[:-1]))
