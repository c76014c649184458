"""Rules of ZeRO and of replicas of the sharding group."""

from __future__ import annotations

from meshwright.arrays import one_of
from meshwright.layout.groups import expert_data_ranks
from meshwright.layout.legality.rule import Ruling, change, changes, divisors, invariant, one, restriction
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Layout
from meshwright.specs.adapters import ROW_PARALLEL, adapted_modules
from meshwright.specs.job import Job
from meshwright.specs.model import Model
from meshwright.specs.precision import FP32_BYTES
from meshwright.specs.runtime import Runtime, read_runtime, releases


@invariant
def zero(plan: Layout, runtime: Runtime) -> Ruling:
    """The ZeRO stage is one that is priced for the runtime; 0 where one rank alone is not sharded."""
    stages, always = runtime.plans.zero_stages, runtime.shards_one_rank
    alone = (plan.zero == 0) & (plan.dp * plan.cp == 1)
    yield one_of(plan.zero, stages) | (alone & (not always))
    where = ", on one rank too" if always else ""
    yield (
        f"ZeRO {plan.zero} is not modelled for {runtime.id}; its stages{where}: {', '.join(map(str, stages))}; "
        f"{change('zero', plan.zero, stages)}{_in_earlier(runtime, one(plan).zero)}"
    )


def _in_earlier(runtime: Runtime, stage: int) -> str:
    """Releases of the framework that have the stage."""
    known = (f"{runtime.framework}@{release}" for release in releases(runtime.framework))
    having = [name for name in known if stage in read_runtime(name).plans.zero_stages]
    return f"; {' and '.join(having)} had it (--runtime)" if having else ""


@invariant
def replicas(plan: Layout, runtime: Runtime) -> Ruling:
    """dp_replicate, where the runtime has hybrid sharding, divides dp x cp."""
    legal = (plan.dp * plan.cp % plan.dp_replicate == 0) & runtime.plans.hybrid_sharding
    yield (plan.dp_replicate == 1) | legal
    if not runtime.plans.hybrid_sharding:
        yield f"dp_replicate {plan.dp_replicate}: {runtime.id} has no hybrid sharding; nearest dp_replicate: 1"
    near = change("dp_replicate", plan.dp_replicate, divisors(one(plan).dp, one(plan).cp))
    yield f"dp {plan.dp} x cp {plan.cp} does not divide into dp_replicate {plan.dp_replicate} sharding groups; {near}"


@invariant
def replicas_shard(plan: Layout, runtime: Runtime) -> Ruling:
    """dp_replicate 2 or more needs ZeRO 1 or more."""
    stages = [stage for stage in runtime.plans.zero_stages if stage]
    yield (plan.dp_replicate == 1) | (plan.zero >= 1)
    yield (
        changes(
            f"dp_replicate {plan.dp_replicate} copies a sharding group, but zero {plan.zero} shards nothing",
            change("zero", plan.zero, stages),
            "nearest dp_replicate: 1",
        )
    )


@restriction
def replicas_within_dp(plan: Layout) -> Ruling:
    """dp_replicate divides dp."""
    yield plan.dp % plan.dp_replicate == 0
    yield (
        f"dp {plan.dp} does not divide into dp_replicate {plan.dp_replicate} sharding groups; "
        f"{change('dp_replicate', plan.dp_replicate, divisors(one(plan).dp))}"
    )


@restriction
def replicas_beside_tensor(plan: Layout) -> Ruling:
    """Beside tp or cp, a sharding group has two data-parallel ranks or more."""
    plain = (plan.tp == 1) & (plan.cp == 1)
    shards = plan.dp // plan.dp_replicate
    yield (plan.dp_replicate == 1) | plain | (shards > 1)
    fewer = [each for each in divisors(one(plan).dp) if each < one(plan).dp]
    yield (
        f"tp {plan.tp} and cp {plan.cp} go with replicas only where each is sharded, but dp {plan.dp} is dp_replicate "
        f"{plan.dp_replicate} groups of {shards}; "
        f"{change('dp_replicate', plan.dp_replicate, fewer or [1])}"
    )


@restriction
def half_needs_shards(plan: Layout, runtime: Runtime) -> Ruling:
    """Where FSDP alone casts fp32 weights to 2 bytes, and not on one rank, tp and pp need ranks that it shards over."""
    sharded = plan.dp // plan.dp_replicate * plan.cp > 1
    casts = runtime.shards_one_rank or runtime.storage.weight_bytes < FP32_BYTES
    yield sharded | ((plan.tp == 1) & (plan.pp == 1)) | casts
    yield (
        f"{runtime.id} trains in fp32 with tp {plan.tp}, pp {plan.pp} where FSDP shards over no ranks (dp {plan.dp}, "
        f"cp {plan.cp}, dp_replicate {plan.dp_replicate}); {_with_shards(one(plan))}, or --with training_dtype=bf16"
    )


