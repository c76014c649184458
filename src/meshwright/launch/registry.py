"""Registry: models that a framework ships or knows by their type, and in what a model that it lacks differs."""

from __future__ import annotations

from meshwright.errors import Fault, InvalidSpec, NotModelled
from meshwright.launch.architecture import model_fields, same_architecture
from meshwright.launch.forms import Fields
from meshwright.launch.refusals import refusals
from meshwright.launch.table import LaunchTable, Value
from meshwright.layout.plan import Plan
from meshwright.specs.model import Model
from meshwright.specs.read_model import read_model

NATIVE = "native"
"""The `model_type` of models in Meshwright's own form, whose class is not known."""
ROTARY = {"scaling_factor": "factor"}
"""Names of config.json for those of a registry, where they are not the same."""
MOST = 4
"""Fields in which a shipped model may differ to be called the nearest."""


def unregistered(model: Model, table: LaunchTable) -> list[Fault]:
    """Why a model is not launched from a framework's registry: how the registry has it, or the nearest one that it has
    with all that differs.
    """
    for name, what in table.registered_otherwise.items():
        if same_architecture(read_model(name), model):
            return [Fault("model", what)]
    kinds = dict.fromkeys(called.split()[0] for called in table.models.values())
    has = f"{model.name} is not in its registry, which has models of {', '.join(kinds)}"
    try:
        wanted = model_fields(model)
    except NotModelled:
        return [Fault("model", has)]
    shipped = {name: model_fields(read_model(name)) for name in table.models}
    nearest = min(shipped, key=lambda name: len(_different(shipped[name], wanted)))
    names = _different(shipped[nearest], wanted)
    if len(names) > MOST:
        return [Fault("model", has)]
    what = f"{model.name} is not in its registry, whose nearest model is {nearest}"
    return [Fault("model", what), *refusals(names, shipped[nearest], wanted, table)]


def rotary_changes(model: Model, table: LaunchTable, family: str) -> dict[str, Value]:
    """What of its rotary positions a registry has otherwise than a model's config.json, with the values of that; raises
    `InvalidSpec` for a scaling that the framework has not.

    family: the first word of the model's name in the registry. Returns nothing where either says nothing of scaling.
    """
    registered = table.registered_rotary.get(family, {})
    if not registered or not model.config_values:
        return {}
    kind, own = model.config_values.get("rope.rope_type", "default"), dict[str, Value](scaling="none")
    if kind == "llama3":
        said = {name: model.config_values.get(f"rope.{ROTARY.get(name, name)}") for name in registered}
        own = {name: value for name, value in said.items() if value is not None}
    elif kind != "default":
        fault = Fault("model", f"it has no setting for rotary positions scaled as {kind}, and would run others")
        raise InvalidSpec(f"a launch of {table.framework} ({table.release})", [fault])
    return {name: value for name, value in own.items() if value != registered[name]}


def whole_axes(plan: Plan, model: Model, table: LaunchTable) -> dict[str, Fault]:
    """Axes that a framework splits for other models and not for this one, each with why; none where it need not."""
    experts, weights = table.spread_experts, table.split_weights
    faults: dict[str, Fault] = {}
    if plan.ep > 1 and experts and model.family not in (NATIVE, *experts):
        what = f"has experts on ranks of their own for models of {', '.join(experts)}, and not of {model.family}"
        faults["ep"] = Fault("plan", f"{table.framework} {what}: ep {plan.ep} would run as 1")
    plain = model.family == NATIVE and not model.is_moe
    if plan.tp > 1 and weights and not plain and model.family not in weights:
        what = f"splits weights of models of {', '.join(weights)} over tensor-parallel ranks, and not of {model.family}"
        faults["tp"] = Fault("plan", f"{table.framework} {what}: nearest tp: 1")
    return faults


def _different(shipped: Fields, wanted: Fields) -> list[str]:
    """Fields in which two models differ; multi-token prediction is the job's."""
    names = sorted((shipped.keys() | wanted.keys()) - {"model.mtp_layers"})
    return [name for name in names if shipped.get(name) != wanted.get(name)]
