"""Rules of tensor and sequence parallelism."""

from __future__ import annotations

import math
import operator
from functools import reduce

from meshwright.layout.legality.rule import (
    Ruling,
    change,
    dividing,
    divisors,
    invariant,
    lacking,
    nearest,
    one,
    restriction,
)
from meshwright.layout.plans import Layout
from meshwright.specs.job import Job
from meshwright.specs.model import Experts, Mlp, Model
from meshwright.specs.precision import Precision
from meshwright.specs.runtime import Runtime


@invariant
def tensor_parallel(plan: Layout, runtime: Runtime) -> Ruling:
    """tp is 1 unless the runtime has tensor parallelism."""
    yield from lacking(plan, "tp", runtime.plans.tensor_parallel, f"{runtime.id} has no tensor parallelism")


@invariant
def query_heads(plan: Layout, model: Model) -> Ruling:
    """tp divides the query heads."""
    heads = _query_heads(model)
    yield from dividing(plan, "tp", heads, f"{heads} query heads are")


@invariant
def kv_heads(plan: Layout, model: Model, runtime: Runtime) -> Ruling:
    """tp divides the key-value heads or, where the runtime replicates them, they divide tp."""
    counts = sorted({kind.attention.kv_heads for kind in model.layer_kinds})
    if not runtime.plans.replicates_kv_heads:
        common = math.gcd(*counts)
        yield common % plan.tp == 0
        yield (
            f"{common} key-value heads are not divisible by tp {plan.tp}, and {runtime.id} replicates none; "
            f"{change('tp', plan.tp, divisors(common))}"
        )
        return
    yield reduce(operator.and_, [(count % plan.tp == 0) | (plan.tp % count == 0) for count in counts])
    plan = one(plan)
    broken = next(count for count in counts if count % plan.tp and plan.tp % count)
    fitting = [
        tp for tp in divisors(_query_heads(model)) if all(count % tp == 0 or tp % count == 0 for count in counts)
    ]
    yield (
        f"{broken} key-value heads are neither a multiple nor a divisor of tp {plan.tp}; "
        f"{change('tp', plan.tp, fitting)}"
    )


@invariant
def ffn_size(plan: Layout, model: Model) -> Ruling:
    """tp divides the FFN size."""
    blocks = (kind.feed_forward for kind in model.layer_kinds)
    size = math.gcd(*(block.ffn_size for block in blocks if isinstance(block, Mlp)))
    yield from dividing(plan, "tp", size, f"FFN size {size} is")


@invariant
def sequence_parallel(plan: Layout, job: Job, runtime: Runtime) -> Ruling:
    """sp needs a runtime that has it, tp 2 or more, and a sequence that divides by tp x cp."""
    splits = (plan.tp > 1) & (job.sequence_length % (plan.tp * plan.cp) == 0)
    yield (plan.sp == 0) | (splits & runtime.plans.sequence_parallel)
    plan, sequence = one(plan), job.sequence_length
    if not runtime.plans.sequence_parallel:
        yield f"sp with tp {plan.tp}: {runtime.id} splits no norms or residuals over tp; only no sp would do"
    if plan.tp == 1:
        yield "sp needs tp 2 or more: with tp 1 there is nothing to split it over"
    degrees = nearest(plan.tp, [tp for tp in divisors(sequence) if tp > 1 and sequence % (tp * plan.cp) == 0])
    yield f"sequence length {sequence} is not divisible by tp {plan.tp} x cp {plan.cp} as sp needs; " + (
        f"nearest tp: {degrees}, or no sp" if degrees else "only no sp would do"
    )


@restriction
def quantised_sizes(plan: Layout, model: Model, recipe: Precision, *, multiple: int = 1) -> Ruling:
    """Products in fp8 or fp4 have features that are multiples of some elements on a rank."""
    if not recipe.quantises:
        yield True
        return
    features = _features(model)
    degrees = [getattr(plan, field) if field else 1 for _, _, field in features]
    fit = [size % (multiple * degree) == 0 for (_, size, _), degree in zip(features, degrees, strict=True)]
    yield reduce(operator.and_, fit)
    broken = [each for each, fits in zip(features, fit, strict=True) if not fits]
    name, size, field = broken[0]
    common = math.gcd(*(other for _, other, shared in features if shared == field))
    fitting = divisors(common // multiple) if common % multiple == 0 else []
    alone = field and {shared for _, _, shared in broken} == {field}
    nearest_degree = change(field, getattr(plan, field), fitting) if alone else ""
    where = f" over {field} {getattr(plan, field)}" if field else ""
    yield (
        f"{name} {size}{where} is no multiple of {multiple} on a rank, as products in {recipe.id} need it; "
        f"{nearest_degree or 'pad it'}, or precision {recipe.half}"
    )


def _features(model: Model) -> list[tuple[str, int, str]]:
    """What the linear layers of a model read: name, elements, and the degree that divides them, if one does."""
    features = [("hidden size", model.hidden_size, "")]
    for kind in model.layer_kinds:
        block, heads = kind.feed_forward, kind.attention.heads * kind.attention.value_head_dim
        features.append(("width of all heads", heads, "tp"))
        if isinstance(block, Experts):
            features.append(("FFN size of an expert", block.ffn_size, "etp"))
            features.append(("FFN size of the shared expert", block.shared_ffn_size, "tp"))
        else:
            features.append(("FFN size", block.ffn_size, "tp"))
    return features


def _query_heads(model: Model) -> int:
    """The largest count that divides the query heads of every layer."""
    return math.gcd(*(kind.attention.heads for kind in model.layer_kinds))
