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


def unspread(plan: Plan, model: Model, table: LaunchTable) -> list[Fault]:
    """Why a framework cannot put the experts of a model on ranks of their own; nothing where it can or need not."""
    known = table.spread_experts
    if plan.ep == 1 or not known or model.family in (NATIVE, *known):
        return []
    what = f"has experts on ranks of their own for models of {', '.join(known)}, and not of {model.family}"
    return [Fault("plan", f"{table.framework} {what}: ep {plan.ep} would run as 1")]


def _different(shipped: Fields, wanted: Fields) -> list[str]:
    """Fields in which two models differ; multi-token prediction is the job's."""
    names = sorted((shipped.keys() | wanted.keys()) - {"model.mtp_layers"})
    return [name for name in names if shipped.get(name) != wanted.get(name)]
