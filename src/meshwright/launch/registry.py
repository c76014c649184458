"""Registry: models that a framework ships or knows by their type, and in what a model that it lacks differs."""

from __future__ import annotations

from meshwright.errors import Fault, NotModelled
from meshwright.launch.architecture import model_fields, same_architecture
from meshwright.launch.forms import Fields
from meshwright.launch.refusals import refusals
from meshwright.launch.table import LaunchTable
from meshwright.layout.plan import Plan
from meshwright.specs.model import Model
from meshwright.specs.read_model import read_model

NATIVE = "native"
"""The `model_type` of models in Meshwright's own form, whose class is not known."""
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
