"""All configurations on N GPUs, split by the 80 % rule, so that the space shrinks before anything runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from itertools import islice
from typing import Any

from meshwright.textbook.checks import Checks
from meshwright.textbook.degrees import MAX_GPUS, products
from meshwright.textbook.memory import FORMS, Sizes, estimate_of, read_sizes

VERDICTS = ("safe", "at-risk", "out-of-memory")
RULES: dict[str, tuple[str, Callable[[Sizes], bool]]] = {
    "num_attention_heads % tp == 0": ("tp", lambda each: each.num_attention_heads % each.tp == 0),
    "ffn_hidden_size % tp == 0": ("tp", lambda each: each.ffn_hidden_size % each.tp == 0),
    "num_layers % pp == 0": ("pp", lambda each: each.num_layers % each.pp == 0),
    "sequence_length % (2 cp) == 0 where cp > 1": (
        "cp",
        lambda each: each.cp == 1 or each.sequence_length % (2 * each.cp) == 0,
    ),
    "(sequence_length / cp) % tp == 0": ("tp", lambda each: each.sequence_length % (each.cp * each.tp) == 0),
}
"""What a configuration must divide, each with its degree: whole heads, FFN columns and layers on each
rank; with context parallelism two equal pieces of the sequence for each rank, an early and a late one, so that causal
attention is balanced (Megatron-LM, arguments.py); and sequence parallelism, always on here, splits what remains of the
sequence over tp."""

SIZES, DEGREES = Sizes._fields[:7], ("cp", "pp", "tp")
MOST_TRIED = 10_000
"""Degrees that are looked at for the nearest; no size has so large a divisor that is asked for."""


def memory_of_every_configuration(
    *,
    num_gpus: int,
    hidden_size: int,
    ffn_hidden_size: int,
    num_layers: int,
    num_attention_heads: int,
    num_key_value_heads: int,
    vocab_size: int,
    sequence_length: int,
    micro_batch_size: int,
    gpu_memory_gb: float,
    distributed_optimizer: bool = True,
    form: str = "decided",
) -> dict[str, Any]:
    """Every legal (tp, pp, cp, dp) with tp pp cp dp = N, by verdict: safe, at-risk and out-of-memory.

    Equations and the other arguments as in `estimate_4d_memory`, which is asked for each configuration.
    Legal: num_attention_heads and ffn_hidden_size divisible by tp, num_layers by pp, sequence_length by 2 cp where
    cp > 1 (causal attention is balanced with an early and a late piece on each rank), and sequence_length / cp by tp.
    Source: Fujii et al., arXiv:2411.06465; the rules of Megatron-LM, arguments.py.

    num_gpus: N, GPUs, at most ten million; hidden_size, ffn_hidden_size: elements; num_layers: layers;
    num_attention_heads, num_key_value_heads: heads (beyond that many, tp replicates KV heads in practice, while the
    closed form goes on dividing them); vocab_size, sequence_length: tokens; micro_batch_size: sequences;
    gpu_memory_gb: 1e9 bytes; distributed_optimizer: states divided by dp cp; form: `decided` or `literal`.

    Returns `num_gpus`, `considered`, `legal`, `refused` (rule: how many break it) and one list for each verdict, in
    ascending order of (tp, pp, cp, dp): the degrees and what `estimate_4d_memory` returns. Units as there.
    Scope: one GPU of the first stage of each configuration.
    Raises `InvalidSpec`, a `ValueError`, with every fault.

    >>> llama_2_7b = dict(hidden_size=4096, ffn_hidden_size=11008, num_layers=32, num_attention_heads=32)
    >>> llama_2_7b |= dict(num_key_value_heads=32, vocab_size=32000, sequence_length=4096, micro_batch_size=1)
    >>> space = memory_of_every_configuration(num_gpus=8, **llama_2_7b, gpu_memory_gb=40)
    >>> space["considered"], len(space["safe"]), len(space["at-risk"]), len(space["out-of-memory"])
    (20, 8, 4, 8)
    """
    model = (hidden_size, ffn_hidden_size, num_layers, num_attention_heads, num_key_value_heads, vocab_size)
    checks = Checks("memory_of_every_configuration")
    gpus = checks.whole("num_gpus", num_gpus, most=MAX_GPUS)
    sizes = read_sizes(checks, (*model, sequence_length, micro_batch_size))
    memory = checks.number("gpu_memory_gb", gpu_memory_gb)
    sharded = checks.flag("distributed_optimizer", distributed_optimizer)
    chosen = checks.choice("form", form, FORMS)
    checks.done()
    refused = dict.fromkeys(RULES, 0)
    by_verdict: dict[str, list[dict[str, Any]]] = {verdict: [] for verdict in VERDICTS}
    considered = 0
    for tp, pp, cp, dp in products(gpus, 4):
        considered += 1
        each = sizes._replace(tp=tp, pp=pp, cp=cp, dp=dp)
        broken = [name for name, (_, rule) in RULES.items() if not rule(each)]
        for name in broken:
            refused[name] += 1
        if not broken:
            estimate = estimate_of(each, memory, sharded, chosen)
            by_verdict[estimate["verdict"]].append({"tp": tp, "pp": pp, "cp": cp, "dp": dp} | estimate)
    legal = sum(map(len, by_verdict.values()))
    return {"num_gpus": gpus, "considered": considered, "legal": legal, "refused": refused} | by_verdict


def require_divisible(sizes: Sizes) -> None:
    """Raise `InvalidSpec` with every rule that one configuration breaks, by degree, and the nearest degrees that keep
    those of this degree.

    >>> llama_2_7b = Sizes(4096, 11008, 32, 32, 32, 32000, sequence_length=4096)
    >>> require_divisible(llama_2_7b._replace(pp=3))
    Traceback (most recent call last):
    meshwright.errors.InvalidSpec: the configuration is not valid:
      - pp: is 3; num_layers % pp == 0 must hold, and num_layers is 32; nearest: 2 or 4
    """
    checks = Checks("the configuration")
    for axis in DEGREES:
        rules = {name: rule for name, (degree, rule) in RULES.items() if degree == axis}
        broken = [name for name, rule in rules.items() if not rule(sizes)]
        if broken:
            fields = dict.fromkeys(field for name in broken for field in re.findall(r"\w+", name) if field in SIZES)
            known = ", ".join(f"{field} is {getattr(sizes, field)}" for field in fields)
            near, holds = _nearest(sizes, axis, rules.values()), " and ".join(broken)
            listed = " or ".join(map(str, near))
            checks.fault(axis, f"is {getattr(sizes, axis)}; {holds} must hold, and {known}; nearest: {listed}")
            sizes = sizes._replace(**{axis: near[0]})
    checks.done()


def _nearest(sizes: Sizes, axis: str, rules: Collection[Callable[[Sizes], bool]]) -> list[int]:
    """The next degree below and above that keeps rules; 1 keeps all but what another degree breaks."""

    def first(degrees: range) -> list[int]:
        kept = (each for each in degrees if all(rule(sizes._replace(**{axis: each})) for rule in rules))
        return [*islice(kept, 1)]

    asked = min(getattr(sizes, axis), MOST_TRIED)
    return first(range(asked - 1, 0, -1)) + first(range(asked + 1, 2 * asked + 1))
