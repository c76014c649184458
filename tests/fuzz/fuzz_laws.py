"""Laws that every plan keeps: more memory, faster links and fewer layers can only make it better."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np

from meshwright.cost.step import estimate_plans
from meshwright.errors import InvalidInput
from meshwright.layout.legality import check
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import Model
from meshwright.specs.reading.cluster import read_cluster
from meshwright.specs.runtime import read_runtime
from strategies import alternating, dense_model, gpt_like, half_precision, latent, legal_plans, mixture, question

PLANS = 50
"""Plans of one random question."""
RUNTIMES = ("megatron-core", "megatron-lm", "torchtitan", "deepspeed", "nanotron", "accelerate", "pytorch-ddp")
CLUSTERS = ("1x8:h100", "2x8:h100", "4x8:a100", "2x8:b200", "4x4:gb200", "1x8:l40s", "3x8:h200", "1x6:h100")
EXACT = 1e-9
"""Sums of the same seconds in another order."""


def random_plans(chance: random.Random) -> tuple[Inputs, Plans]:
    """A random question and some of its legal plans, none where the runtime refuses every plan."""
    while True:
        runtime, cluster = read_runtime(chance.choice(RUNTIMES)), read_cluster(chance.choice(CLUSTERS))
        job = {
            "sequence_length": chance.choice((512, 1000, 2048, 4096, 16384)),
            "global_batch": cluster.num_gpus * chance.choice((1, 2, 3, 8, 16)),
            "precision": chance.choice(("bf16", half_precision(runtime))),
        }
        try:
            inputs = question(_model(chance), cluster, runtime.id, **job)
            plans = legal_plans(inputs)
        except InvalidInput:
            continue
        rows = np.random.default_rng(chance.randrange(2**32)).permutation(len(plans))[:PLANS]
        return inputs, plans.take(rows)


def _model(chance: random.Random) -> Model:
    kind = chance.randrange(6)
    if kind < 3:
        return (gpt_like, mixture, latent)[kind]()
    model = dense_model(
        heads=chance.choice((8, 16, 32, 40)),
        kv_heads=chance.choice((1, 2, 4, 8)),
        layers=chance.choice((2, 8, 12, 24, 30, 48)),
        ffn_size=chance.choice((2816, 11008, 16384)),
        vocab_size=chance.choice((32000, 50257, 128256, 262144)),
        tied_embeddings=chance.random() < 0.3,
        gated=chance.random() < 0.7,
    )
    return alternating(model, 1024, 2) if chance.random() < 0.2 else model


def broken_laws(chance: random.Random) -> tuple[int, list[str]]:
    """How many plans of a random question were held to the laws, and those that break one."""
    inputs, plans = random_plans(chance)
    if not len(plans):
        return 0, []
    shown = f"{inputs.model.name} {inputs.model.num_layers} layers on {inputs.cluster.name}, {inputs.runtime.id}"
    return len(plans), [f"{shown}: {fault}" for law in LAWS for fault in law(plans, inputs, chance)]


def _figures(plans: Plans, inputs: Inputs, _: random.Random) -> Iterator[str]:
    """Times and bytes are finite and not negative."""
    priced = estimate_plans(plans, inputs)
    for name, column in {**priced.time._asdict(), **priced.worst_memory._asdict(), "mfu": priced.mfu}.items():
        wrong = ~np.isfinite(column) | (np.asarray(column) < 0)
        yield from _named(plans, wrong, f"{name} is no amount")


def _more_memory(plans: Plans, inputs: Inputs, chance: random.Random) -> Iterator[str]:
    accelerator, factor = inputs.cluster.accelerator, chance.choice((1.001, 1.1, 2.0, 8.0))
    sizes = ("memory_bytes", "visible_memory_bytes")
    larger = accelerator.replace(**{name: getattr(accelerator, name) * factor for name in sizes})
    more = inputs.replace(cluster=inputs.cluster.replace(accelerator=larger))
    before, after = estimate_plans(plans, inputs), estimate_plans(plans, more)
    yield from _named(plans, after.verdict > before.verdict, f"{factor} times the memory makes it worse")


def _faster_link(plans: Plans, inputs: Inputs, chance: random.Random) -> Iterator[str]:
    levels, factor = [*inputs.cluster.levels], chance.choice((1.01, 1.5, 4.0))
    at = chance.randrange(len(levels))
    levels[at] = levels[at].replace(bandwidth=levels[at].bandwidth * factor)
    faster = inputs.replace(cluster=inputs.cluster.replace(levels=tuple(levels)))
    before, after = estimate_plans(plans, inputs).step_time_s, estimate_plans(plans, faster).step_time_s
    slower = after > before * (1 + EXACT)
    yield from _named(plans, slower, f"level {levels[at].name} {factor} times as fast makes it slower")


def _half_the_layers(plans: Plans, inputs: Inputs, _: random.Random) -> Iterator[str]:
    model = inputs.model
    if model.num_layers % 2:
        return
    half = inputs.replace(model=model.replace(layer_pattern=model.layer_pattern[: model.num_layers // 2]))
    kept = plans.take(check(plans, half).legal)
    if not len(kept):
        return
    before, after = (estimate_plans(kept, each).worst_memory.device for each in (inputs, half))
    yield from _named(kept, after > before * (1 + EXACT), "half the layers need more memory")


LAWS: tuple[Callable[[Plans, Inputs, random.Random], Iterator[str]], ...] = (
    _figures,
    _more_memory,
    _faster_link,
    _half_the_layers,
)


def _named(plans: Plans, wrong: object, what: str) -> Iterator[str]:
    rows = np.flatnonzero(wrong)
    if len(rows):
        plan: Plan = plans[int(rows[0])]
        yield f"{what}: {plan}, and {len(rows) - 1} more"
