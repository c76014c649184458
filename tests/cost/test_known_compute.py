"""Known answers of compute: the published forms, written down a second time for one shape at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.cost.compute.attention import (
    AttentionGeneration,
    attended_pairs,
    backward_over_forward,
    computed_pairs,
    fused_attention_time,
    generation_constants,
    measured_widths,
)
from meshwright.cost.compute.ends import embedding_time, head_time
from meshwright.cost.compute.gemm import gemm_time
from meshwright.cost.compute.layer import layer_time
from meshwright.cost.compute.optimizer import optimizer_time
from meshwright.cost.compute.slowdown import slowdown, sustained_slowdown
from meshwright.cost.flops import model_flops_per_step
from meshwright.layout.plan import Plan
from meshwright.specs.choices import Recompute
from meshwright.specs.cluster import Accelerator
from meshwright.specs.reading.accelerator import read_accelerator
from meshwright.specs.varied import varied_inputs
from meshwright.specs.weights import model_weights
from strategies import MEASURED, alternating, dense_model, gpt_like, llama_70b, mixture, question

ACCELERATORS = {name: read_accelerator(name) for name in (*MEASURED, "v100", "mi300x", "l40s")}
TILES = "128x256 256x128 256x256 128x128 64x256 256x64 128x64 64x128 128x192 192x128"
SIZE = st.integers(1, 40_000)


def _product_seconds(m: int, n: int, k: int, gpu: Accelerator, peak: float, sustained: float | None = None) -> float:
    """The GEMM forms for one shape, in plain Python."""
    gemm = gpu.kernels.gemm
    flop, bandwidth = 2 * m * n * k, gpu.memory_bandwidth * gemm.memory_efficiency
    memory = 2 * (m * k + k * n + m * n) / bandwidth
    if gemm.tile is None:
        compute = flop / (gemm.efficiency * peak)
    else:
        shapes = [tuple(map(int, tile.split("x"))) for tile in TILES.split()]
        tried = [_tile_seconds(m, n, k, tile, split, gpu, peak) for tile in shapes for split in (1, 2, 4)]
        compute = min(tried)
        compute *= 1 if sustained else 1 + gemm.tile.power_derate * math.tanh(flop / 2e12)
    compute *= sustained or 1
    return gemm.launch_s + (compute**4 + memory**4) ** 0.25


def _tile_seconds(m: int, n: int, k: int, tile: tuple[int, ...], split: int, gpu: Accelerator, peak: float) -> float:
    gemm, (bm, bn) = gpu.kernels.gemm, tile
    constants = gemm.tile
    a, a0 = bm * bn / (bm + bn), 128 * 256 / 384
    efficiency = min(1, gemm.efficiency * (1 + constants.tile_size / a0) / (1 + constants.tile_size / a))
    load = math.ceil(m / bm) * math.ceil(n / bn) * split / gpu.multiprocessors
    waves = constants.wave_quantisation * math.ceil(load) + (1 - constants.wave_quantisation) * max(load, 1)
    seconds = waves * 2 * bm * bn * (k / split + constants.prologue_k) / (peak / gpu.multiprocessors * efficiency)
    if split > 1:
        seconds += split * m * n * 8 / (gpu.memory_bandwidth * gemm.memory_efficiency)
    return seconds


@given(SIZE, SIZE, SIZE, st.sampled_from(sorted(ACCELERATORS)), st.none() | st.floats(1, 2))
def test_a_matrix_product_takes_what_the_published_form_says(
    m: int, n: int, k: int, name: str, sustained: float | None
) -> None:
    gpu = ACCELERATORS[name]
    peak = gpu.peak_flops["fp16"]
    expected = _product_seconds(m, n, k, gpu, peak, sustained)
    assert gemm_time(m, n, k, gpu, peak, sustained=sustained) == pytest.approx(expected, rel=1e-12)


def test_the_catalogue_has_products_of_both_forms() -> None:
    assert {gpu.kernels.gemm.tile is None for gpu in ACCELERATORS.values()} == {True, False}


@given(st.integers(1, 8), st.integers(1, 128), st.integers(1, 131_072), st.sampled_from(sorted(ACCELERATORS)))
def test_fused_attention_takes_what_the_published_form_says(batch: int, heads: int, sequence: int, name: str) -> None:
    gpu = ACCELERATORS[name]
    fit, peak, width = gpu.kernels.attention, gpu.peak_flops["fp16"], 128
    tiles = batch * heads * math.ceil(sequence / 128)
    flop = 2 * batch * heads * width * sequence**2
    expected = flop / (fit.efficiency * peak) * (1 + fit.half_sequence / sequence)
    expected = fit.launch_s + expected * (1 + fit.occupancy * gpu.multiprocessors / tiles)
    found = fused_attention_time(batch, heads, 2 * width, sequence, None, gpu, peak)
    assert found == pytest.approx(expected, rel=1e-12)


def _kernels(**changes: float) -> AttentionGeneration:
    return generation_constants(ACCELERATORS["h100"].kernels.attention, "newest")._replace(**changes)


@pytest.mark.parametrize(
    ("wide", "usual"), [(971.1, 1208.6), (722.9, 935.5), (684.6, 820.6), (123.9, 156.8), (121.7, 150.7)]
)
def test_backward_of_latent_attention_takes_what_was_measured(wide: float, usual: float) -> None:
    """TFLOP/s of heads of 192 and 128 and of 128 and 128, backward and causal, within 9 %: FlashAttention-4 on B200
    (Dao-AILab/flash-attention pull requests 2270 and 2280), B200 and A100 (MooreThreads/SimuMax@4dcaae51, twice each).
    """
    constants = ACCELERATORS["h100"].kernels.attention
    _, backward = measured_widths(192 + 128, _kernels())
    found = backward * backward_over_forward(192, constants) / (256 * backward_over_forward(128, constants))
    assert found == pytest.approx(320 / 256 * usual / wide, rel=0.09)


@given(st.integers(2, 512), st.floats(0, 1000))
def test_a_head_takes_longer_the_wider_it_is(width: int, softmax_width: float) -> None:
    kernels = _kernels(softmax_width=softmax_width, softmax_backward=0.4)
    narrower, wider = measured_widths(width - 1, kernels), measured_widths(width, kernels)
    assert all(0 < less < more for less, more in zip(narrower, wider, strict=True))
    assert wider[0] >= wider[1] >= width - 1e-9


@given(st.integers(1, 5000), st.integers(1, 6000))
def test_a_window_computes_whole_tiles(sequence: int, window: int) -> None:
    attended, computed = attended_pairs(sequence, window), computed_pairs(sequence, window)
    assert attended <= computed <= attended_pairs(sequence, window + 64) + 64**2


@given(st.integers(1, 3000), st.integers(1, 4000))
def test_attended_pairs_are_those_of_the_mask_to_leading_order(sequence: int, window: int) -> None:
    counted = sum(min(query, window) for query in range(1, sequence + 1))
    assert counted - attended_pairs(sequence, window) == pytest.approx(min(window, sequence) / 2)


@given(st.integers(1, 5000))
def test_a_window_of_the_whole_sequence_changes_nothing(sequence: int) -> None:
    gpu = ACCELERATORS["h100"]
    times = [fused_attention_time(1, 8, 256, sequence, window, gpu, 1e15) for window in (None, sequence, 2 * sequence)]
    assert times[0] == times[1] == times[2]


def test_a_layers_compute_is_its_four_linear_layers_and_its_attention() -> None:
    inputs = question(llama_70b(), "8x8:h100", sequence_length=8192)
    (kind,) = inputs.model.layer_kinds
    gpu, peak = inputs.cluster.accelerator, inputs.peak_flops
    tokens, shapes = 8192, [(1280, 8192), (8192, 1024), (7168, 8192), (8192, 3584)]
    layer = layer_time(Plan(tp=8, sp=True), inputs, kind)
    kernels = gpu, peak, sustained_slowdown(inputs, "half")
    forward = sum(_product_seconds(tokens, out, into, *kernels) for out, into in shapes)
    gradients = sum(_product_seconds(tokens, into, out, *kernels) for out, into in shapes)
    gradients += 1.05 * sum(_product_seconds(out, into, tokens, *kernels) for out, into in shapes)
    attention = fused_attention_time(1, 8, 256, 8192, None, gpu, peak)
    slow = slowdown(inputs)
    assert slow > 1
    assert layer.forward.gemm == pytest.approx(slow * forward, rel=1e-12)
    assert layer.backward.gemm == pytest.approx(slow * gradients, rel=1e-12)
    attention *= slow
    assert (layer.forward.attention, layer.backward.attention) == pytest.approx((attention, 2.9 * attention))


def test_recomputation_runs_the_forward_pass_or_the_attention_core_again() -> None:
    inputs = question(llama_70b(), "8x8:h100")
    (kind,) = inputs.model.layer_kinds
    none, selective, full = (layer_time(Plan(recompute=each), inputs, kind) for each in Recompute)
    assert none.recompute.total == 0
    assert selective.recompute.total == selective.recompute.attention == none.forward.attention
    assert full.recompute == full.forward == none.forward


def test_a_site_derate_stretches_every_kernel() -> None:
    inputs = question(llama_70b(), "8x8:h100")
    slow = inputs.replace(cluster=inputs.cluster.replace(site_derate=1.25))
    plan, (kind,) = Plan(tp=8, zero=1, dp=8), inputs.model.layer_kinds
    for price in (embedding_time, head_time):
        np.testing.assert_allclose(price(plan, slow).backward, np.multiply(1.25, price(plan, inputs).backward))
    layers = [layer_time(plan, each, kind) for each in (slow, inputs)]
    for part in ("forward", "backward", "recompute", "weight_gradient", "columns"):
        one, other = (getattr(layer, part) for layer in layers)
        np.testing.assert_allclose(one, np.multiply(1.25, other))
    assert optimizer_time(plan, slow, 1e9) == pytest.approx(1.25 * optimizer_time(plan, inputs, 1e9))


def test_optimizer_traffic_of_fp32_gradients_is_34_bytes_owned_and_4_bytes_cleared() -> None:
    inputs = question(llama_70b(), "8x8:h100", precision="bf16")
    rate = 0.8 * 3350e9 / slowdown(inputs)
    assert optimizer_time(Plan(dp=8), inputs, 1e9) == pytest.approx(38e9 / rate)
    assert optimizer_time(Plan(dp=8, zero=1), inputs, 1e9) == pytest.approx((34e9 / 8 + 4e9) / rate)


def test_model_flops_follow_narayanan_equation_3_with_causal_attention_counted_half() -> None:
    layers, heads, vocabulary, sequence, batch = 24, 16, 51200, 2048, 512
    model = dense_model(
        heads=heads, kv_heads=heads, ffn_size=4 * heads * 128, gated=False, layers=layers, vocab_size=vocabulary
    )
    hidden = heads * 128
    inputs = question(model, "8x8:h100", sequence_length=sequence, global_batch=batch)
    parts = 1 + sequence / (12 * hidden) + vocabulary / (12 * layers * hidden)
    expected = 72 * batch * sequence * layers * hidden**2 * parts
    assert model_flops_per_step(inputs) == pytest.approx(expected, rel=1e-12)


def test_model_flops_of_a_windowed_layer_count_only_what_it_sees() -> None:
    whole = question(dense_model(), "8x8:h100", sequence_length=8192)
    windowed = whole.replace(model=alternating(whole.model, 1024))
    saved = model_flops_per_step(whole) - model_flops_per_step(windowed)
    fewer_pairs = 8192**2 / 2 - (8192 * 1024 - 1024**2 / 2)
    assert saved == pytest.approx(12 * 6 * 16 * 256 * fewer_pairs * whole.job.global_batch, rel=1e-12)


def test_model_flops_of_a_tied_head_count_its_product_and_no_look_up() -> None:
    tied = question(gpt_like(), "8x8:h100")
    untied = tied.replace(model=tied.model.replace(tied_embeddings=False))
    assert model_flops_per_step(tied) == pytest.approx(model_flops_per_step(untied), rel=1e-12)


def test_pytorch_attends_more_slowly_on_amd_than_transformer_engine() -> None:
    """AMD's account of MI325X, both passes together: PyTorch's kernels take 3.46 times as long as AITER's."""
    times = {}
    for runtime in ("megatron-core", "torchtitan", "accelerate"):
        inputs = question(llama_70b(), "1x8:mi325x", runtime)
        (kind,) = inputs.model.layer_kinds
        times[runtime] = float(layer_time(Plan(dp=8), inputs, kind).forward.attention) / slowdown(inputs)
    assert times["torchtitan"] == pytest.approx(3.46 * times["megatron-core"], rel=0.02)
    assert times["accelerate"] == pytest.approx(times["torchtitan"], rel=0.02)


def test_model_flops_leave_out_tokens_that_experts_are_sure_to_drop() -> None:
    """Of a capacity of 1 or more nothing is known to be dropped."""
    usual = question(mixture(), "8x8:h100", expert_imbalance=None)
    flops = {
        capacity: model_flops_per_step(varied_inputs(usual, expert_capacity=capacity)) for capacity in (0.25, 0.5, 1, 2)
    }
    experts = sum(6 * count * (each.active or 0) for count, each in model_weights(usual.model))
    assert flops[1] == flops[2] == model_flops_per_step(usual)
    for capacity in (0.25, 0.5):
        dropped = (1 - capacity) * experts * usual.job.tokens_per_step
        assert flops[1] - flops[capacity] == pytest.approx(dropped, rel=1e-9)
