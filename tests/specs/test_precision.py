"""Recipes of number formats: complete, sourced, refused where hardware or price is missing."""

from __future__ import annotations

import pytest

from meshwright.errors import InvalidSpec, UnknownName
from meshwright.specs import catalog
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import Job, job_of
from meshwright.specs.precision import read_precision
from meshwright.specs.reading.accelerator import read_accelerator
from strategies import llama_8b, question

PRECISIONS = catalog.names("precisions")
QUANTISED = [name for name in PRECISIONS if name not in ("bf16", "fp16")]


@pytest.mark.parametrize("name", PRECISIONS)
def test_every_recipe_loads_with_sources(name: str) -> None:
    recipe = read_precision(name)
    assert recipe.id == name
    assert recipe.quantises == (name in QUANTISED)
    quantising = {"quantise", "products", "saved", "gathered", "weights", "half"} if recipe.quantises else set()
    quantising |= {"rescales_gradients"} if recipe.rescales_gradients else set()
    quantising |= {"attention"} if recipe.attention else set()
    quantising |= {"least_compute_capability"} if recipe.least_compute_capability else set()
    quantising |= {"marks_expert_rows"} if recipe.marks_expert_rows else set()
    assert recipe.sources.keys() == {"recipe"} | quantising


def test_a_recipe_of_attention_is_one_that_quantises() -> None:
    named = [recipe for name in PRECISIONS if (recipe := read_precision(name).attention)]
    assert named == ["fp8"]
    assert all(read_precision(recipe).quantises for recipe in named)


def test_no_name_means_two_recipes() -> None:
    names = [alias for name in PRECISIONS for alias in (name, *read_precision(name).aliases)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("name", "accelerator", "copies", "quantise", "weights"),
    [
        ("bf16", "h100", 0, 0, 0),
        ("fp8", "h100", 2, 6, 2),
        ("fp8", "b200", 1, 5, 1),
        ("fp8-delayed", "h100", 2, 4, 2),
        ("fp8-delayed", "b200", 1, 3, 1),
        ("fp8-rowwise", "h100", 2, 4, 2),
        ("fp8-blockwise", "h200", 2, 2 + 2 * 1.03125, 2 * 1.03125),
        ("mxfp8", "gb200", 2, 2 + 2 * 1.03125, 2 * 1.03125),
        ("nvfp4", "b300", 2, 4 + 2 * 0.5625, 2 * 0.5625),
    ],
)
def test_bytes_of_an_element(name: str, accelerator: str, copies: int, quantise: float, weights: float) -> None:
    recipe, machine = read_precision(name), read_accelerator(accelerator)
    assert recipe.copies(machine) == copies
    assert recipe.quantise_bytes(machine) == pytest.approx(quantise)
    assert recipe.quantised_bytes(machine) == pytest.approx(weights)


@pytest.mark.parametrize(("name", "apart"), [("mxfp8", 4 + 2 * 1.03125), ("nvfp4", 4 + 2 * 0.5625), ("fp8", 6)])
def test_kernels_apart_read_an_element_each(name: str, apart: float) -> None:
    assert read_precision(name).quantise_bytes(read_accelerator("h100"), apart=True) == pytest.approx(apart)


@pytest.mark.parametrize(
    ("name", "runtime", "apart"),
    [("mxfp8", "torchtitan", True), ("mxfp8", "megatron-core", False), ("fp8", "accelerate", False)],
)
def test_torchao_quantises_rows_and_columns_apart_where_each_has_scales_of_its_own(
    name: str, runtime: str, apart: bool
) -> None:
    asked = question(llama_8b(), "1x8:b200", runtime, precision=name)
    assert asked.quantises_apart == apart
    assert asked.quantise_bytes == asked.recipe.quantise_bytes(asked.cluster.accelerator, apart=apart)


def test_bytes_of_saved_inputs() -> None:
    assert [read_precision(name).saved_bytes for name in ("bf16", "fp8", "mxfp8", "nvfp4")] == [2, 1, 1.03125, 0.5625]


@pytest.mark.parametrize(("written", "name"), [("FP8", "fp8"), ("tensorwise", "fp8"), ("delayed", "fp8-delayed")])
def test_a_job_is_asked_for_by_any_name(written: str, name: str) -> None:
    assert job_of(4096, 8, precision=written).precision == name


def test_an_unknown_precision_names_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r"unknown precision 'mxfp9'; nearest: mxfp8"):
        job_of(4096, 8, precision="mxfp9")


