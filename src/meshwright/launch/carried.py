"""Carried: what changes neither memory nor time, and only the model's config.json knows, as settings of a framework."""

from __future__ import annotations

from typing import Any

from meshwright.launch.spelling import Settings
from meshwright.launch.table import LaunchTable, Value
from meshwright.specs.model import Model


def carried_settings(model: Model, table: LaunchTable) -> Settings:
    """What a table makes of the values of a model's config.json."""
    values: dict[str, Any] = {"model_type": model.family, **model.config_values}
    settings: Settings = {}
    for each in table.carried:
        counts = "{count}" not in each.settings.values() or isinstance(values.get(each.value), int | float)
        if counts and each.value in values and all(values.get(key) == wanted for key, wanted in each.when.items()):
            settings |= {key: _spelled(form, values[each.value]) for key, form in each.settings.items()}
    return settings


def _spelled(form: Value, value: Any) -> Value:
    if form == "{count}":
        return int(value)
    spelled: Value = value if form == "{value}" else form
    return spelled
