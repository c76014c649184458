"""Rules of context parallelism."""

from __future__ import annotations

import math

import numpy as np

from meshwright.arrays import Bools, Ints
from meshwright.layout.groups import context_split
from meshwright.layout.legality.rule import Rule, change, changes, divisors, multiples
from meshwright.layout.plan import ContextExchange, Plan
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import MAX_SIZE


def _halves(plan: Layout, inputs: Inputs) -> Bools:
    return np.equal(plan.cp, 1) | (inputs.job.sequence_length % (2 * plan.cp) == 0)


def _halves_reason(plan: Plan, inputs: Inputs) -> str:
    sequence = inputs.job.sequence_length
    degrees = [1, *(cp for cp in divisors(sequence) if sequence % (2 * cp) == 0)]
    return (
        f"sequence length {sequence} does not divide by 2 x cp {plan.cp}: every rank takes a piece from the front and "
        f"one from the back; {change('cp', plan.cp, degrees)}"
    )


def _slices(plan: Layout, inputs: Inputs) -> Bools:
    return inputs.job.sequence_length % plan.cp == 0


def _slices_reason(plan: Plan, inputs: Inputs) -> str:
    sequence = inputs.job.sequence_length
    return f"sequence length {sequence} does not divide by cp {plan.cp}; {change('cp', plan.cp, divisors(sequence))}"


def _heads(plan: Layout, inputs: Inputs) -> Bools:
    counts = {kind.attention.heads for kind in inputs.model.layer_kinds}
    divide = np.logical_and.reduce([each % (plan.cp * plan.tp) == 0 for each in sorted(counts)])
    exchanged = np.equal(plan.context_exchange, int(ContextExchange.ALL_TO_ALL))
    return np.equal(plan.cp, 1) | np.logical_not(exchanged) | divide


def _heads_reason(plan: Plan, inputs: Inputs) -> str:
    common = math.gcd(*(kind.attention.heads for kind in inputs.model.layer_kinds))
    degrees = [1, *(cp for cp in divisors(common) if common % (cp * plan.tp) == 0)]
    return (
        f"{common} query heads do not divide by cp {plan.cp} x tp {plan.tp}: attention exchanges sequence for heads; "
        f"{change('cp', plan.cp, degrees)}"
    )


def _kv_heads(plan: Layout, inputs: Inputs) -> Bools:
    counts = {kind.attention.kv_heads for kind in inputs.model.layer_kinds}
    split = context_split(plan, inputs).heads
    ranks = split * (min(plan.tp, MAX_SIZE) if isinstance(plan, Plan) else plan.tp)
    return np.equal(split, 1) | np.logical_and.reduce([each % ranks == 0 for each in sorted(counts)])


def _kv_heads_reason(plan: Plan, inputs: Inputs) -> str:
    common = math.gcd(*(kind.attention.kv_heads for kind in inputs.model.layer_kinds))
    split = int(context_split(plan, inputs).heads)
    degrees = [1, *(cp for cp in divisors(common) if common % (cp * plan.tp) == 0)]
    return (
        f"{common} key-value heads do not divide by tp {plan.tp} x the {split} ranks that exchange sequence for heads, "
        f"which a ring does not ask for; {change('cp', plan.cp, degrees)}"
    )


def _alone(plan: Layout, inputs: Inputs) -> Bools:  # noqa: ARG001
    return np.equal(plan.cp, 1) | (np.equal(plan.tp, 1) & np.equal(plan.pp, 1))


def _alone_reason(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    return f"cp {plan.cp} works with neither tp nor pp, but tp is {plan.tp} and pp {plan.pp}; nearest cp: 1"


def _tokens_per_microbatch(plan: Layout, inputs: Inputs) -> Bools:
    return plan.micro_batch * inputs.job.sequence_length % _token_multiple(plan) == 0


def _tokens_per_microbatch_reason(plan: Plan, inputs: Inputs) -> str:
    sequence, multiple = inputs.job.sequence_length, int(_token_multiple(plan))
    tokens, others = plan.micro_batch * sequence, multiple // plan.cp
    batches = multiples(multiple // math.gcd(multiple, sequence), plan.micro_batch)
    degrees = [cp for cp in divisors(tokens) if tokens % (others * cp) == 0]
    split = f"tp {plan.tp} x 2 x cp {plan.cp}" if plan.sp else f"2 x cp {plan.cp}"
    return (
        f"a micro-batch of {plan.micro_batch} x {sequence} = {tokens} tokens does not divide by {split} = {multiple}; "
        f"{changes(change('cp', plan.cp, degrees), change('micro_batch', plan.micro_batch, batches))}"
    )


def _token_multiple(plan: Layout) -> Ints:
    return np.where(plan.sp, plan.tp, 1) * 2 * plan.cp


RULES = (
    Rule("context_parallel_halves", _halves, _halves_reason),
    Rule("context_parallel_slices", _slices, _slices_reason),
    Rule("context_parallel_heads", _heads, _heads_reason),
    Rule("context_parallel_kv_heads", _kv_heads, _kv_heads_reason),
    Rule("context_parallel_alone", _alone, _alone_reason),
    Rule("tokens_per_microbatch", _tokens_per_microbatch, _tokens_per_microbatch_reason),
)
