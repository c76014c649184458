"""Products and attention of sizes that are no multiple of what fast kernels load at once."""

from __future__ import annotations

import csv
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.cost.compute.alignment import unaligned_slowdown
from meshwright.cost.compute.attention import (
    backward_over_forward,
    computed_head,
    eager_attention_time,
    fused_attention_time,
    generation_constants,
    measured_widths,
    padding_bytes,
)
from meshwright.cost.compute.elementwise import elementwise_time
from meshwright.cost.compute.ends import head_time
from meshwright.cost.compute.gemm import gemm_time
from meshwright.cost.compute.grouped import grouped_time
from meshwright.cost.compute.layer import layer_time
from meshwright.cost.compute.linear import linear_time
from meshwright.cost.shard import layer_shard
from meshwright.layout.plan import Plan
from meshwright.specs import catalog
from meshwright.specs.reading.accelerator import read_accelerator, read_kernels
from meshwright.specs.runtime.device import PassBytes
from strategies import MEASURED, dense_model, question

DATA = Path(__file__).parents[1] / "data"
ACCELERATORS = {name: read_accelerator(name) for name in (*MEASURED, "v100", "mi300x", "l40s")}
H100, H200 = read_accelerator("h100"), read_accelerator("h200")
PASSES = ("forward", "input_gradient", "weight_gradient")
SIZE = st.integers(1, 40_000)


def _rows(name: str) -> list[dict[str, str]]:
    with (DATA / name).open() as lines:
        return list(csv.DictReader(lines))


def _predicted_over_measured(row: dict[str, str]) -> tuple[float, float]:
    """What the formula says of one measured product over its time, and the slowdown in it."""
    m, n, k = (int(row[size]) for size in ("rows", "outputs", "features"))
    shape = {"forward": (m, n, k), "input_gradient": (m, k, n), "weight_gradient": (n, k, m)}[row["product"]]
    slowdown = float(getattr(unaligned_slowdown(n, k, H100), row["product"]))
    return float(gemm_time(*shape, H100, H100.peak_flops["bf16"], unaligned=slowdown)) / float(row["seconds"]), slowdown


def test_products_take_what_was_measured_on_an_h100() -> None:
    """Every product within 20 %, and the median of each kind within 5 %: aligned, even and odd sizes."""
    ratios = [_predicted_over_measured(row) for row in _rows("unaligned_products.csv")]
    kinds = [[ratio for ratio, slowdown in ratios if low <= slowdown < high] for low, high in ((1, 2), (2, 4), (4, 9))]
    assert [len(kind) for kind in kinds] == [30, 12, 15]
    for kind in kinds:
        assert all(0.8 < ratio < 1.2 for ratio in kind)
        assert median(kind) == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize(
    ("outputs", "features", "measured"),
    [
        (51136, 14336, 255.39),
        (51137, 14336, 76.10),
        (51138, 14336, 136.92),
        (51144, 14336, 226.55),
        (51200, 14281, 71.97),
        (51200, 14274, 171.97),
        (51200, 14280, 258.92),
    ],
)
def test_products_take_what_was_measured_on_an_a100(outputs: int, features: int, measured: float) -> None:
    """TFLOP/s of 8192 rows forward, within 10 %: EleutherAI/cookbook@27dff48d, sizing/results/transformer_data,
    vocab_v_sweep.out and vocab_h_sweep.out (arXiv:2401.14489).
    """
    a100 = read_accelerator("a100")
    slowdown = unaligned_slowdown(outputs, features, a100).forward
    seconds = gemm_time(8192, outputs, features, a100, a100.peak_flops["bf16"], unaligned=slowdown)
    assert 2 * 8192 * outputs * features / seconds / 1e12 == pytest.approx(measured, rel=0.1)


