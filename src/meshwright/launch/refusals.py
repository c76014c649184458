"""Refusals: what a framework cannot run of a plan and its question, in the words of the field."""

from __future__ import annotations

from collections.abc import Sequence

from meshwright.errors import Fault
from meshwright.launch.forms import Fields
from meshwright.launch.table import LaunchTable
from meshwright.specs.constraints import Constraints
from meshwright.specs.inputs import Inputs

LONGEST = 60
"""Letters of a value that a refusal shows."""
BLOCK = ("model.gated", "model.activation")
"""Fields that a refusal says together."""
CAPACITY = "job.expert_capacity"
ACTIVATIONS = {"silu": "SiLU", "gelu": "GELU", "gelu_new": "tanh GELU", "relu": "ReLU", "relu2": "squared ReLU"}
WORDS = {
    "plan.tp": "tensor-parallel degree {}",
    "plan.sp": "sequence parallelism",
    "plan.cp": "context-parallel degree {}",
    "plan.context_exchange": "context-parallel exchange {}",
    "plan.pp": "{} pipeline stages",
    "plan.vpp": "{} chunks of a pipeline stage",
    "plan.dp": "{} data-parallel replicas",
    "plan.ep": "expert-parallel degree {}",
    "plan.etp": "expert tensor-parallel degree {}",
    "plan.zero": "ZeRO stage {}",
    "plan.dp_replicate": "{} replicas of the sharded group",
    "plan.dp_shard": "sharding over {} data-parallel ranks",
    "plan.micro_batch": "micro-batches of {} sequences",
    "plan.num_microbatches": "{} micro-batches",
    "plan.embedding_as_layer": "the embedding counted as a layer",
    "plan.head_as_layer": "the output layer counted as a layer",
    "plan.first_stage_layers": "{} layers on the first pipeline stage",
    "plan.last_stage_layers": "{} layers on the last pipeline stage",
    "plan.chunk_layers": "chunks of {} layers",
    "plan.microbatch_group": "groups of {} micro-batches",
    "plan.recompute": "recomputation {}",
    "plan.recompute_modules": "recomputation of {}",
    "plan.recompute_layers": "recomputation of {} layers of each chunk",
    "plan.schedule": "pipeline schedule {}",
    "job.sequence_length": "sequences of {} tokens",
    "job.global_batch": "a global batch of {} sequences",
    "job.precision": "precision {}",
    "job.gradients": "gradients in {}",
    "job.mtp_layers": "{} layers of multi-token prediction",
    "job.lora_rank": "adapters of rank {}",
    "job.lora_modules": "adapters of the modules {}",
    "runtime.attention_kernel": "attention kernel {}",
    "runtime.dispatcher": "token dispatcher {}",
    "runtime.optimizer": "optimizer {}",
    "runtime.accumulates_whole": "gradients that are added up whole until the last micro-batch",
    "runtime.canonical_lora": "adapters of their own for parts of a fused product",
    "runtime.wide_adapters": "adapters in fp32",
    "runtime.packs_weights": "frozen weights in 4 bits",
    "runtime.offloaded_layers": "activations of {} layers in the host's memory",
    "runtime.offloaded_modules": "what {} save in the host's memory",
    "runtime.least_offloaded_elements": "tensors of fewer than {} elements that stay on the device",
    "runtime.liger": "kernels of Liger",
    "runtime.training_dtype": "weights in {} alone",
    "model.tied_embeddings": "tied embeddings",
    "model.head_bias": "a bias of the output layer",
    "model.head_softcap": "capped logits",
    "model.norm": "norm {}",
    "model.norms": "{} norms a layer",
    "model.learned_positions": "{} learned positions",
    "model.parallel_residual": "attention and feed-forward block side by side",
    "model.head_dim": "heads of {} elements",
    "model.value_head_dim": "values of {} elements a head",
    "model.kv_heads": "{} key and value heads",
    "model.qkv_bias": "biases of queries, keys and values",
    "model.output_bias": "a bias of the attention output",
    "model.qk_norm": "norms of queries and keys ({})",
    "model.sinks": "attention sinks",
    "model.softcap": "capped attention scores",
    "model.scaled_rotary": "scaled rotary positions",
    "model.window": "an attention window of {} tokens",
    "model.windowed_layers": "attention windows on the layers {}",
    "model.latent": "latent attention",
    "model.query_rank": "query rank {} of latent attention",
    "model.plain_head_dim": "heads of {} elements without positions",
    "model.rope_head_dim": "heads of {} elements with rotary positions",
    "model.kv_rank": "key and value rank {} of latent attention",
    "model.ffn_size": "feed-forward size {}",
    "model.bias": "biases of feed-forward blocks",
    "model.experts": "{} experts",
    "model.active_experts": "{} active experts",
    "model.expert_groups": "{} groups of experts",
    "model.active_groups": "{} active groups of experts",
    "model.expert_ffn_size": "expert feed-forward size {}",
    "model.expert_layers": "experts on the layers {}",
    "model.expert_bias": "biases of experts",
    "model.router_bias": "a bias of the router",
    "model.shared_ffn_size": "shared-expert feed-forward size {}",
    "model.shared_gate": "a gate of the shared expert",
    "model.clamped": "clamped activations of experts",
    "model.mtp_layers": "{} layers of multi-token prediction",
}
"""What fields are called; `{}`: the value, of those that are not on or off."""
OPTIONS = {
    "job.precision": "--precision {}",
    "job.gradients": "--gradients {}",
    "job.mtp_layers": "--mtp-layers {}",
    "job.lora_rank": "--lora-rank {}",
    "runtime.dispatcher": "--dispatcher {}",
    "runtime.attention_kernel": "--with attention_kernel={}",
    "runtime.training_dtype": "--with training_dtype={}",
    "runtime.optimizer": "--with optimizer_states=fp32",
    "runtime.accumulates_whole": "--with accumulates_whole=false",
    "runtime.canonical_lora": "--with canonical_lora=off",
    "runtime.wide_adapters": "--with wide_adapters=false",
    "runtime.packs_weights": "--with frozen_weights=half",
    "runtime.offloaded_layers": "--with offloaded_layers={}",
    "runtime.offloaded_modules": "--with offloaded_modules=[]",
    "runtime.least_offloaded_elements": "--with least_offloaded_elements={}",
    "runtime.liger": "--with liger=off",
}
"""Options of the command that set fields of the job and the runtime; those of a plan are its `Constraints`."""
CUT = ("plan.chunk_layers", "plan.first_stage_layers", "plan.last_stage_layers")
"""Fields that unequal chunks need."""
IMBALANCE = 1.1
"""Tokens of the busiest rank over the mean, for an option: where one rank holds all experts, any ratio is the same."""


