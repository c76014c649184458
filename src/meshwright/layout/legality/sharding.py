"""Rules of ZeRO and of replicas of the sharding group."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import Bools
from meshwright.layout.legality.rule import Rule, change, changes, divisors
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs


def _stage(plan: Layout, inputs: Inputs) -> Bools:  # noqa: ARG001
    return np.greater_equal(plan.zero, 0) & np.less_equal(plan.zero, 3)


def _stage_reason(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    return f"zero {plan.zero} is no ZeRO stage; {change('zero', plan.zero, range(4))}"


def _up_to_one(plan: Layout, inputs: Inputs) -> Bools:  # noqa: ARG001
    return np.less_equal(plan.zero, 1)


def _up_to_one_reason(plan: Plan, inputs: Inputs) -> str:
    return f"zero {plan.zero}: {inputs.runtime.id} shards optimizer states alone; nearest zero: 1"


def _not_one(plan: Layout, inputs: Inputs) -> Bools:  # noqa: ARG001
    return np.not_equal(plan.zero, 1)


def _not_one_reason(plan: Plan, inputs: Inputs) -> str:
    return f"zero {plan.zero}: {inputs.runtime.id} does not shard optimizer states alone; nearest zero: 0 or 2"


def _without_pipeline(plan: Layout, inputs: Inputs) -> Bools:  # noqa: ARG001
    return np.less_equal(plan.zero, 1) | np.equal(plan.pp, 1)


def _without_pipeline_reason(plan: Plan, inputs: Inputs) -> str:
    return f"zero {plan.zero} does not go with pp {plan.pp} in {inputs.runtime.id}; nearest zero: 1; nearest pp: 1"


def _without_experts(plan: Layout, inputs: Inputs) -> Bools:  # noqa: ARG001
    return np.less_equal(plan.zero, 1) | np.equal(plan.ep, 1)


def _without_experts_reason(plan: Plan, inputs: Inputs) -> str:
    return f"zero {plan.zero} does not go with ep {plan.ep} in {inputs.runtime.id}; nearest zero: 1; nearest ep: 1"


def _untied(plan: Layout, inputs: Inputs) -> Bools:
    return np.less_equal(plan.zero, 1) | (not inputs.model.tied_embeddings)


def _untied_reason(plan: Plan, inputs: Inputs) -> str:
    return f"zero {plan.zero} needs an untied head, but {inputs.model.name} ties it; nearest zero: 1"


def _without_fp16(plan: Layout, inputs: Inputs) -> Bools:
    return np.less_equal(plan.zero, 1) | (inputs.job.precision != "fp16")


def _without_fp16_reason(plan: Plan, inputs: Inputs) -> str:
    other = ", or precision bf16" if "bf16" in inputs.cluster.accelerator.peak_flops else ""
    return f"zero {plan.zero} does not train in {inputs.job.precision}; nearest zero: 1{other}"


def _replicas(plan: Layout, inputs: Inputs) -> Bools:  # noqa: ARG001
    return plan.dp % plan.dp_replicate == 0


def _replicas_reason(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    replicas = plan.dp_replicate
    near = change("dp_replicate", replicas, divisors(plan.dp))
    return f"dp {plan.dp} does not divide into dp_replicate {replicas} sharding groups; {near}"


def _replicas_with_context(plan: Layout, inputs: Inputs) -> Bools:  # noqa: ARG001
    return plan.dp * plan.cp % plan.dp_replicate == 0


def _replicas_with_context_reason(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    replicas = plan.dp_replicate
    near = change("dp_replicate", replicas, divisors(plan.dp * plan.cp))
    return f"dp {plan.dp} x cp {plan.cp} does not divide into dp_replicate {replicas} sharding groups; {near}"


def _replicas_shard(plan: Layout, inputs: Inputs) -> Bools:  # noqa: ARG001
    return np.equal(plan.dp_replicate, 1) | np.greater_equal(plan.zero, 1)


def _replicas_shard_reason(plan: Plan, inputs: Inputs) -> str:
    stages = change("zero", plan.zero, (stage for stage in inputs.runtime.plans.zero_stages if stage))
    told = f"dp_replicate {plan.dp_replicate} copies a sharding group, but zero {plan.zero} shards nothing"
    return changes(told, stages, "nearest dp_replicate: 1")


def _replicas_beside_tensor(plan: Layout, inputs: Inputs) -> Bools:  # noqa: ARG001
    plain = np.equal(plan.tp, 1) & np.equal(plan.cp, 1)
    return np.equal(plan.dp_replicate, 1) | plain | np.greater(plan.dp // plan.dp_replicate, 1)


def _replicas_beside_tensor_reason(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    fewer = [each for each in divisors(plan.dp) if each < plan.dp] or [1]
    return (
        f"tp {plan.tp} and cp {plan.cp} go with replicas only where each is sharded, but dp {plan.dp} is dp_replicate "
        f"{plan.dp_replicate} groups of {plan.dp // plan.dp_replicate}; "
        f"{change('dp_replicate', plan.dp_replicate, fewer)}"
    )


RULES = (
    Rule("zero_stage", _stage, _stage_reason),
    Rule("zero_up_to_one", _up_to_one, _up_to_one_reason),
    Rule("zero_not_one", _not_one, _not_one_reason),
    Rule("zero_without_pipeline", _without_pipeline, _without_pipeline_reason),
    Rule("zero_without_experts", _without_experts, _without_experts_reason),
    Rule("zero_untied", _untied, _untied_reason),
    Rule("zero_without_fp16", _without_fp16, _without_fp16_reason),
    Rule("replicas", _replicas, _replicas_reason),
    Rule("replicas_with_context", _replicas_with_context, _replicas_with_context_reason),
    Rule("replicas_shard", _replicas_shard, _replicas_shard_reason),
    Rule("replicas_beside_tensor", _replicas_beside_tensor, _replicas_beside_tensor_reason),
)
