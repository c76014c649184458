"""Rules of expert parallelism."""

from __future__ import annotations

import math

from meshwright.layout.legality.rule import (
    Ruling,
    change,
    dividing,
    divisors,
    invariant,
    lacking,
    limit,
    nearest,
    one,
    restriction,
)
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Layout
from meshwright.specs.cluster import Cluster
from meshwright.specs.model import Model
from meshwright.specs.runtime import Runtime


@invariant
def expert_parallel(plan: Layout, runtime: Runtime) -> Ruling:
    """ep is 1 unless the runtime has expert parallelism."""
    yield from lacking(plan, "ep", runtime.plans.expert_parallel, f"{runtime.id} has no expert parallelism that works")


@invariant
def expert_tensor_parallel(plan: Layout, runtime: Runtime) -> Ruling:
    """etp is 1, or tp, or any degree, as the runtime splits experts."""
    if runtime.plans.expert_tensor_parallel != "whole":
        free = runtime.plans.expert_tensor_parallel == "free"
        yield from lacking(plan, "etp", free, f"{runtime.id} has no tensor-parallel degree of its own for experts")
        return
    yield (plan.etp == 1) | (plan.etp == plan.tp)
    yield (
        f"etp {plan.etp}: {runtime.id} splits experts by 1 or by tp {plan.tp}; "
        f"nearest etp: {nearest(one(plan).etp, sorted({1, one(plan).tp}))}"
    )


@invariant
def experts_present(plan: Layout, model: Model) -> Ruling:
    """ep and etp are 1 unless the model has experts."""
    yield ((plan.ep == 1) & (plan.etp == 1)) | model.is_moe
    asked = [(name, degree) for name, degree in (("ep", one(plan).ep), ("etp", one(plan).etp)) if degree > 1]
    degrees = " and ".join(f"{name} {degree}" for name, degree in asked)
    yield f"{degrees}, but {model.name} has no experts; " + "; ".join(f"nearest {name}: 1" for name, _ in asked)


@invariant
def experts_per_rank(plan: Layout, model: Model) -> Ruling:
    """ep divides the experts."""
    experts = math.gcd(*(block.count for block in model.mixtures))
    yield from dividing(plan, "ep", experts, f"{experts} experts are")


@invariant
def expert_world_size(plan: Layout, model: Model, cluster: Cluster) -> Ruling:
    """etp x ep x pp divides the accelerators."""
    world, product = cluster.num_gpus, plan.etp * plan.ep * plan.pp
    yield (world % product == 0) | (not model.is_moe)
    yield (
        f"{world} accelerators are not divisible by etp {plan.etp} x ep {plan.ep} x pp {plan.pp} = {product}; "
        f"{_world_size_hint(one(plan), world)}"
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


@invariant
def expert_ffn_size(plan: Layout, model: Model) -> Ruling:
    """etp divides the FFN size of every expert."""
    sizes = sorted({block.ffn_size for block in model.mixtures})
    yield math.gcd(*sizes) % plan.etp == 0
    yield (
        f"FFN size {next(size for size in sizes if size % plan.etp)} of an expert is not divisible by etp {plan.etp}; "
        f"{change('etp', plan.etp, divisors(math.gcd(*sizes)))}"
    )


@limit
def expert_sequence_parallel(plan: Layout, model: Model, runtime: Runtime) -> Ruling:
    """Where the runtime asks for it, experts with tp 2 or more need sp."""
    free = not (model.is_moe and runtime.plans.experts_need_sequence_parallel)
    yield (plan.tp == 1) | (plan.sp != 0) | free
    yield f"tp {plan.tp} with the experts of {model.name} needs sp; turn sp on, or nearest tp: 1"


@restriction
def expert_shard_group(plan: Layout) -> Ruling:
    """ep divides cp x tp x the data-parallel ranks of one sharding group."""
    shards = plan.dp // plan.dp_replicate
    ranks = shards * plan.cp * plan.tp
    yield ranks % plan.ep == 0
    yield (
        f"ep {plan.ep} does not divide the dp {shards} of one sharding group x cp {plan.cp} x tp {plan.tp} = {ranks} "
        f"ranks that it borrows from; {change('ep', plan.ep, divisors(int(shards), one(plan).cp, one(plan).tp))}"
    )


@restriction
def expert_rank_order(plan: Layout, model: Model, cluster: Cluster, runtime: Runtime) -> Ruling:
    """With pp before dp in the order of ranks, experts have dp replicas."""
    world, order = cluster.num_gpus, runtime.plans.rank_order
    inner = plan.etp * plan.ep * plan.pp
    ordered = order[-1] == "pp" or not model.is_moe
    yield (plan.pp == 1) | ordered | (inner * plan.dp == world)
    yield (
        f"ranks in the order {'-'.join(order)} need as many replicas of the experts, {world / inner:g}, as of the "
        f"rest, dp {plan.dp}; nearest pp: 1"
    )


@restriction
def expert_biases_whole(plan: Layout, model: Model, runtime: Runtime) -> Ruling:
    """Experts with biases are not split by etp."""
    yield (plan.etp == 1) | (not any(block.bias for block in model.mixtures))
    yield (
        f"the experts of {model.name} have biases, which {runtime.id} does not split by etp {plan.etp}; nearest etp: 1"
    )


@restriction
def fused_experts_whole(plan: Layout, model: Model, runtime: Runtime) -> Ruling:
    """Experts whose products are one fused kernel are not split by etp."""
    yield (plan.etp == 1) | (not model.is_moe) | (runtime.kernels.expert_products != "fused")
    yield f"the fused kernel of {runtime.id} does not split experts by etp {plan.etp}; nearest etp: 1"


@restriction
def expert_replicas(plan: Layout, model: Model, cluster: Cluster) -> Ruling:
    """dp_replicate divides the replicas of the experts."""
    copies = cluster.num_gpus // (plan.etp * plan.ep * plan.pp)
    yield (copies % plan.dp_replicate == 0) | (not model.is_moe)
    yield (
        f"the experts have {copies} replicas, which are not divisible by dp_replicate {plan.dp_replicate}; "
        f"{change('dp_replicate', plan.dp_replicate, divisors(int(copies)))}"
    )