@pytest.mark.parametrize(
    ("name", "cluster", "says"),
    [
        ("fp8", "1x8:a100", "has no fp8 matrix units; use bf16 or fp16"),
        ("mxfp8", "1x8:h100", "has no mxfp8 matrix units; use bf16, fp16, fp8, fp8-delayed or fp8-blockwise"),
        ("nvfp4", "1x8:h200", "has no nvfp4 matrix units"),
        ("mxfp8", "1x8:mi355x", "mxfp8 is not priced on mi355x, whose peak in it is not in the catalogue"),
        ("nvfp4", "1x4:rtx-pro-6000", "nvfp4 is not priced on rtx-pro-6000-96gb"),
        ("bf16", "1x8:v100", "has no bf16 matrix units; use fp16"),
        (
            "fp8-blockwise",
            "1x8:l40s",
            r"needs compute capability 9 or more, and l40s has 8\.9; use bf16, fp16, fp8 or fp8-delayed$",
        ),
    ],
)
def test_a_recipe_without_units_is_refused_with_what_there_is(name: str, cluster: str, says: str) -> None:
    with pytest.raises(InvalidSpec, match=says):
        question(llama_8b(), cluster, precision=name)


def test_a_recipe_without_kernel_constants_is_refused() -> None:
    inputs = question(llama_8b(), "1x8:h100")
    kernels = inputs.cluster.accelerator.kernels.replace(low_precision={})
    cluster = inputs.cluster.replace(accelerator=inputs.cluster.accelerator.replace(kernels=kernels))
    with pytest.raises(InvalidSpec, match="kernels 'h100' hold no constants of fp8 products; use bf16"):
        inputs.replace(cluster=cluster, job=inputs.job.replace(precision="fp8"))


def test_a_question_knows_its_recipe_and_both_peaks() -> None:
    inputs = question(llama_8b(), "1x8:h100", precision="bf16")
    assert isinstance(inputs, Inputs)
    assert inputs.recipe == read_precision("bf16")
    assert inputs.peak_flops == inputs.half_peak_flops == 989.4e12


@pytest.mark.parametrize(
    "wrong", [{"peak": "bf16"}, {"quantise_reads": 0}, {"number_format": "half"}, {"operand_bytes": 3}]
)
def test_a_recipe_that_contradicts_itself_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidSpec, match="the precision recipe"):
        read_precision("fp8").replace(**wrong)


@pytest.mark.parametrize("name", ["b200", "b300", "gb200", "gb300"])
def test_blackwell_has_scaled_units_and_needs_no_transposed_fp8(name: str) -> None:
    accelerator = read_accelerator(name)
    peaks = accelerator.peak_flops
    assert peaks["fp8"] == peaks["mxfp8"] == 2 * peaks["bf16"]
    assert peaks["nvfp4"] >= 2 * peaks["fp8"]
    assert accelerator.reads_fp8_by_columns


@pytest.mark.parametrize("name", catalog.names("accelerators"))
def test_accelerators_with_fp8_units_have_constants_with_a_source(name: str) -> None:
    accelerator = read_accelerator(name)
    kernels = accelerator.kernels
    assert ("fp8" in kernels.low_precision) == ("fp8" in accelerator.peak_flops)
    assert ("fp4" in kernels.low_precision) == ("nvfp4" in accelerator.peak_flops)
    assert all(f"gemm_{number_format}" in kernels.sources for number_format in kernels.low_precision)
    assert kernels.products("half") == kernels.gemm


def test_a_job_in_a_file_names_its_recipe() -> None:
    with pytest.raises(InvalidSpec, match="mxfp8"):
        Job(sequence_length=1, global_batch=1, precision="fp16 ")


@pytest.mark.parametrize(
    ("precision", "stored", "gathered", "optimizer"),
    [("bf16", False, 2, 10), ("fp8", True, 1, 12), ("mxfp8", True, 2, 12), ("nvfp4", False, 2, 12)],
)
def test_a_runtime_says_which_recipes_store_quantised_weights(
    precision: str, stored: bool, gathered: float, optimizer: int
) -> None:
    given = question(llama_8b(), "1x8:b200", precision=precision, gradients="half")
    recipes = {"quantised_weights": ("fp8", "mxfp8"), "remainder_weights": ("bf16", "fp8")}
    changed = given.replace(runtime=given.runtime.replace(**recipes))
    assert (changed.stores_quantised, changed.gathered_bytes, changed.optimizer_bytes) == (stored, gathered, optimizer)
    assert (given.stores_quantised, given.gathered_bytes, given.optimizer_bytes) == (False, 2, 12)
