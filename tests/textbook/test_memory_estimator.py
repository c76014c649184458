"""The 4D memory estimator: known parameter counts, its formulas by hand, verdicts and configurations."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.errors import InvalidInput, NotModelled
from meshwright.specs.reading.model import read_model
from meshwright.specs.weights import parameter_count
from meshwright.textbook import estimate_4d_memory, llama_parameters, llama_sizes, memory_of_every_configuration
from worked import JOB, ONE, SEVEN

KNOWN = {
    "llama-2-7b": 6738415616,
    "llama-2-13b": 13015864320,
    "llama-2-70b": 68976648192,
    "llama-3.1-8b": 8030261248,
    "llama-3.1-70b": 70553706496,
}
OTHERS = {
    "llama-3.2-1b": "tied embeddings",
    "gemma-2-9b": "tied embeddings.*heads of 256 that do not fill.*4 norms",
    "mixtral-8x7b": "a mixture of experts",
    "deepseek-v3": "latent attention",
    "qwen2.5-7b": "biases",
    "qwen3-8b": "norms of queries and keys",
    "gpt-neox-20b": "layer norms.*an FFN of two matrices",
    "gpt-oss-20b": "attention sinks",
}
degrees = st.sampled_from([1, 2, 4, 8, 16])


def estimated(**changes: Any) -> dict[str, Any]:
    """Llama-2 7B on one GPU, with some arguments changed."""
    return estimate_4d_memory(**(SEVEN | JOB | ONE | changes))


@pytest.mark.parametrize("name", list(KNOWN))
def test_the_parameters_of_known_models(name: str) -> None:
    sizes = llama_sizes(read_model(name))
    count = llama_parameters(**sizes)
    assert (count, type(count)) == (KNOWN[name], int)
    assert parameter_count(read_model(name)) == KNOWN[name]
    assert estimate_4d_memory(**sizes, **JOB, **ONE)["parameters_per_gpu"] == KNOWN[name]


@pytest.mark.parametrize("name", list(OTHERS))
def test_other_architectures_are_refused_by_name(name: str) -> None:
    with pytest.raises(NotModelled, match=f"Llama architecture; {name}.*{OTHERS[name]}"):
        llama_sizes(read_model(name))


def test_a_model_of_10_to_the_15_parameters_is_counted_exactly() -> None:
    sizes = SEVEN | {"num_layers": 10**7 + 1, "vocab_size": 10**6 + 3}
    layer = 2 * 4096**2 + 2 * 4096**2 + 3 * 4096 * 11008 + 2 * 4096
    expected = 2 * 4096 * (10**6 + 3) + 4096 + (10**7 + 1) * layer
    assert expected > 10**15
    assert llama_parameters(**sizes) == expected


def test_the_first_of_several_stages_by_hand() -> None:
    answer = estimated(tp=2, pp=4, cp=2, dp=3)
    matrices, norms = 4 * 4096**2 + 3 * 4096 * 11008, 2 * 4096
    count = 32000 * 4096 // 2 + 8 * (matrices // 2 + norms)
    assert (answer["parameters_per_gpu"], type(answer["parameters_per_gpu"])) == (count, int)
    assert answer["parameters_gb"] == pytest.approx(2 * count / 1e9, rel=1e-15)
    assert answer["gradients_gb"] == pytest.approx(4 * count / 1e9, rel=1e-15)
    assert answer["optimizer_gb"] == pytest.approx(12 * count / 6 / 1e9, rel=1e-15)
    layers = 4096 * 4096 * 32 * (16 + 8 * 11008 / 4096) / 4
    assert answer["activations_gb"] == pytest.approx((layers + 8 * 4096 * 4 / 2) / 1e9, rel=1e-15)
    assert answer["usage"] == pytest.approx(answer["total_gb"] / 80, rel=1e-15)


def test_without_the_distributed_optimizer_18_bytes_a_parameter() -> None:
    answer = estimated(dp=8, distributed_optimizer=False)
    states = answer["parameters_gb"] + answer["gradients_gb"] + answer["optimizer_gb"]
    assert states == pytest.approx(18 * KNOWN["llama-2-7b"] / 1e9, rel=1e-15)


def test_the_literal_form_is_the_papers() -> None:
    tp, pp, cp = 2, 4, 2
    sbh, share = 4096 * 4096, tp * cp
    literal = sbh / share * ((16 + 8 * 11008 / 4096) * 32 + 8 * pp + 4 * (1 + 32000 / 4096))
    answer = estimated(tp=tp, pp=pp, cp=cp, form="literal")
    assert answer["activations_gb"] == pytest.approx(literal / 1e9, rel=1e-15)
    decided = estimated(tp=tp, pp=pp, cp=cp)
    assert decided["activations_gb"] < answer["activations_gb"]
    assert all(decided[key] == answer[key] for key in ("parameters_gb", "gradients_gb", "optimizer_gb"))


def test_one_stage_keeps_the_head() -> None:
    head = 4 * 4096 * 4096 * (1 + 32000 / 4096)
    layers = 4096 * 4096 * 32 * (16 + 8 * 11008 / 4096)
    assert estimated()["activations_gb"] == pytest.approx((layers + head + 8 * 4096) / 1e9, rel=1e-15)


def test_the_verdicts_and_their_borders() -> None:
    total = estimated()["total_gb"]
    borders = ((1 / 0.8, "safe"), (1 / 0.8 - 1e-9, "at-risk"), (1, "at-risk"), (1 - 1e-9, "out-of-memory"))
    for share, verdict in borders:
        assert estimated(gpu_memory_gb=total * share)["verdict"] == verdict


def test_sizes_that_are_not_whole_are_floats_and_unrounded() -> None:
    answer = estimated(tp=11, pp=3)
    assert isinstance(answer["parameters_per_gpu"], float)
    assert answer["total_gb"] != round(answer["total_gb"], 4)


def test_a_size_beyond_every_float_is_said_so() -> None:
    with pytest.raises(InvalidInput, match="parameters_gb is about 2"):
        estimated(hidden_size=10**200)


@given(tp=degrees, pp=degrees, cp=degrees, dp=degrees, grown=st.sampled_from([*SEVEN, *JOB]))
def test_nothing_shrinks_when_a_size_doubles(tp: int, pp: int, cp: int, dp: int, grown: str) -> None:
    changes = {"tp": tp, "pp": pp, "cp": cp, "dp": dp, "num_key_value_heads": 16}
    before = (SEVEN | JOB | changes)[grown]
    assert isinstance(before, int)
    less, more = estimated(**changes), estimated(**changes | {grown: 2 * before})
    if grown != "num_attention_heads":
        assert less["total_gb"] <= more["total_gb"]
        assert less["parameters_per_gpu"] <= more["parameters_per_gpu"]


@given(tp=degrees, pp=degrees, cp=degrees, dp=degrees)
def test_more_ranks_never_hold_more(tp: int, pp: int, cp: int, dp: int) -> None:
    answer = estimated(tp=tp, pp=pp, cp=cp, dp=dp)
    for axis, degree in (("tp", tp), ("cp", cp), ("dp", dp)):
        assert (
            estimated(**{"tp": tp, "pp": pp, "cp": cp, "dp": dp} | {axis: 2 * degree})["total_gb"] <= answer["total_gb"]
        )
    parts = ("parameters_gb", "gradients_gb", "optimizer_gb", "activations_gb")
    assert answer["total_gb"] == pytest.approx(float(sum(Fraction(answer[part]) for part in parts)), rel=1e-14)


def test_all_configurations_are_those_of_the_single_function() -> None:
    question = SEVEN | JOB | {"gpu_memory_gb": 40}
    space = memory_of_every_configuration(num_gpus=24, **question)
    listed = [each for verdict in ("safe", "at-risk", "out-of-memory") for each in space[verdict]]
    assert space["legal"] == len(listed) < space["considered"] == 80
    for verdict in ("safe", "at-risk", "out-of-memory"):
        assert space[verdict]
        keys = [tuple(each[axis] for axis in ("tp", "pp", "cp", "dp")) for each in space[verdict]]
        assert keys == sorted(keys)
        for each in space[verdict]:
            assert each["tp"] * each["pp"] * each["cp"] * each["dp"] == 24
            own = {axis: each[axis] for axis in ("tp", "pp", "cp", "dp")}
            assert own | estimate_4d_memory(**question, **own) == each
            assert each["verdict"] == verdict


def test_the_rules_of_divisibility() -> None:
    question = SEVEN | JOB | {"gpu_memory_gb": 80, "sequence_length": 24, "num_layers": 6}
    space = memory_of_every_configuration(num_gpus=16, **question)
    listed = [each for verdict in ("safe", "at-risk", "out-of-memory") for each in space[verdict]]
    assert {each["pp"] for each in listed} == {1, 2}
    assert {each["cp"] for each in listed} == {1, 2, 4}
    assert all(each["tp"] * each["cp"] in (1, 2, 4, 8) for each in listed)
    assert all(space["refused"][rule] for rule in ("num_layers % pp == 0", "(sequence_length / cp) % tp == 0"))