@given(SIZE, SIZE, SIZE, st.sampled_from(sorted(ACCELERATORS)))
def test_padding_to_64_never_takes_longer_than_its_extra_work(rows: int, size: int, other: int, name: str) -> None:
    """Work to the power of 1.1: long products also draw more power, by the derate of the tile form."""
    gpu = ACCELERATORS[name]
    padded = -(-size // 64) * 64

    def seconds(outputs: int, features: int) -> float:
        slowdown = unaligned_slowdown(outputs, features, gpu).forward
        return float(gemm_time(rows, outputs, features, gpu, gpu.peak_flops["fp16"], unaligned=slowdown))

    more = (padded / size) ** 1.1 * (1 + 1e-9)
    assert seconds(padded, other) <= seconds(size, other) * more
    assert seconds(other, padded) <= seconds(other, size) * more


@given(st.integers(1, 20_000), st.integers(1, 20_000), st.sampled_from(sorted(ACCELERATORS)))
def test_no_size_is_faster_than_an_aligned_one(outputs: int, features: int, name: str) -> None:
    gpu = ACCELERATORS[name]
    assert all(slowdown >= 1 for slowdown in unaligned_slowdown(outputs, features, gpu))
    assert unaligned_slowdown(64 * outputs, 64 * features, gpu) == (1, 1, 1)
    assert unaligned_slowdown(outputs + 1024, features + 4096, gpu) == unaligned_slowdown(outputs, features, gpu)


def test_many_sizes_equal_each_alone() -> None:
    outputs, features = np.arange(8192, 8192 + 130), np.arange(4096, 4096 + 130)[::-1]
    together = unaligned_slowdown(outputs, features, H100)
    for row in range(130):
        assert tuple(each[row] for each in together) == unaligned_slowdown(int(outputs[row]), int(features[row]), H100)


def test_scales_beside_the_operands_change_no_alignment() -> None:
    """Blockwise fp8 and mxfp8 have 1.03 bytes an element with their scales, of which no row is a multiple."""
    for precision in ("fp8-blockwise", "mxfp8", "nvfp4"):
        inputs = question(dense_model(), "1x8:b200", precision=precision)
        aligned, odd = (linear_time(8192, size, 4096, inputs).forward for size in (4096, 4097))
        assert odd > 3 * aligned
        slope = linear_time(8192, 8192, 4096, inputs).forward / aligned
        assert 1.5 < slope < 2.5


def test_bytes_count_so_that_fp8_wants_twice_as_many_elements() -> None:
    assert unaligned_slowdown(8200, 4096, H100).forward == 1
    assert unaligned_slowdown(8200, 4096, H100, "fp8").forward > 1
    assert unaligned_slowdown(8208, 4096, H100, "fp8").forward == 1


@pytest.mark.parametrize("name", catalog.names("kernels"))
def test_the_fewer_bytes_divide_a_row_the_longer_it_takes(name: str) -> None:
    tiers = read_kernels(name).unaligned
    assert [tier.bytes for tier in tiers] == sorted((tier.bytes for tier in tiers), reverse=True)
    for fine, coarse in zip(tiers[1:], tiers, strict=False):
        for each in PASSES:
            assert getattr(fine.outputs, each) > getattr(coarse.outputs, each)
            assert getattr(fine.features, each) > getattr(coarse.features, each)


def test_the_vocabulary_of_gpt2_costs_what_its_products_do_on_an_h100() -> None:
    """50257 tokens: 17.31 ms for three products of 4096 rows where 50304 take 2.81 ms in a burst (tests/data).

    The power limit slows aligned products alone, by less than a quarter: the others leave most of the chip idle.
    """
    gpt2, padded = (
        question(dense_model(hidden_size=1600, vocab_size=size), "1x8:h100", "pytorch-ddp", sequence_length=4096)
        for size in (50257, 50304)
    )
    odd, even = (sum(linear_time(4096, size, 1600, gpt2)) for size in (50257, 50304))
    assert odd == pytest.approx(17.31e-3, rel=0.08)
    assert 2.81e-3 < even < 1.25 * 2.81e-3
    slower, faster = (head_time(Plan(dp=8), given) for given in (gpt2, padded))
    assert slower.forward.gemm / faster.forward.gemm > 6
    assert slower.forward.elementwise == pytest.approx(faster.forward.elementwise, rel=1e-3)


def test_a_runtime_that_pads_the_vocabulary_loses_nothing() -> None:
    odd, even = (
        question(dense_model(vocab_size=size), "1x8:h100", "megatron-core", sequence_length=4096)
        for size in (50257, 50304)
    )
    assert head_time(Plan(tp=8), odd) == head_time(Plan(tp=8), even)


def test_sizes_count_as_their_rank_sees_them() -> None:
    """An FFN of 11,000: a multiple of 8 whole and over tp 2 no more; 11,008 is one over both."""
    for runtime in ("megatron-core", "torchtitan"):
        model = dense_model(hidden_size=4096)
        inputs = question(model, "1x8:h100", runtime)
        (kind,) = inputs.model.layer_kinds
        short, long = (kind.replace(feed_forward=kind.feed_forward.replace(ffn_size=size)) for size in (11_000, 11_008))
        whole = [layer_time(Plan(), inputs, each).forward.gemm for each in (short, long)]
        split = [layer_time(Plan(tp=2), inputs, each).forward.gemm for each in (short, long)]
        assert whole[0] < whole[1]
        assert split[0] > 1.3 * split[1]


def test_experts_pay_as_dense_layers_do() -> None:
    inputs = question(dense_model(), "1x8:h100")
    for outputs in (1400, 1404, 1401):
        grouped, plain = (
            [time(8192 * count, size, 4096, *args, inputs).forward for size in (outputs, 1408)]
            for time, count, args in ((grouped_time, 8, (8,)), (linear_time, 1, ()))
        )
        assert grouped[0] / grouped[1] == pytest.approx(plain[0] / plain[1], rel=0.1)
        assert (grouped[0] > 2 * grouped[1]) == (outputs != 1400)


def _attention_seconds(row: dict[str, str]) -> float:
    """What the formulas say of one row of head_sizes.csv."""
    gpu, cudnn = {"h100": H100, "h200": H200}[row["gpu"]], row["kernel"] == "cudnn"
    batch, heads, kv_heads, sequence, head = (
        int(row[name]) for name in ("batch", "heads", "kv_heads", "sequence", "head_dim")
    )
    kernels = generation_constants(gpu.kernels.attention, "newest" if cudnn else "flash-2")
    width, backwards = computed_head(head, kernels.head_multiple), row["pass"] == "backward"
    measured = measured_widths(2 * width, kernels)[backwards]
    seconds = float(fused_attention_time(batch, heads, measured, sequence, None, gpu, gpu.peak_flops["bf16"]))
    seconds *= kernels.slowdown * (backward_over_forward(width, gpu.kernels.attention) if backwards else 1)
    model = dense_model(heads=heads, kv_heads=kv_heads, head_dim=head)
    inputs = question(model, f"1x8:{row['gpu']}", sequence_length=sequence)
    shard = layer_shard(Plan(micro_batch=batch), inputs, inputs.model.layer_kinds[0])
    return seconds + float(elementwise_time(padding_bytes(head, head, shard, gpu), gpu))


def test_heads_of_odd_sizes_are_as_slow_as_measured() -> None:
    """Against heads of the size that is computed in their place, on an H100 and an H200: the median of each kernel and
    size within 20 %, where 80 to 112 elements would come out up to 40 % too fast by their FLOPs.
    """
    ratios: dict[tuple[str, ...], list[float]] = {}
    for row in _rows("head_sizes.csv"):
        case = row["kernel"], row["pass"], row["head_dim"]
        ratios.setdefault(case, []).append(_attention_seconds(row) / float(row["seconds"]))
    assert {head for _, _, head in ratios} == {"64", "80", "96", "104", "108", "112", "128"}
    for (kernel, direction, head), each in ratios.items():
        usual = median(ratios[kernel, direction, "128"])
        assert median(each) / usual == pytest.approx(1, abs=0.2), (kernel, direction, head)


def test_heads_of_64_take_what_was_measured_over_those_of_128() -> None:
    """What the exponentials' widths rest on: within 7 %, in the median of accelerators, sizes and numbers of keys."""
    times: dict[tuple[str, ...], list[float]] = {}
    for row in _rows("head_sizes.csv"):
        if row["head_dim"] in ("64", "128"):
            ratio = _attention_seconds(row) / float(row["seconds"])
            times.setdefault((row["kernel"], row["pass"], row["head_dim"]), []).append(ratio)
    for kernel in ("cudnn", "flash-2"):
        for direction in ("forward", "backward"):
            narrow, usual = (median(times[kernel, direction, head]) for head in ("64", "128"))
            assert narrow / usual == pytest.approx(1, abs=0.07), (kernel, direction)


def test_a_head_that_is_padded_loses_a_tenth_or_more() -> None:
    """FlashAttention 2 at 108 and 112 elements: 0.8 to 0.9 of the rate forward (tests/data/head_sizes.csv)."""
    rates: dict[str, dict[str, float]] = {"measured": {}, "predicted": {}}
    rows = [row for row in _rows("head_sizes.csv") if row["kernel"] == "flash-2" and row["pass"] == "forward"]
    for head in ("108", "112"):
        chosen = [row for row in rows if row["head_dim"] == head]
        rates["measured"][head] = int(head) / sum(float(row["seconds"]) for row in chosen)
        rates["predicted"][head] = int(head) / sum(_attention_seconds(row) for row in chosen)
    measured, predicted = (rates[name]["108"] / rates[name]["112"] for name in ("measured", "predicted"))
    assert 0.75 < measured < 0.9
    assert predicted == pytest.approx(measured, abs=0.06)


def test_eager_scores_pay_for_unaligned_heads() -> None:
    moved = PassBytes(forward=0, backward=0)
    times = [eager_attention_time(1, 32, head, head, 2048, H100, H100.peak_flops["bf16"], moved) for head in (108, 112)]
    assert times[0][0] > 1.5 * times[1][0]
    assert times[0][1] > 1.5 * times[1][1]
