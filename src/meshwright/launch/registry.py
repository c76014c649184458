"""Registry: models that a framework ships or knows by their type, and in what a model that it lacks differs."""

from __future__ import annotations

from meshwright.errors import Fault, InvalidSpec, NotModelled, UnknownName
from meshwright.launch.architecture import model_fields, same_architecture
from meshwright.launch.forms import Fields
from meshwright.launch.framework import Value
from meshwright.launch.refusals import refusals
from meshwright.launch.table import LaunchTable
from meshwright.layout.plan import Plan
from meshwright.specs import catalog
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import Model
from meshwright.specs.reading.model import read_model

NATIVE = "native"
"""The `model_type` of models in Meshwright's own form, whose class is not known."""
ROTARY = {
    "theta": "rope_theta",
    "scaling_factor": "rope.factor",
    "low_freq_factor": "rope.low_freq_factor",
    "high_freq_factor": "rope.high_freq_factor",
    "original_max_position_embeddings": "rope.original_max_position_embeddings",
    "rope_factor": "rope.factor",
    "beta_fast": "rope.beta_fast",
    "beta_slow": "rope.beta_slow",
    "original_seq_len": "rope.original_max_position_embeddings",
    "truncate": "rope.truncate",
}
"""Keys of `Model.config_values` for a registry's names of the same."""
SCALINGS = {"default": "none", "llama3": "llama", "yarn": "yarn"}
"""A registry's names for those of `rope_type`."""
MOST = 4
"""Fields in which a shipped model may differ to be called the nearest."""


def registered(inputs: Inputs, table: LaunchTable) -> str | None:
    """What the framework's registry calls the model, or None where models are spelled; raises `InvalidSpec`."""
    if not table.models:
        return None
    sequence, model = inputs.job.sequence_length, inputs.model
    for known, called in table.models.items():
        if same_architecture(read_model(known), model, sequence):
            rotary_changes(model, table, called)
            return called
    raise InvalidSpec(f"a launch of {table.framework} ({table.release})", _unregistered(model, sequence, table))


def published_name(inputs: Inputs) -> str:
    """What a training script calls the model: as Hugging Face has it, where the catalogue has the same under its name;
    else a name that nobody takes for another model's.

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> published_name(LLAMA.replace(model=read_model("llama-3.1-8b")))
    'meta-llama/Llama-3.1-8B'
    """
    model = inputs.model
    try:
        name = catalog.resolve("models", model.name)
        known = read_model(name)
    except UnknownName:
        return f"config.json of {model.name}"
    if known.mtp_layers != model.mtp_layers or not same_architecture(known, model, inputs.job.sequence_length):
        return f"config.json of {model.name}"
    hosted: list[str] = [each for each in catalog.load("models", name).get("aliases", ()) if "/" in each]
    return next((each for each in hosted if each.lower().endswith(f"/{name}")), (*hosted, name)[0])


def _unregistered(model: Model, sequence: int, table: LaunchTable) -> list[Fault]:
    """Why a model is not launched from a framework's registry: how the registry has it, or the nearest one that it has
    with all that differs over sequences of so many tokens.
    """
    for name, what in table.registered_otherwise.items():
        if same_architecture(read_model(name), model, sequence):
            return [Fault("model", what)]
    kinds = dict.fromkeys(called.split()[0] for called in table.models.values())
    has = f"{model.name} is not in its registry, which has models of {', '.join(kinds)}"
    try:
        wanted = model_fields(model.over(sequence))
    except NotModelled:
        return [Fault("model", has)]
    shipped = {name: model_fields(read_model(name).over(sequence)) for name in table.models}
    nearest = min(shipped, key=lambda name: len(_different(shipped[name], wanted)))
    names = _different(shipped[nearest], wanted)
    if len(names) > MOST:
        return [Fault("model", has)]
    what = f"{model.name} is not in its registry, whose nearest model is {nearest}"
    return [Fault("model", what), *refusals(names, shipped[nearest], wanted, table)]


def rotary_changes(model: Model, table: LaunchTable, registered: str) -> dict[str, Value]:
    """What of its rotary positions a registry has otherwise than a model's config.json, with the values of that; raises
    `InvalidSpec` for a scaling that the registered model cannot have.

    registered: the model's name in the registry. Returns nothing where either says nothing of rotary positions.
    """
    family = registered.split()[0]
    known = table.registered_rotary.get(family, {}) | table.registered_rotary.get(registered, {})
    if not known or not model.config_values:
        return {}
    kind = model.config_values.get("rope.rope_type", "default")
    scaling = SCALINGS.get(str(kind))
    if scaling not in ("none", known["scaling"]):
        what = f"its {family} has no rotary positions scaled as {kind}, and would run others"
        raise InvalidSpec(f"a launch of {table.framework} ({table.release})", [Fault("model", what)])
    said = {name: model.config_values.get(key) for name, key in ROTARY.items()}
    own = {name: value for name, value in said.items() if value is not None} | {"scaling": scaling}
    return {name: own[name] for name, value in known.items() if own.get(name, value) != value}


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
