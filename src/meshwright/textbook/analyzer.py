"""The 4D analyzer: parameters, memory, traffic and bubble of one (dp, tp, pp, sp), by hand-sized closed forms."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from meshwright.textbook.allreduce import ring_share
from meshwright.textbook.analyzer_formulas import FORMULAS, PER_STEP, explained
from meshwright.textbook.checks import Checks
from meshwright.textbook.exact import GIGABYTE, as_float, rounded

CONFIGS = {
    "model_config": ("num_layers", "hidden_size", "vocab_size", "seq_len", "micro_batch_size", "num_micro_batches"),
    "parallel_config": ("dp", "tp", "pp", "sp"),
    "hardware_config": ("num_gpus", "memory_per_gpu_gb"),
}
"""The keys of each dictionary."""


class _Configuration(NamedTuple):
    """What is given, validated; every field but the last a whole number of 1 or more."""

    num_layers: int
    hidden_size: int
    vocab_size: int
    seq_len: int
    micro_batch_size: int
    num_micro_batches: int
    dp: int
    tp: int
    pp: int
    sp: int
    num_gpus: int
    memory_per_gpu_gb: float


def analyze_4d_parallelism(
    model_config: Mapping[str, Any],
    parallel_config: Mapping[str, Any],
    hardware_config: Mapping[str, Any],
    explain: bool = False,
) -> dict[str, Any]:
    """Whether a 4D configuration is valid and fits, what it sends, and its pipeline bubble.

    P = 2 V H + 12 L H^2 parameters, A = 2 S B H bytes (one fp16 activation tensor); states 16 P / (tp pp);
    activations 10 A L / (pp tp sp); gradients 2 (dp-1)/dp 2 P / (tp pp); tensor parallel 4 (L/pp) 2 (tp-1)/tp A;
    pipeline 2 m (pp-1)/pp A / tp; sequence parallel 2 (L/pp) (sp-1)/sp A; bubble (pp-1) / (m+pp-1).
    Source: the 4D analyzer's closed forms; 16 bytes per parameter from Rajbhandari et al., arXiv:1910.02054, and the
    bubble from Huang et al., arXiv:1811.06965.

    model_config: `num_layers` L, `hidden_size` H, `vocab_size` V, `seq_len` S (tokens), `micro_batch_size` B
    (sequences), `num_micro_batches` m; parallel_config: the degrees `dp tp pp sp`; hardware_config: `num_gpus` and
    `memory_per_gpu_gb` (1e9 bytes); explain: also return formula, scope and unit beside each number, totals per step
    under names of their own, and the bubble over ideal time.

    Returns eleven keys; GB are 1e9 bytes, rounded once to 4 decimals; `total_params` is exact. Scope: per GPU, and
    `dp_comm_gb` and `pp_comm_gb` per step but `tp_comm_gb` and `sp_comm_gb` per micro-batch, so the four are never to
    be added. Everything is computed also where `valid` is False; layers per stage may be a fraction.
    Raises `InvalidSpec`, a `ValueError`, with every missing, unknown or wrong key; `InvalidInput` for a result beyond
    the largest float.

    >>> model = {"num_layers": 32, "hidden_size": 4096, "vocab_size": 32000}
    >>> model |= {"seq_len": 2048, "micro_batch_size": 1, "num_micro_batches": 8}
    >>> degrees, gpus = {"dp": 2, "tp": 4, "pp": 2, "sp": 1}, {"num_gpus": 16, "memory_per_gpu_gb": 80}
    >>> answer = analyze_4d_parallelism(model, degrees, gpus)
    >>> answer["total_params"], answer["total_memory_per_gpu_gb"], answer["bubble_ratio"]
    (6704594944, 14.0803, 0.1111)
    """
    config = _read(model_config, parallel_config, hardware_config)
    params, size = _parameters(config), _unrounded(config)
    answer: dict[str, Any] = {
        "valid": config.dp * config.tp * config.pp * config.sp == config.num_gpus,
        "total_params": params,
    }
    answer |= {key: rounded(value, key) for key, value in size.items()}
    total = as_float(size["total_memory_per_gpu_gb"], "total_memory_per_gpu_gb")
    answer["fits_in_memory"] = total <= config.memory_per_gpu_gb
    answer = {key: answer[key] for key in FORMULAS}
    if explain:
        factor = {"step": 1, "micro-batch": config.num_micro_batches}
        steps = {name: rounded(size[key] * factor[per], name) for name, (key, per) in PER_STEP.items()}
        over_ideal = rounded(_over_ideal(config.pp, config.num_micro_batches, 1), "bubble_over_ideal")
        answer |= explained(answer, steps, over_ideal)
    return answer


def parameter_estimate(num_layers: int, hidden_size: int, vocab_size: int) -> int:
    """Parameters of a plain transformer: 2 V H + 12 L H^2, exact for any size.

    num_layers: L, layers; hidden_size: H, elements; vocab_size: V, tokens. Returns a count. Scope: the whole model,
    untied embeddings, an FFN of 4 H with two matrices, no norms or biases.
    Source: Narayanan et al., arXiv:2104.04473, section 5.1, without the lower-order terms.

    >>> parameter_estimate(32, 4096, 32000)
    6704594944
    """
    checks = Checks("parameter_estimate")
    layers, hidden = checks.whole("num_layers", num_layers), checks.whole("hidden_size", hidden_size)
    vocabulary = checks.whole("vocab_size", vocab_size)
    checks.done()
    return 2 * vocabulary * hidden + 12 * layers * hidden**2


def bubble_ratio(pp: int, num_micro_batches: int) -> float:
    """Share of a step in which a pipeline stage is idle: (pp - 1) / (m + pp - 1).

    pp: stages; num_micro_batches: m, per step. Returns a share of the step, 4 decimals. Scope: equal stages, no
    communication, one chunk per stage. Source: Huang et al., arXiv:1811.06965, section 2.3.

    >>> bubble_ratio(2, 8)
    0.1111
    """
    checks = Checks("bubble_ratio")
    stages, batches = checks.whole("pp", pp), checks.whole("num_micro_batches", num_micro_batches)
    checks.done()
    return rounded(_of_step(stages, batches), "bubble_ratio")


def bubble_over_ideal(pp: int, num_micro_batches: int, chunks: int = 1) -> float:
    """Idle time over busy time of a pipeline stage: (pp - 1) / (v m).

    pp: stages; num_micro_batches: m, per step; chunks: v, pieces of the model on each stage. Returns idle over busy
    time, 4 decimals. Scope: equal stages, no communication.
    Source: Narayanan et al., arXiv:2104.04473, section 2.2, also named bubble fraction.

    >>> bubble_over_ideal(2, 8), bubble_over_ideal(2, 8, chunks=2)
    (0.125, 0.0625)
    """
    checks = Checks("bubble_over_ideal")
    stages, batches = checks.whole("pp", pp), checks.whole("num_micro_batches", num_micro_batches)
    pieces = checks.whole("chunks", chunks)
    checks.done()
    return rounded(_over_ideal(stages, batches, pieces), "bubble_over_ideal")


def _read(model: Any, parallel: Any, hardware: Any) -> _Configuration:
    checks = Checks("analyze_4d_parallelism")
    read: dict[str, Any] = {}
    for (where, keys), config in zip(CONFIGS.items(), (model, parallel, hardware), strict=True):
        for key, value in checks.keys(where, config, keys).items():
            kind = checks.number if key == "memory_per_gpu_gb" else checks.whole
            read[key] = kind(f"{where}.{key}", value)
    checks.done()
    return _Configuration(**read)


def _parameters(config: _Configuration) -> int:
    return parameter_estimate(config.num_layers, config.hidden_size, config.vocab_size)


def _unrounded(config: _Configuration) -> dict[str, Fraction]:
    """Every GB and share, exact."""
    params = Fraction(_parameters(config), config.tp * config.pp)
    tensor = Fraction(2 * config.seq_len * config.micro_batch_size * config.hidden_size)
    layers = Fraction(config.num_layers, config.pp)
    states, activations = 16 * params, 10 * tensor * layers / (config.tp * config.sp)
    size = {
        "param_memory_per_gpu_gb": states,
        "activation_memory_per_gpu_gb": activations,
        "total_memory_per_gpu_gb": states + activations,
        "dp_comm_gb": ring_share(config.dp) * 2 * params,
        "tp_comm_gb": 4 * layers * ring_share(config.tp) * tensor,
        "pp_comm_gb": 2 * config.num_micro_batches * Fraction(config.pp - 1, config.pp) * tensor / config.tp,
        "sp_comm_gb": 2 * layers * Fraction(config.sp - 1, config.sp) * tensor,
    }
    bubble = _of_step(config.pp, config.num_micro_batches)
    return {key: value / GIGABYTE for key, value in size.items()} | {"bubble_ratio": bubble}


def _of_step(stages: int, batches: int) -> Fraction:
    return Fraction(stages - 1, batches + stages - 1)


def _over_ideal(stages: int, batches: int, chunks: int) -> Fraction:
    return Fraction(stages - 1, chunks * batches)
