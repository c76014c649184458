"""Power: what running without end, and a lower limit, cost matrix products and attention."""

from __future__ import annotations

import math
from typing import Any

import pytest

from meshwright.cost.compute.gemm import gemm_time
from meshwright.cost.compute.layer import layer_time
from meshwright.cost.compute.slowdown import sustained_attention_slowdown, sustained_slowdown
from meshwright.errors import InvalidSpec
from meshwright.layout.plan import Plan
from meshwright.specs import catalog
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import Job
from meshwright.specs.kernels import NumberFormat
from meshwright.specs.reading.accelerator import read_accelerator
from meshwright.specs.reading.inputs import read_inputs
from meshwright.specs.residuals import without_source
from strategies import llama_70b, question

LLAMA_8B_LAYER = ((8192, 6144, 4096), (8192, 4096, 4096), (8192, 28672, 4096), (8192, 4096, 14336))
"""m, n, k of the products of one layer on 8192 tokens."""


def capped(watts: float | None, name: str = "h100") -> Inputs:
    inputs = question(llama_70b(), f"8x8:{name}")
    return inputs.replace(cluster=inputs.cluster.replace(power_limit_w=watts))


@pytest.mark.parametrize(
    ("name", "shapes", "measured_tflops"),
    [
        ("h100", ((8192, 8192, 8192),), 678.4),
        ("h100", LLAMA_8B_LAYER, 682.8),
        ("h200", ((8192, 8192, 8192),), 669.5),
        ("h200", LLAMA_8B_LAYER, 680.0),
    ],
)
def test_products_without_end_are_as_fast_as_measured(
    name: str, shapes: tuple[tuple[int, int, int], ...], measured_tflops: float
) -> None:
    """PyTorch 2.11, the second half of 12 s at 690 to 700 W, within 2 %."""
    accelerator = read_accelerator(name)
    slowdown = accelerator.kernels.sustained["half"].slowdown
    peak = accelerator.peak_flops["bf16"]
    seconds = sum(gemm_time(*shape, accelerator, peak, sustained=slowdown) for shape in shapes)
    assert sum(2 * m * n * k for m, n, k in shapes) / seconds / 1e12 == pytest.approx(measured_tflops, rel=0.02)


def test_a_lower_limit_costs_what_was_measured_of_a_blackwell() -> None:
    """facebookexperimental/triton, cuBLAS products of 8192^3 in 2 bytes: 1088 TFLOP/s on a B200 at 750 W (PR 854), 1717
    on a GB300 at 1400 W (PR 740).
    """
    full, lower = (sustained_slowdown(capped(watts, "b200"), "half") for watts in (900, 900 * 750 / 1400))
    assert full is not None
    assert lower is not None
    assert lower / full == pytest.approx(1717 / 1088, rel=5e-3)


@pytest.mark.parametrize(("name", "watts", "measured_tflops"), [("b200", 750, 1088), ("gb300", None, 1717)])
def test_products_of_blackwells_are_as_fast_as_measured(name: str, watts: float | None, measured_tflops: float) -> None:
    """cuBLAS, 8192 x 8192 x 8192 in 2 bytes, within 2 %: facebookexperimental/triton PR 854 and PR 740."""
    inputs = capped(watts, name)
    accelerator, sustained = inputs.cluster.accelerator, sustained_slowdown(inputs, "half")
    seconds = gemm_time(8192, 8192, 8192, accelerator, accelerator.peak_flops["bf16"], sustained=sustained)
    assert 2 * 8192**3 / seconds / 1e12 == pytest.approx(measured_tflops, rel=0.02)


def test_8_bit_products_under_their_limits_are_as_fast_as_measured() -> None:
    """FBGEMM PR 4172, within 5 %: B200 at 750 W some 2 and GB200 at 1200 W some 2.8 times as fast as H100, which does
    1125 TFLOP/s in 8192 x 8192 x 8192 (FBGEMM PR 2546).
    """

    def tflops(inputs: Inputs) -> float:
        accelerator, sustained = inputs.cluster.accelerator, sustained_slowdown(inputs, "fp8")
        peak = accelerator.peak_flops["fp8"]
        seconds = gemm_time(8192, 8192, 8192, accelerator, peak, 1.0, "fp8", sustained=sustained)
        return float(2 * 8192**3 / seconds / 1e12)

    capped_b200, gb200 = tflops(capped(750, "b200")), tflops(capped(None, "gb200"))
    assert gb200 / capped_b200 == pytest.approx(1.4, rel=0.05)
    assert capped_b200 == pytest.approx(2 * 1125, rel=0.05)


