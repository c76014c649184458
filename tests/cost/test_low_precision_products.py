"""Products of fp8 and nvfp4 operands: against measured shapes, and against the same products in bf16."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from meshwright.cost.compute.elementwise import moved_bytes
from meshwright.cost.compute.gemm import gemm_time
from meshwright.cost.compute.linear import projections
from meshwright.cost.shard import layer_shard
from meshwright.layout.plan import Plan
from meshwright.specs.inputs import Inputs
from meshwright.specs.kernels import NumberFormat
from meshwright.specs.precision import read_precision
from meshwright.specs.reading.accelerator import read_accelerator
from strategies import llama_8b, question

SAMPLE = Path(__file__).parents[1] / "data" / "low_precision_products.csv"
RECIPES: dict[NumberFormat, str] = {"fp8": "fp8", "fp4": "nvfp4"}
FP8 = (
    "h100",
    "h200",
    "b200",
    "gb200",
    "b300",
    "gb300",
    "l40s",
    "rtx-pro-6000",
    "h100-64gb",
    "h100-96gb",
    "h100-pcie",
    "mi300x",
)
FP4 = ("b200", "gb200", "b300", "gb300")
LARGE = np.array([4096, 8192, 16384, 32768])


def _time(m: np.ndarray, n: np.ndarray, k: np.ndarray, name: str, number_format: NumberFormat) -> np.ndarray:
    accelerator, recipe = read_accelerator(name), read_precision(RECIPES.get(number_format, "bf16"))
    peak = accelerator.peak_flops[recipe.peak]
    return gemm_time(m, n, k, accelerator, peak, recipe.operand_bytes, number_format)


def _large() -> list[np.ndarray]:
    return [axis.ravel() for axis in np.meshgrid(LARGE, LARGE, LARGE)]


def _sample() -> dict[tuple[str, NumberFormat], np.ndarray]:
    """Per accelerator and format: m, n, k and the seconds of the product without its quantisation."""
    found: dict[tuple[str, NumberFormat], list[list[float]]] = {}
    with SAMPLE.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            seconds = (float(row["measured_us"]) - float(row["quantising_us"])) * 1e-6
            shape = [float(row[axis]) for axis in "mnk"]
            found.setdefault((row["accelerator"], row["number_format"]), []).append([*shape, seconds])
    return {key: np.array(rows).T for key, rows in found.items()}


@pytest.mark.parametrize(("name", "number_format"), _sample())
def test_measured_products_take_what_the_fit_says(name: str, number_format: NumberFormat) -> None:
    m, n, k, seconds = _sample()[name, number_format]
    error = np.abs(_time(m, n, k, name, number_format) / seconds - 1)
    assert len(error) >= 8
    assert np.median(error) < 0.12
    assert error.max() < 0.35


@pytest.mark.parametrize(
    ("number_format", "least", "most"), [("half", 11.6, 12.835), ("fp8", 5.5, 6.830), ("fp4", 3.50, 3.90)]
)
def test_the_products_of_a_layer_on_b300_take_what_transformer_engine_prints(
    number_format: NumberFormat, least: float, most: float
) -> None:
    # TransformerEngine, GEMM profiling, operands quantised before: bf16 12.835 ms (12.227 in its other run), blockwise
    # fp8 6.830, MXFP8 7.324, NVFP4 3.754. Products with one scale per tensor are faster than with blocks of them.
    tokens, hidden, ffn = 15872, 4096, 16384
    layers = [(3 * hidden, hidden), (hidden, hidden), (ffn, hidden), (hidden, ffn)]
    shapes = [
        shape for out, into in layers for shape in ((tokens, out, into), (tokens, into, out), (into, out, tokens))
    ]
    time = _time(*np.array(shapes).T, "b300", number_format)
    assert least < 1e3 * time.sum() < most


@pytest.mark.parametrize("name", FP8)
def test_large_products_are_never_slower_in_fp8(name: str) -> None:
    ratio = _time(*_large(), name, "half") / _time(*_large(), name, "fp8")
    assert (ratio > 1.2).all()
    assert (ratio < 2.6).all()


@pytest.mark.parametrize("name", FP4)
def test_large_products_are_never_slower_in_nvfp4(name: str) -> None:
    assert (_time(*_large(), name, "fp8") > _time(*_large(), name, "fp4")).all()


@pytest.mark.parametrize(
    ("name", "number_format"), [*((name, "fp8") for name in FP8), *((name, "fp4") for name in FP4)]
)
def test_low_precision_products_obey_the_peak_and_grow(name: str, number_format: NumberFormat) -> None:
    sizes = np.array([64, 256, 512, 1024, 2048, 8192, 16384])
    m, n, k = (axis.ravel() for axis in np.meshgrid(sizes, sizes, sizes))
    time = _time(m, n, k, name, number_format)
    peak = read_accelerator(name).peak_flops[read_precision(RECIPES[number_format]).peak]
    assert (time >= 2.0 * m * n * k / peak).all()
    for larger in ((2 * m, n, k), (m, 2 * n, k), (m, n, 2 * k)):
        assert (_time(*larger, name, number_format) >= time).all()


def test_a_product_bound_by_memory_reads_operands_of_their_size_and_writes_two_bytes() -> None:
    machine, thin = read_accelerator("mi300x"), (1, 100_000, 100_000)
    gemm = machine.kernels.low_precision["fp8"]
    rate = gemm.memory_efficiency * machine.memory_bandwidth
    half, quarter = (gemm_time(*thin, machine, 1e30, size, "fp8") - gemm.launch_s for size in (1.0, 0.5))
    assert half == pytest.approx((1e10 + 1e5 + 2e5) / rate)
    assert quarter == pytest.approx((0.5 * (1e10 + 1e5) + 2e5) / rate)


def test_products_by_rows_rescale_both_gradients_in_backward(monkeypatch: pytest.MonkeyPatch) -> None:
    """torchao multiplies what a product without fast accumulation puts out: 4 bytes an element of the gradients of
    inputs (q, k, v and output, gate, up and down) and of weights, one kernel a product (pytorch/ao issue 2184).
    """
    inputs = question(llama_8b(), "1x8:h100", "torchtitan@0.1.0", sequence_length=8192, precision="fp8-rowwise")
    (kind,), tokens = inputs.model.layer_kinds, 8192
    shard = layer_shard(Plan(), inputs, kind)
    scaled = moved_bytes(Plan(), inputs, kind, shard, projections(inputs, kind, shard))
    recipe = inputs.recipe.replace(rescales_gradients=False)
    monkeypatch.setattr(Inputs, "recipe", recipe)
    plain = moved_bytes(Plan(), inputs.replace(), kind, shard, projections(inputs, kind, shard))
    weights = 4096 * (4096 + 2 * 1024 + 4096 + 3 * 14336)
    more = [float(scaled[part].backward - plain[part].backward) for part in range(2)]
    assert sum(more) == 4 * (tokens * (4 * 4096 + 2 * 4096 + 14336) + weights)
    assert scaled.attention.forward == plain.attention.forward
