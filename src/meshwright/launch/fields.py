"""Fields: a plan and its question as flat fields that launch files can spell, and back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from meshwright.cost.shard import vocabulary_shard
from meshwright.errors import Fault, InvalidSpec
from meshwright.launch.architecture import model_fields, model_of
from meshwright.launch.facts import LIGER_IN_PLACE, dispatcher_of, shares_states
from meshwright.launch.forms import Fields
from meshwright.layout.plan import USUAL, Plan
from meshwright.layout.splits import layers_of_chunks
from meshwright.schedules.records import SCHEDULE_NAMES, usual_schedule
from meshwright.specs.adapters import named_modules
from meshwright.specs.behaviours import LIGER, as_catalogued, beside_adapters, position_of, with_behaviours
from meshwright.specs.cluster import Cluster
from meshwright.specs.defaults import DEFAULT_PRECISION
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import Job
from meshwright.specs.job_options import ALL_LINEAR
from meshwright.specs.model import Model
from meshwright.specs.offload_modules import in_order
from meshwright.specs.precision import FP32_BYTES, HALF_BYTES
from meshwright.specs.routing import expert_spread
from meshwright.specs.runtime import Runtime
from meshwright.specs.switches import narrow_activation_inputs

OFFLOADED = ("offloaded_layers", "offloaded_modules", "least_offloaded_elements")
"""Behaviours that say which activations wait in the host's memory."""
NO_SPLIT: dict[str, Any] = {
    "embedding_as_layer": False,
    "head_as_layer": False,
    "first_stage_layers": 0,
    "last_stage_layers": 0,
    "chunk_layers": (),
}
"""Fields of a plan that cut no layers."""


def fields_of(plan: Plan, inputs: Inputs) -> Fields:
    """The plan, the job and the model as flat fields; what a plan leaves to the runtime is spelled out.

    Raises `NotModelled` for a model whose layers differ by more than windows and experts.
    """
    model = model_fields(inputs.model.over(inputs.job.sequence_length))
    return fields_beside_the_model(plan, inputs) | model | {"model.mtp_layers": inputs.mtp_layers}