@pytest.mark.parametrize(
    ("shape", "number_format", "measured_tflops"),
    [
        ((8192, 8192, 8192), "half", 585.2),
        ((65536, 8192, 7168), "half", 575.1),
        ((65536, 3584, 8192), "half", 546.3),
        ((8192, 8192, 8192), "fp8", 1125.5),
        ((65536, 8192, 7168), "fp8", 1082.8),
        ((65536, 3584, 8192), "fp8", 1141.4),
    ],
)
def test_an_h100_at_500_w_is_a_little_slower_without_end_than_in_a_short_benchmark(
    shape: tuple[int, int, int], number_format: NumberFormat, measured_tflops: float
) -> None:
    """FBGEMM PR 2546, H100 at 500 W, bf16 and fp8 by rows; at 700 W an H100 was measured to lose 11 % without end."""
    inputs = capped(500)
    accelerator, sustained = inputs.cluster.accelerator, sustained_slowdown(inputs, number_format)
    peak, element = accelerator.peak_flops["fp8" if number_format == "fp8" else "bf16"], 1 + (number_format == "half")
    m, n, k = shape
    seconds = gemm_time(m, n, k, accelerator, peak, element, number_format, sustained=sustained)
    assert 0.86 < 2 * m * n * k / seconds / 1e12 / measured_tflops < 1


def test_exponents_are_those_of_b100_and_b200_and_of_blackwells_as_measured() -> None:
    accelerators = [read_accelerator(name) for name in catalog.names("accelerators")]
    exponents = {(each.id, each.power.speed_exponent) for each in accelerators if each.power}
    assert len(exponents) > 5
    of_vendor, measured = math.log(1.75 / 2.25) / math.log(0.7), math.log(1717 / 1088) / math.log(1400 / 750)
    for name, exponent in exponents:
        is_blackwell = name.startswith(("b2", "b3", "gb"))
        assert exponent == pytest.approx(measured if is_blackwell else of_vendor, abs=5e-3), name


def test_fewer_watts_never_make_a_layer_faster_and_leave_what_only_moves_bytes() -> None:
    inputs = [capped(watts) for watts in (None, 700, 600, 500, 400)]
    (kind,) = inputs[0].model.layer_kinds
    layers = [layer_time(Plan(tp=8, dp=8), each, kind).forward for each in inputs]
    assert layers[0] == layers[1]
    assert len({layer.elementwise for layer in layers}) == 1
    for fewer in ("gemm", "attention"):
        times = [getattr(layer, fewer) for layer in layers]
        assert times == sorted(times)
        assert times[-1] > times[0]


def test_kernels_of_fewer_flop_a_second_draw_less_power() -> None:
    """FlashAttention-2 runs at half of FlashAttention-3's speed, and is held back by a lower limit alone."""
    newest, older = (sustained_attention_slowdown(capped(500), generation) for generation in (1.0, 1.75))
    assert newest > older == 1.0


def test_a_limit_needs_an_accelerator_whose_speed_under_it_is_known() -> None:
    with pytest.raises(InvalidSpec, match=r"power_limit_w: is 900; h100-sxm-80gb draws 700 W at most"):
        capped(900)
    with pytest.raises(InvalidSpec, match=r"what a power limit costs a100-sxm-80gb is not known"):
        capped(300, "a100")


@pytest.mark.parametrize(
    ("changes", "of_another", "slower"),
    [
        ({}, False, 1.18),
        ({"memory_bytes": "96GB"}, False, 1.18),
        ({"memory_bandwidth": "4000GB/s"}, True, 1.18),
        ({"peak_flops": {"bf16": 148e12}, "multiprocessors": 78}, True, 1.0),
    ],
)
def test_a_card_with_the_kernels_of_another_draws_power_as_it_computes(
    changes: dict[str, Any], of_another: bool, slower: float
) -> None:
    """As H20 is to H100: no published run speaks for it, and a seventh of the products draws a seventh of the power."""
    cluster = {"nodes": 4, "gpus_per_node": 8, "accelerator": {"like": "h100", "id": "own", **changes}}
    inputs = read_inputs("llama-3.1-8b", cluster, Job(sequence_length=4096, global_batch=128))
    assert inputs.cluster.accelerator.of_another is of_another
    assert sustained_slowdown(inputs, "half") == pytest.approx(slower, abs=0.005)
    assert ("on own" in without_source(inputs)) is of_another