def refusal(name: str, ran: object, wanted: object, table: LaunchTable | None = None) -> Fault:
    """The fault of one field. ran, wanted: its values by the framework and in the plan; table: of the framework, for
    the values that it has.

    >>> str(refusal("model.norms", 2, 4))
    'model: it has no setting for 4 norms a layer, and would run 2'
    >>> str(refusal("model.sinks", False, True))
    'model: it has no setting for attention sinks, and would run without'
    """
    part, _, rest = name.partition(".")
    words = WORDS.get(name, rest.replace("_", " ") + " {}")
    if "{}" not in words:
        without = f"it has no setting for {words}, and would run without"
        return Fault(part, without if wanted else f"it has no setting to run without {words}")
    if name == CAPACITY:
        return Fault(part, _capacity(ran, wanted))
    others = _others(name, ran, table) if table else ""
    return Fault(part, f"it has no setting for {words.format(_shown(wanted))}, and would run {_shown(ran)}{others}")


def refusals(names: list[str], ran: Fields, wanted: Fields, table: LaunchTable) -> list[Fault]:
    """The faults of fields that differ, what belongs together in one."""
    faults = [
        _block(ran, wanted) if name in BLOCK else refusal(name, ran.get(name), wanted.get(name), table)
        for name in names
    ]
    return list(dict.fromkeys(faults))


def way_on(names: Sequence[str], ran: Fields, inputs: Inputs, table: LaunchTable) -> str:
    """The options with which a question that was refused leads to launch files, in one line; empty where none does.

    names: of the refused fields; ran: what the framework would run.
    """
    of_plan = [name for name in names if name.startswith("plan.")]
    others = options_of(names, ran, inputs)
    if not names or len(others) + len(of_plan) < len(names):
        return ""
    limits = limits_of({name: ran.get(name) for name in of_plan}, inputs, table) if of_plan else []
    if "" in limits:
        return f"Add {' '.join([*others, '--nearest'])}."
    return f"Plan with {' '.join([*others, *limits])}{'' if others else ', or add --nearest'}."


