"""Written: the row of a plan and its inputs, the inverse of reading one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from meshwright.errors import InvalidInput
from meshwright.layout.plan import Plan
from meshwright.schedules.records import SCHEDULE_NAMES
from meshwright.specs import catalog
from meshwright.specs.behaviours import IDENTITY
from meshwright.specs.choices import RECOMPUTE_NAMES, Recompute
from meshwright.specs.cluster import Cluster
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import Job
from meshwright.specs.job_options import JOB_OPTIONS, OF_RUNS, JobOption
from meshwright.specs.model import Model
from meshwright.specs.reading.cluster import read_cluster
from meshwright.specs.reading.model import read_model
from meshwright.specs.recompute_modules import names_of
from meshwright.specs.runtime import Runtime, read_runtime
from meshwright.units import GIGA
from meshwright.validation.rows.architecture import architectures, model_of, sizes_of
from meshwright.validation.rows.reading import OTHER_FIELDS, read_case
from meshwright.validation.rows.table import COLUMNS, Row

DEGREES = ("tp", "pp", "vpp", "cp", "ep", "etp", "dp")


def row_of(plan: Plan, inputs: Inputs) -> Row:
    """A row that reads as this plan of this question; where none does, `refused` says what the table has no column for.

    Other shares of tokens than even and usual ones, which plans may be chosen, and a risk are no part of a row.
    """
    row = dict.fromkeys(COLUMNS, "") | _model(inputs.model) | _cluster(inputs.cluster) | _layout(plan)
    row |= {
        "runtime": inputs.runtime.id,
        "with": "; ".join(_behaviours(inputs)),
        "seq_len": str(inputs.job.sequence_length),
        "global_batch_size": str(inputs.job.global_batch),
        "micro_batch_size": str(plan.micro_batch),
        "precision": inputs.job.precision,
        **{each.name: _of_job(each, inputs.job) for each in OF_RUNS},
        "routing": _routing(inputs),
    }
    lost = [*_lost(row, plan, inputs)]
    return row | {"refused": f"the table has no columns for {' and '.join(lost)}"} if lost else row


def _routing(inputs: Inputs) -> str:
    if inputs.routes_as_usual:
        return "natural"
    return "even" if inputs.model.is_moe and inputs.job.expert_imbalance == 1 else ""


def _of_job(option: JobOption, job: Job) -> str:
    """An option of a job as its column has it: blank where it is not given."""
    given = getattr(job, option.only_with) if option.only_with else option.of(job) != option.default
    return str(option.of(job)) if given else ""


def _lost(row: Row, plan: Plan, inputs: Inputs) -> Iterator[str]:
    """What the row is read as otherwise."""
    try:
        case = read_case(row)
    except InvalidInput as error:
        yield f"it: {' '.join(str(error).split())}"
        return
    read = case.inputs
    if _parts(read.model) != _parts(inputs.model):
        yield f"the model {inputs.model.name}"
    if _links(read.cluster) != _links(inputs.cluster):
        yield f"the network of the cluster {inputs.cluster.name}"
    if read.runtime.replace(replaced=()) != inputs.runtime.replace(replaced=()):
        yield "what the runtime does"
    kept = [each.field for each in JOB_OPTIONS if each.of_step and each.name != "expert_imbalance"]
    if any(getattr(read.job, name) != getattr(inputs.job, name) for name in kept):
        yield "the job"
    if case.plan != plan:
        fields = [name for name, value in plan.to_dict().items() if case.plan.to_dict()[name] != value]
        yield f"{', '.join(fields)} of the plan"


def _links(cluster: Cluster) -> dict[str, Any]:
    return cluster.model_dump(exclude={"name", "assumptions", "sources"})


def _parts(model: Model) -> dict[str, Any]:
    """What a model consists of, whatever it and its layers are called."""
    fields = model.model_dump(exclude={"name", "family", "assumptions", "config_values"})
    return fields | {"layer_kinds": [{**kind, "name": ""} for kind in fields["layer_kinds"]]}


def _model(model: Model) -> Row:
    """Its name where the catalogue has it, else its sizes with a structure of which it consists."""
    parts = _parts(model)
    for name in catalog.names("models"):
        if _parts(read_model(name)) == parts:
            return {"model": name}
    sizes = sizes_of(model) | {"model": model.name, "head_dim": str(model.layer_kinds[-1].attention.head_dim)}
    row = dict.fromkeys(COLUMNS, "") | sizes | {"seq_len": str(model.learned_positions or 1)}
    for structure in architectures():
        try:
            if _parts(model_of(row | {"architecture": structure})[0]) == parts:
                return sizes | {"architecture": structure}
        except ValueError:
            continue
    return sizes


def _cluster(cluster: Cluster) -> Row:
    """Its name where that reads as it, else its counts."""
    for source in (cluster.name, f"{cluster.num_nodes}x{cluster.gpus_per_node}:{cluster.accelerator.id}"):
        try:
            if "/" not in source and _links(read_cluster(source)) == _links(cluster):
                return {"cluster": source}
        except (InvalidInput, OSError):
            continue
    return {
        "gpu": cluster.accelerator.id,
        "gpus_per_node": str(cluster.gpus_per_node),
        "num_gpus": str(cluster.num_gpus),
        "power_limit_w": _text(cluster.power_limit_w),
        "inter_node_GBps_per_gpu": repr(cluster.levels[-1].bandwidth / GIGA) if cluster.num_nodes > 1 else "",
    }


def _layout(plan: Plan) -> Row:
    usual = Plan()
    others = {name: plan.to_dict()[name] for name in OTHER_FIELDS}
    named = [
        f"{name}={json.dumps(value)}" for name, value in others.items() if getattr(plan, name) != getattr(usual, name)
    ]
    row = {name: str(getattr(plan, name)) for name in DEGREES} | {
        "sp": str(plan.sp),
        "zero_stage": str(plan.zero),
        "shard_group_size": str(plan.dp // plan.dp_replicate) if plan.dp_replicate > 1 else "",
        "ends_layers_less": "1" if plan.embedding_as_layer and plan.head_as_layer else "0",
        "schedule": SCHEDULE_NAMES[plan.schedule],
        "recompute": RECOMPUTE_NAMES[plan.recompute],
        "recompute_layers": str(plan.recompute_layers or ""),
        "plan": "; ".join(named),
    }
    if plan.recompute == Recompute.SELECTIVE:
        row["recompute_modules"] = "+".join(names_of(plan.recompute_modules))
    return row


def _behaviours(inputs: Inputs) -> Iterator[str]:
    """What the runtime does otherwise than the catalogue says, as `--with` takes it."""
    usual = read_runtime(inputs.runtime.id)
    for section, fields in _fields(inputs.runtime).items():
        for name, value in fields.items() if isinstance(fields, dict) else ():
            before = _fields(usual)[section].get(name)
            if value != before:
                yield from _changes(f"{section}.{name}", value, before)


def _fields(runtime: Runtime) -> dict[str, Any]:
    return runtime.model_dump(mode="json", exclude={*IDENTITY})


def _changes(key: str, value: Any, before: Any) -> Iterator[str]:
    if isinstance(value, Mapping) and isinstance(before, Mapping):
        for name, each in value.items():
            if each != before.get(name):
                yield from _changes(f"{key}.{name}", each, before.get(name))
    elif value is not None:
        yield f"{key}={_toml(value)}"


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name} = {_toml(each)}' for name, each in value.items() if each is not None)}}}"
    return json.dumps(value)


def _text(value: float | None) -> str:
    return "" if value is None else str(value)
