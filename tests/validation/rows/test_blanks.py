"""Blanks: what is assumed for each, and that it is said."""

from __future__ import annotations

import pytest

from meshwright.errors import NotModelled
from meshwright.validation.rows.blanks import REQUIRED, fill_blanks
from meshwright.validation.rows.reading import MICRO_BATCHES, read_case
from tables import llama, outcome_of_row

NO_DEFAULT = sorted(set(REQUIRED) - {"num_gpus"})


def test_a_row_without_blanks_assumes_nothing_of_its_layout() -> None:
    _, assumed = fill_blanks(llama(sp="True", zero_stage="1", cp="1", ep="1", vpp="1"))
    assert assumed == ("attention by the runtime's own kernels",)


@pytest.mark.parametrize("column", NO_DEFAULT)
def test_a_blank_without_a_default_is_refused_with_a_reason_of_its_own(column: str) -> None:
    with pytest.raises(NotModelled, match=REQUIRED[column]):
        fill_blanks(llama(model="Foo-7B") | {column: ""})


def test_accelerators_are_counted_from_the_degrees_where_only_these_are_printed() -> None:
    row, assumed = fill_blanks(llama(num_gpus="", tp="2", pp="2", dp="4"))
    assert row["num_gpus"] == "16"
    assert "the product of the degrees as the number of accelerators" in assumed
    with pytest.raises(NotModelled, match="neither the number of accelerators nor the degrees"):
        fill_blanks(llama(num_gpus="", dp=""))


def test_accelerators_that_no_axis_takes_are_data_parallel() -> None:
    row, assumed = fill_blanks(llama(dp="", num_gpus="64", pp="4"))
    assert row["dp"] == "8"
    assert "data parallelism over all accelerators that the other axes leave" in assumed


@pytest.mark.parametrize("model", ["mixtral-8x7b", "deepseek-v3", "llama-3.1-8b", "Foo-8x7B"])
def test_no_width_of_a_feed_forward_is_assumed_where_the_catalogue_or_the_experts_have_it(model: str) -> None:
    sizes = dict.fromkeys(("layers", "hidden", "ffn_hidden", "heads", "kv_heads", "vocab", "params_b"), "")
    own = {"layers": "32", "hidden": "4096", "heads": "32", "moe_experts": "8", "moe_topk": "2", "moe_ffn": "14336"}
    row = llama(model=model, micro_batch_size="1", **sizes | (own if model.startswith("Foo") else {}))
    assert "FFN size" not in "; ".join(read_case(row).assumed)
    assert "an FFN size of four times the hidden size" in fill_blanks(llama(model="Foo", ffn_hidden=""))[1]


def test_a_blank_schedule_follows_the_chunks() -> None:
    schedules = [fill_blanks(llama(pp="2", vpp=chunks))[0]["schedule"] for chunks in ("1", "2")]
    assert schedules == ["1f1b", "interleaved"]
    for schedule in ("interleaved", "zb-v", "v-half"):
        assert fill_blanks(llama(pp="2", schedule=schedule))[0]["vpp"] == "2"


def test_a_blank_micro_batch_is_the_fastest_that_fits() -> None:
    case = read_case(llama(micro_batch_size="", recompute="full"))
    assert f"micro-batches of {case.plan.micro_batch}, the fastest that fits" in case.assumed
    local = 32 // 4
    sizes = [str(size) for size in MICRO_BATCHES if local % size == 0]
    each = [outcome_of_row(llama(micro_batch_size=size, recompute="full")) for size in sizes]
    fitting = [one.estimate for one in each if one.estimate and one.estimate.verdict.fits]
    assert len({one.step_time_s for one in fitting}) > 1
    assert case.plan == min(fitting, key=lambda one: one.step_time_s).plan


def test_a_run_on_an_unnamed_accelerator_has_memory_and_no_step_time() -> None:
    outcome = outcome_of_row(llama(gpu=""))
    assert outcome.step_time is None
    assert outcome.memory
    assert outcome.case
    assert any("as none is named; its step time is not scored" in said for said in outcome.case.assumed)


@pytest.mark.parametrize(("layers", "counted"), [("126", True), ("128", False), ("125", False)])
def test_ends_count_as_layers_where_chunks_are_not_alike_without(layers: str, counted: bool) -> None:
    """As in Llama 3.1 405B, whose 126 layers fill 16 x 8 chunks with them alone."""
    filled, assumed = fill_blanks(llama(layers=layers, num_gpus="256", pp="16", vpp="8", tp="4", dp="4"))
    assert (filled["ends_layers_less"] == "1") == counted
    assert any("the embedding and the head as layers" in said for said in assumed) == counted


def test_ends_count_as_the_row_or_its_runtime_has_it() -> None:
    chunks = {"layers": "126", "num_gpus": "256", "pp": "16", "vpp": "8", "tp": "4", "dp": "4"}
    assert fill_blanks(llama(**chunks, ends_layers_less="0"))[0]["ends_layers_less"] == "0"
    assert fill_blanks(llama(**chunks | {"vpp": "1"}, runtime="nanotron"))[0]["ends_layers_less"] == ""


@pytest.mark.parametrize(
    ("runtime", "detail", "etp"),
    [
        ("megatron-core", "Megatron-LM@ba773259d", "2"),
        ("megatron-core@nemo-24.07", "NeMo 24.07", "2"),
        ("megatron-core", "ms-swift (megatron sft)", "1"),
        ("megatron-bridge@26.04", "Megatron-Bridge", "1"),
        ("torchtitan", "", "1"),
    ],
)
def test_megatron_lm_divides_experts_as_all_else(runtime: str, detail: str, etp: str) -> None:
    row = llama(runtime=runtime, runtime_detail=detail, tp="2", ep="8", etp="", num_gpus="16", moe_experts="8")
    assert fill_blanks(row)[0]["etp"] == etp
