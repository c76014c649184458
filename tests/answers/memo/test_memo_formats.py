"""The memo's table of number formats."""

from __future__ import annotations

import pytest

from meshwright.answers.memo.sections.precision import _formats, _states
from meshwright.layout.plan import Plan
from strategies import llama_8b, mixture, question


@pytest.mark.parametrize(("precision", "told"), [("bf16", None), ("fp8", "1"), ("mxfp8", "1.03125, gradients 2.0625")])
def test_the_memo_names_the_bytes_that_ranks_gather_quantised(precision: str, told: str | None) -> None:
    rows = {row[0]: row[2] for row in _formats(Plan(), question(llama_8b(), "8x8:b200", precision=precision))}
    assert rows.get("what tensor-parallel ranks gather") == told


@pytest.mark.parametrize(
    ("precision", "gradients", "told"),
    [("fp16", "half", "the loss scale"), ("bf16", "half", "half the memory"), ("fp16", "fp32", "thousands of small")],
)
def test_sums_of_gradients_have_the_reasons_of_their_format(precision: str, gradients: str, told: str) -> None:
    inputs = question(llama_8b(), "1x8:h100", precision=precision, gradients=gradients)
    (row,) = [row for row in _formats(Plan(), inputs) if row[0] == "gradients summed"]
    assert told in row[3]
    assert row[2] == {"half": "2", "fp32": "4"}[gradients]
    assert ("loss scale" in row[3]) == (precision == "fp16" and gradients == "half")


@pytest.mark.parametrize(
    ("runtime", "gradients", "told"),
    [
        ("accelerate", None, {"gradients kept": "4", "gradients exchanged": "2"}),
        ("accelerate", "fp32", {"gradients summed": "4"}),
        ("torchtitan", "half", {"gradients kept": "4", "gradients exchanged": "2"}),
        ("megatron-core", "half", {"gradients summed": "2"}),
    ],
)
def test_gradients_of_fp32_weights_are_kept_in_fp32_whatever_replicas_sum(
    runtime: str, gradients: str | None, told: dict[str, str]
) -> None:
    """torch 2.13 distributed/fsdp/_fully_shard/_fsdp_collectives.py L696: a reduced gradient is cast to its weight's
    format before it is added up, which accelerate 1.15.0 utils/fsdp_utils.py L815-825 makes fp32.
    """
    inputs = question(llama_8b(), "1x8:h100", runtime, precision="bf16", gradients=gradients)
    rows = {row[0]: row[2] for row in _formats(Plan(), inputs) if row[0].startswith("gradients")}
    assert rows == told
    kept = rows.get("gradients kept", rows.get("gradients summed"))
    assert f"gradients {kept}" in _states(Plan(), inputs)


def test_the_router_is_among_the_formats_of_models_with_experts_alone() -> None:
    for model, there in ((mixture(), True), (llama_8b(), False)):
        assert ("router's scores" in [row[0] for row in _formats(Plan(), question(model, "1x8:h100"))]) == there


@pytest.mark.parametrize(
    ("runtime", "told"),
    [
        (
            "megatron-core",
            "weights 2, gradients 4, master weights 4 and moments 8 are 18 bytes per parameter, 2 more than",
        ),
        ("torchtitan", "weights 4, gradients 4 and moments 8 are 16 bytes per parameter, as many as"),
    ],
)
def test_bytes_of_states_add_up(runtime: str, told: str) -> None:
    assert told in _states(Plan(), question(llama_8b(), "1x8:h100", runtime, precision="bf16"))
