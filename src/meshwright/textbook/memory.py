"""The 4D memory estimator of Fujii, Watanabe and Yokota for Llama models (arXiv:2411.06465)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

from meshwright.textbook.checks import Checks
from meshwright.textbook.exact import GIGABYTE, as_float

SAFE_SHARE = 0.8
"""No run at or below this share ran out of memory, of 454 on A100 and H100 (arXiv:2411.06465, section 4)."""
FORMS = ("decided", "literal")
WEIGHT_BYTES, GRADIENT_BYTES, OPTIMIZER_BYTES = 2, 4, 12


class Sizes(NamedTuple):
    """A Llama model, a micro-batch and a configuration; whole numbers of 1 or more."""

    hidden_size: int
    ffn_hidden_size: int
    num_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    vocab_size: int
    sequence_length: int = 1
    micro_batch_size: int = 1
    tp: int = 1
    pp: int = 1
    cp: int = 1
    dp: int = 1


MODEL_SIZES = Sizes._fields[:6]
"""Those of the model."""


def estimate_4d_memory(
    *,
    hidden_size: int,
    ffn_hidden_size: int,
    num_layers: int,
    num_attention_heads: int,
    num_key_value_heads: int,
    vocab_size: int,
    sequence_length: int,
    micro_batch_size: int,
    tp: int,
    pp: int,
    cp: int,
    dp: int,
    gpu_memory_gb: float,
    distributed_optimizer: bool = True,
    form: str = "decided",
) -> dict[str, Any]:
    """Memory of the first pipeline stage of a Llama model under 4D parallelism, and the 80 % verdict.

    N_gpu = h v / t + (2 L / p) h^2 [(1 + k/a + (3/2) f/h) / t + 1/h], with p = 1 also h v / t + h (head, final norm);
    states (6 + 12 / (d c)) N_gpu, or 18 N_gpu without the distributed optimizer;
    activations s b h (12 + 4 k/a + 8 f/h) L / (t c) + 8 s b p / c, with p = 1 also 4 s b h (1 + v/h) / (t c).
    The literal form is s b h / (t c) [(12 + 4 k/a + 8 f/h) L + 8 p + 4 (1 + v/h)] for every p.
    Source: Fujii et al., arXiv:2411.06465; with many stages and a small model the two forms differ by up to 20 %.
    Published error: none of 454 runs at or below 80 % ran out of memory; above it a run may still succeed.

    hidden_size: h, elements; ffn_hidden_size: f, elements; num_layers: L, layers; num_attention_heads: a and
    num_key_value_heads: k, heads; vocab_size: v, tokens; sequence_length: s, tokens; micro_batch_size: b, sequences;
    tp: t, pp: p, cp: c, dp: d, degrees; gpu_memory_gb: 1e9 bytes, 80 for A100-80 and H100-80; distributed_optimizer:
    whether the optimizer states are divided by d c; form: `decided` or `literal`.

    Returns `parameters_per_gpu` (count: an exact int where it is whole, else a float), `parameters_gb`,
    `gradients_gb`, `optimizer_gb`, `activations_gb`, `total_gb` (1e9 bytes, unrounded), `usage` (share of the GPU)
    and `verdict`: safe up to 80 %, at-risk up to 100 %, out-of-memory beyond.
    Scope: one GPU of the first of the 1F1B stages with p micro-batches in flight; bf16 weights and activations, fp32
    gradients and Adam, flash attention, SwiGLU, RMS norm that keeps 4 s b h (an unfused one keeps 16 s b h), no
    recomputation, no dropout, sequence parallel on with tp. Buffers, fragmentation and communicators are what the
    other 20 % stand for; the last stage, which holds the logits, is not looked at. Degrees need not divide the sizes.
    Raises `InvalidSpec`, a `ValueError`, with every fault.

    >>> llama_2_7b = dict(hidden_size=4096, ffn_hidden_size=11008, num_layers=32, num_attention_heads=32)
    >>> llama_2_7b |= dict(num_key_value_heads=32, vocab_size=32000, sequence_length=4096, micro_batch_size=1)
    >>> memory = estimate_4d_memory(**llama_2_7b, tp=2, pp=1, cp=1, dp=4, gpu_memory_gb=80)
    >>> memory["parameters_per_gpu"], round(memory["total_gb"], 2), memory["verdict"]
    (3369340928, 40.69, 'safe')
    """
    model = (hidden_size, ffn_hidden_size, num_layers, num_attention_heads, num_key_value_heads, vocab_size)
    checks = Checks("estimate_4d_memory")
    sizes = read_sizes(checks, (*model, sequence_length, micro_batch_size, tp, pp, cp, dp))
    memory = checks.number("gpu_memory_gb", gpu_memory_gb)
    sharded = checks.flag("distributed_optimizer", distributed_optimizer)
    chosen = checks.choice("form", form, FORMS)
    checks.done()
    return estimate_of(sizes, memory, sharded, chosen)


def llama_parameters(
    *,
    hidden_size: int,
    ffn_hidden_size: int,
    num_layers: int,
    num_attention_heads: int,
    num_key_value_heads: int,
    vocab_size: int,
) -> int | float:
    """Parameters of a Llama model: N = 2 h v + h + L N_l, N_l = 2 h^2 (1 + k/a + (3/2) f/h + 1/h).

    hidden_size: h, elements; ffn_hidden_size: f, elements; num_layers: L, layers; num_attention_heads: a and
    num_key_value_heads: k, heads; vocab_size: v, tokens. Returns a count, an exact int where it is whole.
    Scope: the whole model with untied embeddings. Source: Fujii et al., arXiv:2411.06465, section 3.

    >>> llama_parameters(hidden_size=8192, ffn_hidden_size=28672, num_layers=80, num_attention_heads=64,
    ...                  num_key_value_heads=8, vocab_size=128256)
    70553706496
    """
    checks = Checks("llama_parameters")
    model = (hidden_size, ffn_hidden_size, num_layers, num_attention_heads, num_key_value_heads, vocab_size)
    sizes = read_sizes(checks, model)
    checks.done()
    return _count(_parameters(sizes), "parameters")


def read_sizes(checks: Checks, values: tuple[int, ...]) -> Sizes:
    """The sizes, each checked by its rule; faults go into `checks`.

    values: in the order of `Sizes`, as many as there are.
    """
    sizes = Sizes(*(checks.whole(name, value) for name, value in zip(Sizes._fields, values, strict=False)))
    if sizes.num_key_value_heads > sizes.num_attention_heads:
        rule = f"it must not exceed num_attention_heads {sizes.num_attention_heads}"
        checks.fault("num_key_value_heads", f"is {sizes.num_key_value_heads}; {rule}")
    return sizes


def estimate_of(sizes: Sizes, gpu_memory_gb: float, distributed_optimizer: bool, form: str) -> dict[str, Any]:
    """The answer of `estimate_4d_memory` for sizes that were checked."""
    parameters = _parameters(sizes)
    shards = sizes.dp * sizes.cp if distributed_optimizer else 1
    parts = {
        "parameters_gb": WEIGHT_BYTES * parameters,
        "gradients_gb": GRADIENT_BYTES * parameters,
        "optimizer_gb": OPTIMIZER_BYTES * parameters / shards,
        "activations_gb": _activations(sizes, form),
    }
    parts["total_gb"] = sum(parts.values(), Fraction())
    answer: dict[str, Any] = {"parameters_per_gpu": _count(parameters, "parameters_per_gpu")}
    answer |= {key: as_float(part / GIGABYTE, key) for key, part in parts.items()}
    usage = as_float(parts["total_gb"] / GIGABYTE / Fraction(gpu_memory_gb), "usage")
    verdict = "safe" if usage <= SAFE_SHARE else "at-risk" if usage <= 1 else "out-of-memory"
    return answer | {"usage": usage, "verdict": verdict}


def _parameters(sizes: Sizes) -> Fraction:
    """Parameters of the first stage's rank; norms stand on every rank."""
    hidden, tp, pp = sizes.hidden_size, sizes.tp, sizes.pp
    groups = Fraction(sizes.num_key_value_heads, sizes.num_attention_heads)
    matrices = 2 * hidden**2 * (1 + groups + Fraction(3 * sizes.ffn_hidden_size, 2 * hidden))
    vocabulary = Fraction(hidden * sizes.vocab_size, tp)
    stage = vocabulary + Fraction(sizes.num_layers, pp) * (matrices / tp + 2 * hidden)
    return stage + vocabulary + hidden if pp == 1 else stage


def _activations(sizes: Sizes, form: str) -> Fraction:
    """Bytes that the first stage keeps for backward, with p micro-batches of L / p layers in flight."""
    hidden, pp = sizes.hidden_size, sizes.pp
    tokens = Fraction(sizes.sequence_length * sizes.micro_batch_size, sizes.cp)
    groups = Fraction(sizes.num_key_value_heads, sizes.num_attention_heads)
    split = tokens * hidden / sizes.tp
    layers = split * sizes.num_layers * (12 + 4 * groups + Fraction(8 * sizes.ffn_hidden_size, hidden))
    head = 4 * split * (1 + Fraction(sizes.vocab_size, hidden))
    if form == "literal":
        return layers + 8 * pp * split + head
    return layers + 8 * pp * tokens + (head if pp == 1 else 0)


def _count(value: Fraction, key: str) -> int | float:
    return value.numerator if value.denominator == 1 else as_float(value, key)
