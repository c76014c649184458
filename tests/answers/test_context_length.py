"""Sequences longer than the positions of a config.json are told wherever a plan is shown."""

from __future__ import annotations

import pytest

from commands import asked
from meshwright.answers.context_length import beyond_positions
from meshwright.specs.reading.model import read_model
from meshwright.specs.usual_job import usual_length
from strategies import llama_8b, question

WORDS = ["--model", "qwen3-8b", "--cluster", "2x8:h100", "--global-batch", "64"]


@pytest.mark.parametrize(("length", "told"), [(40_960, 0), (40_961, 1), (65_536, 1)])
def test_longer_sequences_are_told(length: int, told: int) -> None:
    assert len(beyond_positions(question(read_model("qwen3-8b"), "2x8:h100", sequence_length=length))) == told


@pytest.mark.parametrize(
    ("model", "positions"), [("llama-2-7b", 4096), ("gemma-2-9b", 8192), ("pythia-12b", 2048), ("mistral-7b", 32768)]
)
def test_models_of_the_catalogue_have_the_positions_of_their_config(model: str, positions: int) -> None:
    """And no question without a length asks for more of them."""
    known = read_model(model)
    (told,) = beyond_positions(question(known, "1x8:h100", sequence_length=positions + 1))
    assert f"longer than the {positions:,} positions of {model}'s config.json" in told
    assert usual_length(known) == min(8192, positions)


def test_nothing_is_told_of_a_model_whose_positions_are_not_known() -> None:
    assert beyond_positions(question(llama_8b(), "2x8:h100", sequence_length=1 << 20)) == []


def test_plan_check_and_limits_say_it() -> None:
    said = "are longer than the 40,960 positions of qwen3-8b's config.json"
    plan = asked("plan", *WORDS, "--seq-len", "65536").out
    check = asked("check", *WORDS, "--seq-len", "65536", "--tp", "8", "--dp", "2").out
    limits = asked("limits", *WORDS, "--seq-len", "4096").out
    assert all(said in " ".join(each.split()) for each in (plan, check, limits))
    assert said not in " ".join(asked("plan", *WORDS, "--seq-len", "8192").out.split())
