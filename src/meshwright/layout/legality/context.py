"""Rules of context parallelism."""

from __future__ import annotations

import math

from meshwright.arrays import negated, one_of, where
from meshwright.errors import any_of
from meshwright.layout.groups import context_split
from meshwright.layout.legality.rule import (
    Ruling,
    change,
    changes,
    dividing,
    divisors,
    invariant,
    multiples,
    one,
    restriction,
)
from meshwright.layout.plans import Layout
from meshwright.specs.choices import CONTEXT_EXCHANGE_NAMES, ContextExchange
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import Job
from meshwright.specs.model import Model
from meshwright.specs.runtime import Runtime


@invariant
def context_parallel(plan: Layout, runtime: Runtime) -> Ruling:
    """cp is 1 unless the runtime has context parallelism with the plan's exchange."""
    known = runtime.plans.context_exchanges
    codes = [int(code) for code, name in CONTEXT_EXCHANGE_NAMES.items() if name in known]
    yield (plan.cp == 1) | one_of(plan.context_exchange, codes)
    has = f"has {', '.join(known)}" if known else "has no context parallelism"
    yield (
        f"cp {plan.cp} with context_exchange {CONTEXT_EXCHANGE_NAMES[one(plan).context_exchange]}: {runtime.id} {has}; "
        "nearest cp: 1"
    )


@invariant
def context_parallel_slices(plan: Layout, job: Job) -> Ruling:
    """cp divides the sequence."""
    sequence = job.sequence_length
    yield from dividing(plan, "cp", sequence, f"sequence length {sequence} is")


@invariant
def context_parallel_heads(plan: Layout, model: Model) -> Ruling:
    """With all_to_all, tp x cp divides the query heads."""
    heads = math.gcd(*(kind.attention.heads for kind in model.layer_kinds))
    exchanged = plan.context_exchange == int(ContextExchange.ALL_TO_ALL)
    yield (plan.cp == 1) | negated(exchanged) | (heads % (plan.cp * plan.tp) == 0)
    yield (
        f"{heads} query heads are not divisible by cp {plan.cp} x tp {plan.tp}: attention exchanges sequence "
        f"for heads; {change('cp', plan.cp, _degrees_of_heads(heads, one(plan).tp))}"
    )


def _degrees_of_heads(heads: int, tp: int) -> list[int]:
    return [1, *(cp for cp in divisors(heads) if heads % (cp * tp) == 0)]


@restriction
def context_parallel_halves(plan: Layout, job: Job) -> Ruling:
    """2 x cp divides the sequence: every rank takes a piece from the front and one from the back."""
    sequence = job.sequence_length
    yield (plan.cp == 1) | (sequence % (2 * plan.cp) == 0)
    degrees = [1, *(cp for cp in divisors(sequence) if sequence % (2 * cp) == 0)]
    yield (
        f"sequence length {sequence} is not divisible by 2 x cp {plan.cp}: every rank takes a piece from the front and "
        f"one from the back; {change('cp', plan.cp, degrees)}"
    )


@restriction
def context_parallel_kv_heads(plan: Layout, inputs: Inputs, model: Model) -> Ruling:
    """tp x the ranks that exchange sequence for heads divides the key-value heads."""
    heads = math.gcd(*(kind.attention.kv_heads for kind in model.layer_kinds))
    split = context_split(plan, inputs).heads
    yield (split == 1) | (heads % (split * plan.tp) == 0)
    yield (
        f"{heads} key-value heads are not divisible by tp {plan.tp} x the {int(split)} ranks that exchange "
        f"sequence for heads, which a ring does not ask for; "
        f"{change('cp', plan.cp, _degrees_of_heads(heads, one(plan).tp))}"
    )


@restriction
def context_parallel_attention(plan: Layout, model: Model, job: Job) -> Ruling:
    """cp 2 or more exchanges windowed attention by all_gather or all_to_all, and attention with sinks by all_to_all."""
    known = exchanges_of_attention(model, job)
    yield (plan.cp == 1) | one_of(plan.context_exchange, map(int, known))
    special = _beside_causal(model, job)
    names = any_of(CONTEXT_EXCHANGE_NAMES[each] for each in known)
    exchange = CONTEXT_EXCHANGE_NAMES[one(plan).context_exchange]
    yield (
        f"cp {plan.cp} with context_exchange {exchange}: no kernel of it takes the {' and '.join(special)} of "
        f"{model.name}; set context_exchange to {names}; nearest cp: 1"
    )


def exchanges_of_attention(model: Model, job: Job) -> tuple[ContextExchange, ...]:
    """The exchanges whose kernels take the attention of a model, where `context_parallel_attention` is a rule."""
    special = _beside_causal(model, job)
    if "sinks" in special:
        return (ContextExchange.ALL_TO_ALL,)
    return (ContextExchange.ALL_GATHER, ContextExchange.ALL_TO_ALL) if special else tuple(ContextExchange)


@restriction
def context_parallel_fused(plan: Layout, inputs: Inputs) -> Ruling:
    """cp 2 or more needs fused attention, which has to take the heads of the model."""
    yield (plan.cp == 1) | (inputs.attention_generation != "eager")
    heads = " and ".join(map(str, inputs.model.head_sizes))
    yield (
        f"cp {plan.cp} needs fused attention, and none takes heads of {heads} elements on "
        f"{inputs.cluster.accelerator.id}; nearest cp: 1"
    )


