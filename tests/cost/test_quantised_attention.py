"""Attention with 8-bit operands."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.cost.compute.elementwise import elementwise_time
from meshwright.cost.compute.layer import layer_time
from meshwright.cost.compute.slowdown import slowdown
from meshwright.cost.shard import layer_shard
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.inputs import Inputs
from meshwright.specs.reading.model import read_model
from strategies import question


def _seconds(model: str, cluster: str, *changes: str, precision: str = "mxfp8") -> tuple[float, float]:
    """Of the attention core in both passes, without what quantises."""
    inputs = question(read_model(model), cluster, "megatron-bridge", precision=precision, global_batch=8)
    inputs = inputs.replace(runtime=with_behaviours(inputs.runtime, changes))
    kind = inputs.model.layer_kinds[-1]
    time = layer_time(Plan(), inputs, kind)
    ahead = _quantising(inputs) if changes and inputs.recipe.quantises else (0.0, 0.0)
    return float(time.forward.attention) - ahead[0], float(time.backward.attention) - ahead[1]


def _quantising(inputs: Inputs) -> tuple[float, float]:
    """Queries, keys and values forward, the output's gradient backward: what one element of each moves."""
    shard = layer_shard(Plan(), inputs, inputs.model.layer_kinds[-1])
    tokens, slower = inputs.quantise_bytes * shard.tokens, slowdown(inputs)
    read = shard.query + shard.key + shard.value, shard.core
    forward, backward = (slower * elementwise_time(tokens * width, inputs.cluster.accelerator) for width in read)
    return float(forward), float(backward)


@pytest.mark.parametrize(
    ("model", "precision", "measured"),
    [
        ("deepseek-v3", "mxfp8", ((0.548, 2.328), (0.813, 3.115))),
        ("deepseek-v3", "fp8", ((0.487, 1.787), (0.813, 3.115))),
        ("qwen3-235b-a22b", "mxfp8", ((0.247, 1.216), (0.302, 1.089))),
        ("qwen3-235b-a22b", "fp8", ((0.220, 0.993), (0.302, 1.089))),
    ],
)
def test_gb300_gains_what_cudnn_measured(
    model: str, precision: str, measured: tuple[tuple[float, float], tuple[float, float]]
) -> None:
    """Causal, two sequences of 4096 tokens, milliseconds: heads of 192 and 128 (dsv3) and of 128 (llama3.1), from
    NVIDIA/cudnn-frontend, benchmark/sdpa_benchmark_training/results of 2026-05-29, GB300, cuDNN 9.23."""
    eight = _seconds(model, "1x4:gb300", "quantised_attention=true", precision=precision)
    whole = _seconds(model, "1x4:gb300", precision=precision)
    for ours, both, short, long in zip(eight, whole, *measured, strict=True):
        assert ours / both == pytest.approx(short / long, rel=0.06)


def test_attention_beside_nvfp4_products_has_operands_in_fp8() -> None:
    """MLPerf Training v5.1, llama31_8b: `NVTE_DPA_FP8_RECIPE="Float8CurrentScaling"` beside nvfp4."""
    gains = [
        np.divide(
            _seconds("llama-3.1-8b", "1x4:gb300", "quantised_attention=true", precision=precision),
            _seconds("llama-3.1-8b", "1x4:gb300", precision=precision),
        )
        for precision in ("nvfp4", "fp8")
    ]
    assert gains[0] == pytest.approx(gains[1], rel=0.03)
    assert (gains[0] < 0.95).all()


def test_it_gains_nothing_where_nobody_measured_it() -> None:
    alone = _seconds("deepseek-v3", "1x8:h100", precision="fp8")
    assert _seconds("deepseek-v3", "1x8:h100", "quantised_attention=true", precision="fp8") == pytest.approx(alone)


def test_half_precision_has_no_such_operands() -> None:
    alone = _seconds("deepseek-v3", "1x4:gb300", precision="bf16")
    assert _seconds("deepseek-v3", "1x4:gb300", "quantised_attention=true", precision="bf16") == alone
