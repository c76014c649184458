"""The 4D analyzer: its worked values, exact integers, scopes and laws."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.errors import InvalidInput
from meshwright.textbook import analyze_4d_parallelism, bubble_over_ideal, bubble_ratio, parameter_estimate
from meshwright.textbook.analyzer_formulas import PER_STEP
from worked import ANALYZED, DEGREES, HARDWARE

WORKED = {
    "valid": True,
    "total_params": 6704594944,
    "param_memory_per_gpu_gb": 13.4092,
    "activation_memory_per_gpu_gb": 0.6711,
    "total_memory_per_gpu_gb": 14.0803,
    "fits_in_memory": True,
    "dp_comm_gb": 1.6761,
    "tp_comm_gb": 1.6106,
    "pp_comm_gb": 0.0336,
    "sp_comm_gb": 0.0,
    "bubble_ratio": 0.1111,
}
TRAFFIC = {"dp": "dp_comm_gb", "tp": "tp_comm_gb", "pp": "pp_comm_gb", "sp": "sp_comm_gb"}
sizes = st.integers(min_value=1, max_value=10**5)
degrees = st.integers(min_value=1, max_value=512)


def analyzed(**changes: Any) -> dict[str, Any]:
    """The worked example with some values changed."""
    model, parallel, hardware = (
        {k: changes.get(k, v) for k, v in given.items()} for given in (ANALYZED, DEGREES, HARDWARE)
    )
    return analyze_4d_parallelism(model, parallel, hardware)


def test_the_worked_example() -> None:
    answer = analyze_4d_parallelism(ANALYZED, DEGREES, HARDWARE)
    assert answer == WORKED
    assert list(answer) == list(WORKED)
    assert [type(value) for value in answer.values()] == [type(value) for value in WORKED.values()]


def test_everything_is_computed_also_where_the_degrees_do_not_multiply_to_the_gpus() -> None:
    assert analyzed(num_gpus=15) == WORKED | {"valid": False}


def test_the_total_is_rounded_once_and_fits_is_not_rounded() -> None:
    answer = analyzed()
    exact = 16 * 6704594944 / 8 / 1e9 + 10 * 2 * 2048 * 4096 * 32 / 8 / 1e9
    assert answer["total_memory_per_gpu_gb"] == round(exact, 4)
    assert analyzed(memory_per_gpu_gb=exact)["fits_in_memory"]
    assert not analyzed(memory_per_gpu_gb=exact * (1 - 1e-12))["fits_in_memory"]
    assert analyzed(memory_per_gpu_gb=exact * (1 - 1e-12))["valid"]


def test_layers_per_stage_may_be_a_fraction() -> None:
    answer = analyzed(num_layers=30, pp=4)
    assert answer["tp_comm_gb"] == round(4 * 7.5 * 1.5 * 2 * 2048 * 4096 / 1e9, 4)


def test_counts_are_exact_for_any_size() -> None:
    layers, hidden, vocabulary = 10**6, 9_128_711, 1_000_003
    expected = 2 * vocabulary * hidden + 12 * layers * hidden**2
    assert expected > 10**20
    assert analyzed(num_layers=layers, hidden_size=hidden, vocab_size=vocabulary)["total_params"] == expected
    assert parameter_estimate(10**60, 10**60, 10**60) == 2 * 10**120 + 12 * 10**180
    assert parameter_estimate(1, 9_128_709, 7) == 2 * 7 * 9_128_709 + 12 * 9_128_709**2 > 10**15


def test_a_number_beyond_every_float_is_said_so() -> None:
    with pytest.raises(InvalidInput, match=r"param_memory_per_gpu_gb is about 2.*beyond the largest float"):
        analyzed(hidden_size=10**200)


@pytest.mark.parametrize("axis", list(TRAFFIC))
def test_a_degree_of_1_sends_nothing(axis: str) -> None:
    assert analyzed(**{axis: 1})[TRAFFIC[axis]] == 0.0
    assert analyzed(**{axis: 2})[TRAFFIC[axis]] > 0.0


@given(tp=degrees, dp=degrees, pp=degrees, sp=degrees, m=degrees)
def test_one_degree_alone_makes_no_traffic_on_the_other_axes(tp: int, dp: int, pp: int, sp: int, m: int) -> None:
    answer = analyzed(tp=tp, dp=dp, pp=pp, sp=sp, num_micro_batches=m)
    for axis, degree in (("tp", tp), ("dp", dp), ("pp", pp), ("sp", sp)):
        assert (answer[TRAFFIC[axis]] == 0.0) >= (degree == 1)
    assert 0 <= answer["bubble_ratio"] < 1
    assert (answer["bubble_ratio"] == 0) >= (pp == 1)


@given(size=sizes, more=sizes, key=st.sampled_from(sorted(ANALYZED)))
def test_nothing_shrinks_when_a_size_grows_but_the_bubble(size: int, more: int, key: str) -> None:
    less, greater = analyzed(**{key: size}), analyzed(**{key: size + more})
    for number in ("total_params", "total_memory_per_gpu_gb", *TRAFFIC.values()):
        assert less[number] <= greater[number]
    assert less["bubble_ratio"] >= greater["bubble_ratio"]


def test_explain_adds_formula_and_scope_and_totals_per_step_under_other_names() -> None:
    answer = analyze_4d_parallelism(ANALYZED, DEGREES, HARDWARE, explain=True)
    assert {key: answer[key] for key in WORKED} == WORKED
    assert list(answer["explanation"]) == list(WORKED)
    for key, entry in answer["explanation"].items():
        assert entry["value"] == WORKED[key]
        assert entry["formula"]
        assert entry["scope"]
    assert "micro-batch" in answer["explanation"]["tp_comm_gb"]["scope"]
    assert "per step" in answer["explanation"]["dp_comm_gb"]["scope"]
    assert not set(PER_STEP) & set(WORKED)
    assert {name: entry["value"] for name, entry in answer["per_step"].items()} == {
        "dp_comm_gb_per_step": 1.6761,
        "tp_comm_gb_per_step": 12.8849,
        "pp_comm_gb_per_step": 0.0336,
        "sp_comm_gb_per_step": 0.0,
    }
    assert answer["bubble_over_ideal"]["value"] == 0.125


def test_the_two_bubbles_have_two_names() -> None:
    assert (bubble_ratio(4, 8), bubble_over_ideal(4, 8)) == (0.2727, 0.375)
    assert bubble_over_ideal(4, 8, chunks=3) == 0.125
