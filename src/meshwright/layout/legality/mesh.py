"""Rules of the device mesh and the batch."""

from __future__ import annotations

from meshwright.layout.legality.rule import Ruling, divisors, invariant, multiples, nearest, one
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Layout
from meshwright.specs.cluster import Cluster
from meshwright.specs.job import Job


@invariant
def world_size(plan: Layout, cluster: Cluster) -> Ruling:
    """tp x cp x pp x dp is the number of accelerators."""
    world = cluster.num_gpus
    yield plan.num_gpus == world
    product = f"tp {plan.tp} x cp {plan.cp} x pp {plan.pp} x dp {plan.dp} = {one(plan).num_gpus}"
    yield f"{product}, but the cluster has {world} accelerators; {_world_size_hint(one(plan), world)}"


def _world_size_hint(plan: Plan, world: int) -> str:
    split = plan.tp * plan.cp * plan.pp
    if world % split == 0:
        return f"dp {world // split} makes it {world}"
    return (
        _degree_hint("tp", plan.tp, world, plan.cp * plan.pp)
        or _degree_hint("pp", plan.pp, world, plan.tp * plan.cp)
        or _degree_hint("pp", plan.pp, world, plan.cp)
        or _degree_hint("cp", plan.cp, world, 1)
    )


def _degree_hint(axis: str, degree: int, world: int, others: int) -> str:
    """The nearest degrees of an axis that divide what the others leave; empty where they leave no whole number."""
    near = nearest(degree, divisors(world // others)) if world % others == 0 else ""
    return near and f"{axis} {near} would divide it"


@invariant
def global_batch(plan: Layout, job: Job, cluster: Cluster) -> Ruling:
    """micro_batch x dp x num_microbatches is the global batch."""
    yield plan.global_batch == job.global_batch
    plan, batch = one(plan), job.global_batch
    dp = _dp_of_world(plan, cluster.num_gpus)
    step = plan.micro_batch * dp
    first = "" if dp == plan.dp else f"with dp {dp}, "
    if batch % step == 0:
        yield (
            f"micro_batch {plan.micro_batch} x dp {plan.dp} x num_microbatches {plan.num_microbatches} = "
            f"{plan.global_batch}, but global_batch is {batch}; "
            f"{first}num_microbatches {batch // step} makes it so"
        )
    smaller = nearest(plan.micro_batch, divisors(batch // dp)) if batch % dp == 0 else ""
    yield (
        f"{first}global_batch {batch} is not a multiple of micro_batch {plan.micro_batch} x dp {dp} = {step}; "
        f"nearest global_batch: {nearest(batch, multiples(step, batch))}"
        + (f"; nearest micro_batch: {smaller}" if smaller else "")
    )


def _dp_of_world(plan: Plan, world: int) -> int:
    """The dp that `world_size` asks for, so that the two hints can be followed together; its own where none fits."""
    dp, rest = divmod(world, plan.tp * plan.cp * plan.pp)
    return plan.dp if rest else dp