def fields_beside_the_model(plan: Plan, inputs: Inputs) -> Fields:
    """Those of them that are of the plan, the job, the cluster and the runtime."""
    normal, job = normal_plan(plan, inputs), inputs.job
    fields: Fields = {f"plan.{name}": value for name, value in normal.to_dict().items()}
    fields |= {f"plan.{name}": getattr(plan, name) for name in NO_SPLIT if name != "chunk_layers"}
    fields |= {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
    experts = dispatcher_of(plan, inputs) if inputs.model.is_moe else None
    return fields | {
        "plan.dp_shard": plan.dp // plan.dp_replicate,
        "plan.pipeline_micro_batch": plan.micro_batch,
        "plan.local_batch": plan.micro_batch * (plan.num_microbatches if plan.pp > 1 else 1),
        "cluster.gpus": plan.num_gpus,
        "cluster.gpus_per_node": inputs.cluster.gpus_per_node,
        "job.sequence_length": job.sequence_length,
        "job.global_batch": job.global_batch,
        "job.precision": job.precision,
        "job.gradients": "fp32" if inputs.gradient_bytes == 4 else "half",
        "job.mtp_layers": inputs.mtp_layers,
        "job.expert_capacity": inputs.expert_capacity,
        "job.lora_rank": job.lora_rank,
        "job.lora_modules": named_modules(job.lora_modules) if job.lora_rank else (),
        "runtime.dispatcher": experts,
        "runtime.attention_kernel": inputs.attention_kernel,
        "runtime.training_dtype": _training_dtype(inputs.runtime),
        "runtime.vocabulary_multiple": int(vocabulary_shard(plan, inputs)),
        "runtime.optimizer": "AdamW8bit" if inputs.runtime.storage.moment_block else "AdamW",
        "runtime.canonical_lora": bool(job.lora_rank) and inputs.runtime.kernels.fused_adapters == "all",
        "runtime.narrow_activation_inputs": narrow_activation_inputs(inputs),
        "runtime.wide_adapters": inputs.runtime.storage.wide_adapters,
        "runtime.packs_weights": inputs.packs_weights,
        "runtime.accumulates_whole": inputs.runtime.sharding.accumulates_whole,
        "runtime.offloaded_layers": inputs.runtime.activations.offloaded_layers,
        "runtime.offloaded_modules": inputs.runtime.activations.offloaded_modules,
        "runtime.least_offloaded_elements": _least_offloaded(inputs.runtime),
        "runtime.liger": {"on": True, LIGER_IN_PLACE: LIGER_IN_PLACE}.get(position_of(inputs.runtime, LIGER), False),
    }


def _training_dtype(runtime: Runtime) -> str | None:
    """The format of weights, their gradients and moments where there is one; None for half weights."""
    storage = runtime.storage
    return None if storage.weights == "half" else "fp32" if storage.weight_bytes == FP32_BYTES else "bf16"


def trained_as(runtime: Runtime, other: Runtime) -> Runtime:
    """Another runtime that trains in the format of a runtime, where it has a switch for it; else that one as it is."""
    return _trained_in(_training_dtype(runtime), other)


def _trained_in(dtype: str | None, runtime: Runtime) -> Runtime:
    """The runtime that trains in a format, where it has a switch for it; else as it is."""
    changed = dtype in runtime.switches.get("training_dtype", {}) and dtype != _training_dtype(runtime)
    return with_behaviours(runtime, [f"training_dtype={dtype}"]) if changed else runtime


def _attending_with(kernel: str | None, model: Model, runtime: Runtime) -> Runtime:
    """The runtime that runs the attention of a model with a kernel; None: with its own."""
    apart = model.modifies_scores and runtime.kernels.modified_attention_kernel is not None
    name = "modified_attention_kernel" if apart else "attention_kernel"
    changed = kernel not in (None, getattr(runtime.kernels, name))
    return with_behaviours(runtime, [f"{name}={kernel}"]) if changed else runtime


def _least_offloaded(runtime: Runtime) -> int:
    """Elements of the smallest tensor of modules that goes to the host; the usual number where none goes."""
    own = runtime if runtime.activations.offloaded_modules else as_catalogued(runtime, "least_offloaded_elements")
    return own.activations.least_offloaded_elements


def _offloading(fields: Fields, runtime: Runtime) -> Runtime:
    """The runtime that keeps what fields say on the host; what they do not say, as it does by itself."""
    said = {name: fields.get(f"runtime.{name}") for name in OFFLOADED}
    said["offloaded_modules"] = in_order(said["offloaded_modules"])
    changed = {name: value for name, value in said.items() if value not in (None, getattr(runtime.activations, name))}
    words = {name: "+".join(value) or "[]" if isinstance(value, tuple) else value for name, value in changed.items()}
    return with_behaviours(runtime, [f"{name}={value}" for name, value in words.items()])


def _padding(fields: Fields, model: Model, runtime: Runtime) -> Runtime:
    """The runtime that pads the vocabulary as a file says, where that makes other rows of it than its own padding."""
    usual, tp = runtime.storage.vocabulary_multiple, fields.get("plan.tp") or 1
    multiple = fields.get("runtime.vocabulary_multiple") or usual
    rows = {-(-model.vocab_size // (each * tp)) * each for each in (usual, multiple)}
    return runtime if len(rows) == 1 else with_behaviours(runtime, [f"vocabulary_multiple={multiple}"])


def normal_plan(plan: Plan, inputs: Inputs) -> Plan:
    """The plan with the layers of all its chunks spelled out, and without what means nothing in it: two plans that
    place the same work alike are equal in this form.
    """
    defaults = Plan()
    split = pipeline_fields(plan, inputs) if plan.pp > 1 else {"microbatch_group": 0, **NO_SPLIT}
    loose: dict[str, Any] = {}
    if plan.tp == 1:
        loose["sp"] = False
    if not shares_states(plan, inputs) and 0 in inputs.runtime.plans.zero_stages:
        loose["zero"] = 0
    if plan.cp == 1:
        loose["context_exchange"] = defaults.context_exchange
    if plan.recompute.name != "SELECTIVE" or not inputs.runtime.plans.recompute_modules:
        loose["recompute_modules"] = defaults.recompute_modules
    return replace(plan, **split, **loose)


def normal_fields(plan: Plan, inputs: Inputs) -> Fields:
    """The fields of the plan in that form and of its question."""
    return fields_of(normal_plan(plan, inputs), inputs)


def pipeline_fields(plan: Plan, inputs: Inputs) -> dict[str, Any]:
    """The layers of every chunk by number, in place of what cut them."""
    sizes = tuple(int(size) for size in layers_of_chunks(inputs, plan))
    return {**NO_SPLIT, "chunk_layers": sizes}


def question_of(
    fields: Fields, cluster: Cluster, runtime: Runtime, *, model: Model | None = None, name: str = "model"
) -> tuple[Plan, Inputs]:
    """The plan and its question that fields say, on a cluster.

    runtime: how it is priced; model: where the file names none, as DeepSpeed's do not; name: what a model that the
    file spells is called. Raises `InvalidSpec` with what is missing or does not go together.
    """
    built = model or model_of(fields | {"model.mtp_layers": fields.get("job.mtp_layers") or 0}, name)
    dispatcher = fields.get("runtime.dispatcher")
    if dispatcher and built.is_moe and dispatcher != runtime.communication.dispatcher:
        runtime = with_behaviours(runtime, [f"dispatcher={dispatcher}"])
    runtime = _padding(fields, built, _attending_with(fields.get("runtime.attention_kernel"), built, runtime))
    runtime = _offloading(fields, runtime)
    stored = fields.get("runtime.training_dtype")
    runtime = _trained_in(stored, runtime)
    if stored and stored != _training_dtype(runtime):
        size = FP32_BYTES if stored == "fp32" else HALF_BYTES
        runtime = with_behaviours(runtime, [f"weight_bytes={size}", f"moment_bytes={size}"])
    said = _degrees(fields, built, cluster)
    job = _job(fields | said, built, runtime)
    inputs = Inputs(model=built, cluster=cluster, job=job, runtime=beside_adapters(runtime, job))
    return _plan(said, inputs), inputs


def _degrees(fields: Fields, model: Model, cluster: Cluster) -> Fields:
    """Every field of the plan that the file says, and those that follow from others."""
    said = {f"plan.{name}": value for name, value in Plan().to_dict().items()}
    said |= {name: fields[name] for name in said if fields.get(name) is not None}
    if not model.is_moe:
        said |= {"plan.ep": 1, "plan.etp": 1}
    if fields.get("plan.micro_batch") is None:
        pipelined = fields.get("plan.pipeline_micro_batch") or 1
        said["plan.micro_batch"] = pipelined if said["plan.pp"] > 1 else fields.get("plan.local_batch") or 1
    replicas, shard = said["plan.dp_replicate"], fields.get("plan.dp_shard") or 0
    ranks = fields.get("cluster.gpus") or cluster.num_gpus
    rest = ranks // max(said["plan.tp"] * said["plan.cp"] * said["plan.pp"], 1)
    if fields.get("plan.dp") is None:
        said["plan.dp"] = max(replicas * shard if shard > 0 else rest, 1)
    batch = fields.get("job.global_batch") or 0
    if batch <= 0:
        own = said["plan.micro_batch"] * (fields.get("plan.num_microbatches") or 1)
        batch = (fields.get("plan.local_batch") or own) * said["plan.dp"]
    if fields.get("plan.num_microbatches") is None:
        said["plan.num_microbatches"] = max(batch // max(said["plan.micro_batch"] * said["plan.dp"], 1), 1)
    return said | {"job.global_batch": batch, "plan.vpp": _chunks(said, fields, model)}


def _chunks(said: Fields, fields: Fields, model: Model) -> int:
    """Chunks of a rank: of the layers that are spelled out, of the layers of one, or as many as the schedule has."""
    stages, per_chunk = max(int(said["plan.pp"]), 1), fields.get("plan.layers_per_chunk")
    if said["plan.chunk_layers"]:
        return max(len(said["plan.chunk_layers"]) // stages, 1)
    if per_chunk:
        counted = model.num_layers + int(said["plan.embedding_as_layer"]) + int(said["plan.head_as_layer"])
        return max(-(-counted // int(per_chunk)) // stages, 1)
    several = Plan(schedule=said["plan.schedule"]).schedule.record.chunks in {2, "several"}
    return max(int(said["plan.vpp"]), 2 if several else 1)


def _job(fields: Fields, model: Model, runtime: Runtime) -> Job:
    if fields.get("job.sequence_length") is None:
        raise InvalidSpec("the job", [Fault("sequence_length", "is not in the file")])
    precision, gradients = fields.get("job.precision") or DEFAULT_PRECISION, fields.get("job.gradients")
    storage = runtime.storage
    usual = storage.fp16_gradient_bytes if precision == "fp16" else storage.gradient_bytes
    trained, capacity = fields.get("job.mtp_layers"), fields.get("job.expert_capacity")
    takes_all = capacity == "none" and model.is_moe and bool(runtime.communication.expert_capacity)
    usually_trained = model.mtp_layers if runtime.plans.multi_token_prediction else 0
    return Job(
        sequence_length=fields["job.sequence_length"],
        global_batch=fields["job.global_batch"],
        precision=precision,
        gradients=None if gradients == {4: "fp32", 2: "half"}[usual] else gradients,
        expert_capacity=None if capacity == "none" else capacity,
        expert_spread=expert_spread().usual if takes_all else None,
        mtp_layers=None if trained == usually_trained else trained,
        lora_rank=fields.get("job.lora_rank") or 0,
        lora_modules=fields.get("job.lora_modules") or (ALL_LINEAR,),
    )


def _plan(said: Fields, inputs: Inputs) -> Plan:
    named = {name: said[f"plan.{name}"] for name in Plan().to_dict()}
    if named["schedule"] in {SCHEDULE_NAMES[each] for each in USUAL}:
        named["schedule"] = SCHEDULE_NAMES[usual_schedule(named["vpp"])]
    chunks = tuple(named.pop("chunk_layers"))
    plan = Plan(**named)
    if not chunks or plan.pp == 1:
        return plan
    whole = replace(plan, **{**NO_SPLIT, "chunk_layers": chunks})
    return plan if normal_plan(plan, inputs) == normal_plan(whole, inputs) else whole


def differences(plan: Plan, inputs: Inputs, other: Plan, others: Inputs) -> list[str]:
    """Fields in which two plans and their questions differ, as `plan.zero: 3, not 1`."""
    mine, theirs = normal_fields(plan, inputs), normal_fields(other, others)
    names = sorted(mine.keys() | theirs.keys())
    return [f"{name}: {theirs.get(name)}, not {mine.get(name)}" for name in names if mine.get(name) != theirs.get(name)]
