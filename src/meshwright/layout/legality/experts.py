"""Rules of expert parallelism."""

from __future__ import annotations

import math

import numpy as np

from meshwright.arrays import Bools
from meshwright.layout.legality.rule import Rule, change, divisors, nearest
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import Experts


def _present(plan: Layout, inputs: Inputs) -> Bools:
    return (np.equal(plan.ep, 1) & np.equal(plan.etp, 1)) | inputs.model.is_moe


def _present_reason(plan: Plan, inputs: Inputs) -> str:
    asked = [(name, degree) for name, degree in (("ep", plan.ep), ("etp", plan.etp)) if degree > 1]
    given = " and ".join(f"{name} {degree}" for name, degree in asked)
    return f"{given}, but {inputs.model.name} has no experts; " + "; ".join(f"nearest {name}: 1" for name, _ in asked)


def _per_rank(plan: Layout, inputs: Inputs) -> Bools:
    return np.logical_and.reduce([each % plan.ep == 0 for each in _expert_counts(inputs)])


def _per_rank_reason(plan: Plan, inputs: Inputs) -> str:
    common = math.gcd(*_expert_counts(inputs))
    return f"{common} experts do not divide by ep {plan.ep}; {change('ep', plan.ep, divisors(common))}"


def _expert_counts(inputs: Inputs) -> list[int]:
    return sorted({block.count for block in _expert_blocks(inputs)})


def _expert_blocks(inputs: Inputs) -> list[Experts]:
    blocks = (kind.feed_forward for kind in inputs.model.layer_kinds)
    return [block for block in blocks if isinstance(block, Experts)]


def _world_size(plan: Layout, inputs: Inputs) -> Bools:
    return inputs.cluster.num_gpus % (plan.etp * plan.ep * plan.pp) == 0


def _world_size_reason(plan: Plan, inputs: Inputs) -> str:
    world = inputs.cluster.num_gpus
    return (
        f"{world} accelerators do not divide by etp {plan.etp} x ep {plan.ep} x pp {plan.pp} = "
        f"{plan.etp * plan.ep * plan.pp}; {_world_size_hint(plan, world)}"
    )


def _world_size_hint(plan: Plan, world: int) -> str:
    """One degree that makes the product divide the world; where no single one does, the first that has to change."""
    product = plan.etp * plan.ep * plan.pp
    for axis in ("ep", "etp", "pp"):
        degree = getattr(plan, axis)
        choices = [each for each in divisors(world) if world % (product // degree * each) == 0]
        if choices:
            return change(axis, degree, choices)
    axis, degrees = ("pp", divisors(world)) if world % plan.pp else ("etp", divisors(world // plan.pp))
    return change(axis, getattr(plan, axis), degrees)


def _shard_group(plan: Layout, inputs: Inputs) -> Bools:  # noqa: ARG001
    return plan.dp // plan.dp_replicate * plan.cp * plan.tp % plan.ep == 0


def _shard_group_reason(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    shards = plan.dp // plan.dp_replicate
    ranks = shards * plan.cp * plan.tp
    return (
        f"ep {plan.ep} does not divide the dp {shards} of one sharding group x cp {plan.cp} x tp {plan.tp} = {ranks} "
        f"ranks that it borrows from; {change('ep', plan.ep, divisors(ranks))}"
    )


def _sequence_parallel(plan: Layout, inputs: Inputs) -> Bools:
    return np.equal(plan.tp, 1) | np.not_equal(plan.sp, 0) | (not inputs.model.is_moe)


def _sequence_parallel_reason(plan: Plan, inputs: Inputs) -> str:
    return f"tp {plan.tp} with the experts of {inputs.model.name} needs sp; turn sp on, or nearest tp: 1"


def _rank_order(plan: Layout, inputs: Inputs) -> Bools:
    experts = plan.etp * plan.ep * plan.pp * plan.dp
    ordered = inputs.runtime.plans.rank_order[-1] == "pp" or not inputs.model.is_moe
    return np.equal(plan.pp, 1) | ordered | np.equal(experts, inputs.cluster.num_gpus)


def _rank_order_reason(plan: Plan, inputs: Inputs) -> str:
    order = "-".join(inputs.runtime.plans.rank_order)
    experts = inputs.cluster.num_gpus / (plan.etp * plan.ep * plan.pp)
    return (
        f"ranks in the order {order} need as many replicas of the experts, {experts:g}, as of the rest, dp {plan.dp}; "
        "nearest pp: 1"
    )


def _tensor_whole(plan: Layout, inputs: Inputs) -> Bools:  # noqa: ARG001
    return np.equal(plan.etp, 1) | np.equal(plan.etp, plan.tp)


def _tensor_whole_reason(plan: Plan, inputs: Inputs) -> str:
    near = nearest(plan.etp, sorted({1, plan.tp}))
    return f"etp {plan.etp}: {inputs.runtime.id} splits experts by 1 or by tp {plan.tp}; nearest etp: {near}"


def _biases_whole(plan: Layout, inputs: Inputs) -> Bools:
    return np.equal(plan.etp, 1) | (not any(block.bias for block in _expert_blocks(inputs)))


def _biases_whole_reason(plan: Plan, inputs: Inputs) -> str:
    return (
        f"the experts of {inputs.model.name} have biases, which {inputs.runtime.id} does not split by etp {plan.etp}; "
        f"{change('etp', plan.etp, [1])}"
    )


def _ffn_size(plan: Layout, inputs: Inputs) -> Bools:
    return np.logical_and.reduce([size % plan.etp == 0 for size in _expert_ffn_sizes(inputs)])


def _ffn_size_reason(plan: Plan, inputs: Inputs) -> str:
    sizes = _expert_ffn_sizes(inputs)
    size = next(each for each in sizes if each % plan.etp)
    return (
        f"FFN size {size} of an expert does not divide by etp {plan.etp}; "
        f"{change('etp', plan.etp, divisors(math.gcd(*sizes)))}"
    )


def _expert_ffn_sizes(inputs: Inputs) -> list[int]:
    return sorted({block.ffn_size for block in _expert_blocks(inputs)})


def _replicas(plan: Layout, inputs: Inputs) -> Bools:
    copies = inputs.cluster.num_gpus // (plan.etp * plan.ep * plan.pp)
    return (copies % plan.dp_replicate == 0) | (not inputs.model.is_moe)


def _replicas_reason(plan: Plan, inputs: Inputs) -> str:
    copies = inputs.cluster.num_gpus // (plan.etp * plan.ep * plan.pp)
    return (
        f"the experts have {copies} replicas, which do not divide by dp_replicate {plan.dp_replicate}; "
        f"{change('dp_replicate', plan.dp_replicate, divisors(copies))}"
    )


RULES = (
    Rule("experts_present", _present, _present_reason),
    Rule("experts_per_rank", _per_rank, _per_rank_reason),
    Rule("expert_world_size", _world_size, _world_size_reason),
    Rule("expert_shard_group", _shard_group, _shard_group_reason),
    Rule("expert_sequence_parallel", _sequence_parallel, _sequence_parallel_reason),
    Rule("expert_rank_order", _rank_order, _rank_order_reason),
    Rule("expert_tensor_whole", _tensor_whole, _tensor_whole_reason),
    Rule("expert_ffn_size", _ffn_size, _ffn_size_reason),
    Rule("expert_biases_whole", _biases_whole, _biases_whole_reason),
    Rule("expert_replicas", _replicas, _replicas_reason),
)