def options_of(names: Sequence[str], ran: Fields, inputs: Inputs) -> list[str]:
    """The options that set fields of the job and the runtime to what a framework would run, of those that have one.

    names: of the fields; ran: their values.
    """
    return [option for name in names if (option := _option(name, ran.get(name), inputs))]


def limits_of(values: Fields, inputs: Inputs, table: LaunchTable) -> list[str]:
    """The options that limit a search to plans that a framework has settings for; an empty one for a field without.

    values: of the plan's fields that it has at these values alone; beside them go those that it has at one value and
    the runtime at several, so that no other plan of theirs is refused next.
    """
    return list(dict.fromkeys(_limit(name, value) for name, value in (values | _fixed(inputs, table)).items()))


def spelled_alone(inputs: Inputs, table: LaunchTable) -> Inputs:
    """A question with the limits of `limits_of` for no values, beside its own constraints."""
    limits = dict(_constraint(name, value) for name, value in _fixed(inputs, table).items())
    return inputs.replace(constraints=Constraints(**limits | inputs.constraints.given))


def _fixed(inputs: Inputs, table: LaunchTable) -> dict[str, object]:
    """Fields of a plan that a framework has at one value and a search would try at several."""
    return {name: value for name, value in table.fixed.items() if _is_open(name, inputs)}


def _option(name: str, value: object, inputs: Inputs) -> str:
    """The option that sets a field of the job or the runtime; empty where there is none."""
    if name == CAPACITY:
        instead = " in place of --expert-capacity" if inputs.job.expert_capacity is not None else ""
        return f"--expert-imbalance {IMBALANCE}{instead}" if value is None else f"--expert-capacity {value}"
    return OPTIONS.get(name, "").format(value) if value is not None else ""


def _limit(name: str, value: object) -> str:
    """The option that limits a search to one value of a plan's field; empty where there is none."""
    axis, value = _constraint(name, value)
    if axis not in Constraints.model_fields or value is None:
        return ""
    return Constraints(**{axis: value}).option(axis)


def _constraint(name: str, value: object) -> tuple[str, object]:
    """The axis that a plan's field is constrained by, and its value."""
    return ("even_chunks", True) if name in CUT else (name.removeprefix("plan."), value)


def _is_open(name: str, inputs: Inputs) -> bool:
    """Whether the search of a question may choose among values of a plan's field that a framework has at one alone."""
    plans, model = inputs.runtime.plans, inputs.model
    able = {
        "plan.tp": plans.tensor_parallel,
        "plan.sp": plans.sequence_parallel,
        "plan.cp": bool(plans.context_exchanges),
        "plan.context_exchange": len(plans.context_exchanges) > 1,
        "plan.pp": plans.pipeline_parallel and (plans.searches_pipelines or inputs.constraints.pp is not None),
        "plan.ep": model.is_moe and plans.expert_parallel,
        "plan.etp": model.is_moe and plans.expert_tensor_parallel != "none",
    }
    return able.get(name, False)


def _block(ran: Fields, wanted: Fields) -> Fault:
    mine, theirs = (_activation(each) for each in (wanted, ran))
    return Fault("model", f"it has no setting for feed-forward blocks with {mine}, and would run {theirs}")


def _activation(fields: Fields) -> str:
    kind = str(fields.get("model.activation"))
    called = ACTIVATIONS.get(kind, kind)
    return f"gated {called}" if fields.get("model.gated") else f"{called} without a gate"


def _capacity(ran: object, wanted: object) -> str:
    if wanted is None:
        return (
            f"it has no setting for experts that take all their tokens, and would drop those above a capacity of {ran}"
        )
    takes = "take all their tokens" if ran is None else f"have a capacity of {ran}"
    return f"it has no setting for an expert capacity of {wanted}, and its experts would {takes}"


def _others(name: str, ran: object, table: LaunchTable) -> str:
    """The values that a framework has for a field beside what it would run, where it names them."""
    cases = [case.fields.get(name) for choice in table.choices for case in choice.cases]
    spelled = dict.fromkeys([*(table.rows[name].values if name in table.rows else ()), *cases])
    known = [str(each) for each in spelled if isinstance(each, str) and each not in ("true", "false", ran)]
    return f" (it also has {', '.join(known)})" if known else ""


def _shown(value: object) -> str:
    """A value, without the rest of a list of many layers."""
    if value is None or value in ((), []):
        return "none"
    text = ", ".join(str(each) for each in value) if isinstance(value, list | tuple) else str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST].rpartition(',')[0]}, ..."