@restriction
def context_parallel_uncapped(plan: Layout, model: Model) -> Ruling:
    """cp 2 or more needs attention whose scores are not capped."""
    yield (plan.cp == 1) | (not any(kind.attention.softcap for kind in model.layer_kinds))
    yield f"cp {plan.cp} has no kernel that caps the scores of {model.name}; nearest cp: 1"


@restriction
def context_parallel_causal(plan: Layout, model: Model, job: Job) -> Ruling:
    """cp 2 or more needs attention to all tokens before, with neither windows nor sinks."""
    special = _beside_causal(model, job)
    yield (plan.cp == 1) | (not special)
    yield f"cp {plan.cp} attends to all tokens before, and {model.name} has {' and '.join(special)}; nearest cp: 1"


@restriction
def context_parallel_documents(plan: Layout, inputs: Inputs, job: Job) -> Ruling:
    """cp 2 or more keeps attention within documents only with FlashAttention-2, which is told where they end."""
    whole = job.attended_length == job.sequence_length
    yield (plan.cp == 1) | whole | (inputs.attention_kernel == "flash-2")
    yield (
        f"cp {plan.cp} drops masks, so attention would leave the documents of {job.attended_length} tokens that are "
        f"packed into {job.sequence_length}; nearest cp: 1"
    )


def _beside_causal(model: Model, job: Job) -> list[str]:
    """What attention of a model has beside the causal mask, over the job's sequences."""
    kinds = [kind.attention for kind in model.layer_kinds]
    windows = any(kind.window_over(job.sequence_length) for kind in kinds)
    has = {"windows": windows, "sinks": any(kind.sinks for kind in kinds)}
    return [name for name, there in has.items() if there]


@restriction
def context_parallel_alone(plan: Layout) -> Ruling:
    """cp 2 or more needs tp 1 and pp 1."""
    yield (plan.cp == 1) | ((plan.tp == 1) & (plan.pp == 1))
    yield f"cp {plan.cp} works with neither tp nor pp, but tp is {plan.tp} and pp {plan.pp}; nearest cp: 1"


@restriction
def context_parallel_one_sequence(plan: Layout) -> Ruling:
    """cp 2 or more needs micro-batches of one sequence."""
    yield (plan.cp == 1) | (plan.micro_batch == 1)
    yield (
        f"cp {plan.cp} gathers the keys of {plan.micro_batch} sequences as if they were one: "
        f"{changes(change('cp', plan.cp, [1]), change('micro_batch', plan.micro_batch, [1]))}"
    )


@restriction
def packed_attention_without_pipeline(plan: Layout, model: Model, runtime: Runtime) -> Ruling:
    """Without position ids on later pipeline stages, cp 2 or more and biases of queries, keys and values need pp 1."""
    biased = any(kind.attention.qkv_bias for kind in model.layer_kinds)
    yield (plan.pp == 1) | ((plan.cp == 1) & (not biased))
    what = "with biases of queries, keys and values" if biased else f"with cp {plan.cp}"
    yield (
        f"attention {what} needs position ids, which {runtime.id} does not pass to later pipeline stages, but pp is "
        f"{plan.pp}; nearest pp: 1"
    )


@restriction
def tokens_per_microbatch(plan: Layout, job: Job) -> Ruling:
    """The tokens of a micro-batch divide by 2 x cp, with sp by tp x 2 x cp."""
    multiple = where(plan.sp, plan.tp, 1) * 2 * plan.cp
    yield plan.micro_batch * job.sequence_length % multiple == 0
    plan, step, sequence = one(plan), int(multiple), job.sequence_length
    tokens, others = plan.micro_batch * sequence, step // plan.cp
    batches = multiples(step // math.gcd(step, sequence), plan.micro_batch)
    degrees = [cp for cp in divisors(plan.micro_batch, sequence) if tokens % (others * cp) == 0]
    split = f"tp {plan.tp} x 2 x cp {plan.cp}" if plan.sp else f"2 x cp {plan.cp}"
    yield (
        f"a micro-batch of {plan.micro_batch} x {sequence} = {tokens} tokens is not divisible by {split} = {step}; "
        f"{changes(change('cp', plan.cp, degrees), change('micro_batch', plan.micro_batch, batches))}"
    )


@restriction
def loss_pieces(plan: Layout, job: Job, runtime: Runtime) -> Ruling:
    """A loss that goes through the sequence in pieces divides each rank's part of it evenly."""
    pieces, sequence = runtime.entropy.sequence_pieces, job.sequence_length
    yield sequence % (pieces * plan.cp) == 0
    degrees = [cp for cp in divisors(sequence) if sequence % (pieces * cp) == 0]
    lengths = " or ".join(map(str, multiples(pieces * one(plan).cp, sequence)))
    near = [*([change("cp", plan.cp, degrees)] if degrees else []), f"nearest sequence length: {lengths}"]
    yield (
        f"sequence length {sequence} over cp {plan.cp} does not divide into the {pieces} pieces of the loss; "
        f"{changes(*near)}; or take the loss whole with cross_entropy=eager"
    )
