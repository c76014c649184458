"""Rules of tensor and sequence parallelism."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import Ints
from meshwright.layout.legality.rule import Rule, divisors, nearest
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import Mlp


def _query_heads(plan: Layout, inputs: Inputs) -> Ints:
    return np.logical_and.reduce([each % plan.tp == 0 for each in _heads(inputs)])


def _query_heads_reason(plan: Plan, inputs: Inputs) -> str:
    common = int(np.gcd.reduce(_heads(inputs)))
    return f"{common} query heads do not divide by tp {plan.tp}; nearest tp: {nearest(plan.tp, divisors(common))}"


def _kv_heads(plan: Layout, inputs: Inputs) -> Ints:
    return np.logical_and.reduce([(each % plan.tp == 0) | (plan.tp % each == 0) for each in _kv_head_counts(inputs)])


def _kv_heads_reason(plan: Plan, inputs: Inputs) -> str:
    counts = _kv_head_counts(inputs)
    broken = next(each for each in counts if each % plan.tp and plan.tp % each)
    degrees = [
        tp
        for tp in divisors(int(np.gcd.reduce(_heads(inputs))))
        if all(each % tp == 0 or tp % each == 0 for each in counts)
    ]
    return (
        f"{broken} key-value heads neither divide by tp {plan.tp} nor divide it (replication); "
        f"nearest tp: {nearest(plan.tp, degrees)}"
    )


def _kv_heads_divide(plan: Layout, inputs: Inputs) -> Ints:
    return np.logical_and.reduce([each % plan.tp == 0 for each in _kv_head_counts(inputs)])


def _kv_heads_divide_reason(plan: Plan, inputs: Inputs) -> str:
    common = int(np.gcd.reduce(_kv_head_counts(inputs)))
    return (
        f"{common} key-value heads do not divide by tp {plan.tp}, and this runtime replicates none; "
        f"nearest tp: {nearest(plan.tp, divisors(common))}"
    )


def _kv_head_counts(inputs: Inputs) -> list[int]:
    return sorted({kind.attention.kv_heads for kind in inputs.model.layer_kinds})


def _ffn_size(plan: Layout, inputs: Inputs) -> Ints:
    return np.logical_and.reduce([each % plan.tp == 0 for each in _ffn_sizes(inputs)])


def _ffn_size_reason(plan: Plan, inputs: Inputs) -> str:
    common = int(np.gcd.reduce(_ffn_sizes(inputs)))
    return f"FFN size {common} does not divide by tp {plan.tp}; nearest tp: {nearest(plan.tp, divisors(common))}"


def _sequence_parallel(plan: Layout, inputs: Inputs) -> Ints:
    divides = inputs.job.sequence_length % (plan.tp * plan.cp) == 0
    return np.logical_not(plan.sp) | (np.greater(plan.tp, 1) & divides)


def _sequence_parallel_reason(plan: Plan, inputs: Inputs) -> str:
    if plan.tp == 1:
        return "sp needs tp 2 or more: with tp 1 there is nothing to split it over"
    sequence = inputs.job.sequence_length
    degrees = nearest(plan.tp, [tp for tp in divisors(sequence) if tp > 1 and sequence % (tp * plan.cp) == 0])
    return f"sequence length {sequence} does not divide by tp {plan.tp} x cp {plan.cp} as sp needs; " + (
        f"nearest tp: {degrees}, or no sp" if degrees else "only no sp would do"
    )


def _heads(inputs: Inputs) -> list[int]:
    return sorted({kind.attention.heads for kind in inputs.model.layer_kinds})


def _ffn_sizes(inputs: Inputs) -> list[int]:
    blocks = (kind.feed_forward for kind in inputs.model.layer_kinds)
    return sorted({block.ffn_size for block in blocks if isinstance(block, Mlp)})


RULES = (
    Rule("query_heads", _query_heads, _query_heads_reason),
    Rule("kv_heads", _kv_heads, _kv_heads_reason),
    Rule("kv_heads_divide", _kv_heads_divide, _kv_heads_divide_reason),
    Rule("ffn_size", _ffn_size, _ffn_size_reason),
    Rule("sequence_parallel", _sequence_parallel, _sequence_parallel_reason),
)
