"""Carried: what changes neither memory nor time, and only the model's config.json knows, as settings of a framework."""

from __future__ import annotations

from typing import Any

from meshwright.errors import Fault, InvalidSpec
from meshwright.launch.framework import Value
from meshwright.launch.spelling import Settings
from meshwright.launch.table import LaunchTable
from meshwright.launch.unplanned import Carried
from meshwright.specs.model import Model

ORIGINAL = "rope.original_max_position_embeddings"
"""From how many positions YaRN scales."""


def carried_settings(model: Model, table: LaunchTable) -> Settings:
    """What a table makes of the values of a model's config.json; raises `InvalidSpec` where a framework would take a
    value of its own for one that the file leaves out, or for another one that no setting says.
    """
    latent = any(kind.attention.latent for kind in model.layer_kinds)
    values: dict[str, Any] = {"model_type": model.family, "latent_attention": latent, **model.config_values}
    _require_original(values, table)
    _require_only(values, table)
    settings: Settings = {}
    said = [each for each in table.carried if each.value in values and each.is_said(bool(table.recipe))]
    for each in said:
        counts = "{count}" not in each.settings.values() or isinstance(values[each.value], int | float)
        if counts and _goes_with(each, values):
            settings |= {key: _spelled(form, values[each.value]) for key, form in each.settings.items()}
    return settings


def _require_original(values: dict[str, Any], table: LaunchTable) -> None:
    """Source: Megatron-LM, argument_utils.py, _apply_yarn_config_from_args, which takes 4096 where nothing is said."""
    if values.get("rope.rope_type") != "yarn" or ORIGINAL in values:
        return
    if any(each.value == ORIGINAL and each.only is None and _goes_with(each, values) for each in table.carried):
        what = "is missing, and so is max_position_embeddings: add one of them to the model's config.json"
        subject = f"a launch of {table.framework} ({table.release})"
        raise InvalidSpec(subject, [Fault(f"model.{ORIGINAL}", f"{what}; {table.framework} would take 4096")])


def _require_only(values: dict[str, Any], table: LaunchTable) -> None:
    """Source: Megatron-LM, rotary_pos_embedding.py (_apply_scaling), transformer_config.py (MLATransformerConfig)."""
    unsaid = [each for each in table.carried if each.only is not None and not each.is_said(bool(table.recipe))]
    given = [(each, values.get(each.value)) for each in unsaid if _goes_with(each, values)]
    faults = [
        Fault(
            f"model.{each.value}",
            f"is {value:g}; {table.framework} takes {each.only:g}, and has no setting for it"
            + ("; a recipe of --runtime megatron-bridge has one" if each.settings else ""),
        )
        for each, value in given
        if isinstance(value, int | float) and value != each.only
    ]
    if faults:
        raise InvalidSpec(f"a launch of {table.framework} ({table.release})", faults)


def _goes_with(each: Carried, values: dict[str, Any]) -> bool:
    """Whether the other values are those with which one is carried."""
    return all(_is(values, key, wanted) for key, wanted in each.when.items())


def _is(values: dict[str, Any], key: str, wanted: Value) -> bool:
    return values.get(key, "") in (wanted if isinstance(wanted, list) else [wanted])


def _spelled(form: Value, value: Any) -> Value:
    if form == "{count}":
        return int(value)
    spelled: Value = value if form == "{value}" else form
    return spelled