def _with_shards(plan: Plan) -> str:
    """The nearest change with which FSDP shards over ranks: on as many, where the replicas are in order."""
    if plan.dp_replicate > 1 == plan.dp:
        return f"nearest dp: {2 * plan.dp_replicate}"
    if plan.dp_replicate > 1:
        return change("dp_replicate", plan.dp_replicate, [each for each in divisors(plan.dp) if each < plan.dp])
    axis = "tp" if plan.tp > 1 else "pp"
    degree = getattr(plan, axis)
    shards = next(each for each in divisors(degree) if each > 1)
    return f"nearest dp: {shards}, with {axis} {degree // shards}"


@restriction
def narrow_moments(plan: Layout, model: Model, runtime: Runtime) -> Ruling:
    """Narrow moments of Adam, and optimizer states in the host's memory, need ZeRO 1 where several ranks hold the same
    weights, of experts or of the rest.
    """
    alone = (plan.dp * plan.cp == 1) & ((expert_data_ranks(plan) <= 1) | (not model.is_moe))
    moments, offloaded = runtime.storage.moment_bytes, runtime.storage.offloaded != "nothing"
    yield (plan.zero == 1) | alone | (moments == FP32_BYTES and not offloaded)
    states = "optimizer states on the host" if offloaded else f"{moments}-byte moments"
    yield f"zero {plan.zero} does not go with {states} in {runtime.id}; nearest zero: 1"


@restriction
def offloaded_states(plan: Layout, runtime: Runtime) -> Ruling:
    """Optimizer states in the host's memory need ZeRO where several ranks hold the same weights."""
    kept = runtime.storage.offloaded == "nothing"
    yield (plan.zero > 0) | (plan.dp * plan.cp == 1) | kept
    yield f"zero {plan.zero} does not go with optimizer states on the host in {runtime.id}; nearest zero: 1"


@restriction
def offloaded_weights(plan: Layout, runtime: Runtime) -> Ruling:
    """Weights in the host's memory need pp 1."""
    yield (plan.pp == 1) | (not runtime.storage.offloads_weights)
    yield f"pp {plan.pp} is not priced with weights on the host in {runtime.id}; nearest pp: 1"


@invariant
def offloaded_activations(plan: Layout, runtime: Runtime) -> Ruling:
    """Activations in the host's memory need pp 1."""
    yield (plan.pp == 1) | (not runtime.activations.offloaded_layers)
    yield f"pp {plan.pp} is not priced with activations on the host in {runtime.id}; nearest pp: 1"


@restriction
def adapters_without_other_axes(plan: Layout, job: Job) -> Ruling:
    """Adapters need tp 1, pp 1 and ep 1."""
    yield (plan.tp == 1) & (plan.pp == 1) & (plan.ep == 1) | (not job.lora_rank)
    split = next(name for name in ("tp", "pp", "ep") if getattr(plan, name) > 1)
    yield f"adapters are not priced with {split} {getattr(plan, split)}; nearest {split}: 1"


@restriction
def adapters_beside_whole_weights(plan: Layout, job: Job) -> Ruling:
    """Adapters need ZeRO 0 or 1."""
    yield (plan.zero < 2) | (not job.lora_rank)
    yield f"adapters are not priced with ZeRO {plan.zero}, which divides frozen weights too; nearest zero: 1"


@restriction
def adapter_rank(plan: Layout, job: Job) -> Ruling:
    """tp divides the rank of adapters beside column-parallel layers."""
    column = set(adapted_modules(job.lora_modules)) - set(ROW_PARALLEL)
    yield (job.lora_rank % plan.tp == 0) | (not column)
    near = change("tp", plan.tp, divisors(job.lora_rank))
    yield f"adapters of rank {job.lora_rank} do not divide over tp {plan.tp}; {near}"


@restriction
def zero_with_experts(plan: Layout, model: Model) -> Ruling:
    """Under ZeRO 3 experts on different ranks (ep 2 or more) need tp 1, cp 1 and shards over all replicas."""
    alone = (plan.tp == 1) & (plan.cp == 1) & (plan.dp_replicate == 1)
    yield (plan.zero < 3) | (plan.ep == 1) | (not model.is_moe) | alone
    beside = f"tp {plan.tp}, cp {plan.cp} and {plan.dp_replicate} replicas of the shards"
    yield f"ZeRO {plan.zero} with experts on ep {plan.ep} ranks refuses {beside}; nearest zero: 2; nearest ep: 1"


@restriction
def zero_without_pipeline(plan: Layout, runtime: Runtime) -> Ruling:
    """ZeRO 2 and 3 need pp 1."""
    yield (plan.zero <= 1) | (plan.pp == 1)
    yield f"zero {plan.zero} does not go with pp {plan.pp} in {runtime.id}; nearest zero: 1; nearest pp: 1"
