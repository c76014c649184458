"""Carried: what changes neither memory nor time, and only the model's config.json knows, as settings of a framework."""

from __future__ import annotations

from typing import Any

from meshwright.launch.spelling import Settings
from meshwright.launch.table import LaunchTable, Value
from meshwright.specs.model import Model


def carried_settings(model: Model, table: LaunchTable) -> Settings:
    """What a table makes of the values of a model's config.json."""
    latent = any(kind.attention.latent for kind in model.layer_kinds)
    values: dict[str, Any] = {"model_type": model.family, "latent_attention": latent, **model.config_values}
    settings: Settings = {}
    for each in table.carried:
        counts = "{count}" not in each.settings.values() or isinstance(values.get(each.value), int | float)
        if counts and each.value in values and all(_is(values, key, wanted) for key, wanted in each.when.items()):
            settings |= {key: _spelled(form, values[each.value]) for key, form in each.settings.items()}
    return settings


def _is(values: dict[str, Any], key: str, wanted: Value) -> bool:
    return values.get(key, "") in (wanted if isinstance(wanted, list) else [wanted])


def _spelled(form: Value, value: Any) -> Value:
    if form == "{count}":
        return int(value)
    spelled: Value = value if form == "{value}" else form
    return spelled
