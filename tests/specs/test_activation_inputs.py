"""Inputs of SwiGLU that Megatron-Bridge keeps in 8 bits take half of the memory, and longer."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshwright.answers.launch.files import launch_files
from meshwright.cost.step import estimate_each
from meshwright.launch.imports.question import Given, question_of_file
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import position_of, with_behaviours
from meshwright.specs.inputs import Inputs
from meshwright.specs.reading.model import read_model
from meshwright.specs.switches import narrow_activation_inputs, narrower_forms
from strategies import question

SWITCH = "activation_input"
NARROW = f"{SWITCH}=fp8"


def _asked(model: str, *changes: str, cluster: str = "1x8:h200") -> Inputs:
    inputs = question(read_model(model), cluster, "megatron-bridge", precision="bf16", global_batch=8)
    return inputs.replace(runtime=with_behaviours(inputs.runtime, list(changes)))


def test_a_dense_layer_keeps_a_byte_less_of_each_element_of_gate_and_up() -> None:
    wide, narrow = _asked("llama-3.1-8b"), _asked("llama-3.1-8b", NARROW)
    plan = Plan(dp=8, zero=1)
    (before,), (after,) = (estimate_each([plan], each) for each in (wide, narrow))
    tokens, model = wide.job.sequence_length, wide.model
    saved = model.num_layers * tokens * 2 * model.layer_kinds[0].feed_forward.ffn_size
    assert before.memory.activations - after.memory.activations == saved
    cast_back = tokens * 2 * 2 * model.layer_kinds[0].feed_forward.ffn_size
    assert after.memory.temporaries - before.memory.temporaries <= cast_back
    assert before.step_time_s < after.step_time_s < 1.05 * before.step_time_s


def test_experts_keep_less_too() -> None:
    wide, narrow = _asked("mixtral-8x7b"), _asked("mixtral-8x7b", NARROW)
    plan = Plan(dp=8, ep=8, zero=1)
    (before,), (after,) = (estimate_each([plan], each) for each in (wide, narrow))
    assert after.memory.activations < 0.85 * before.memory.activations
    assert before.step_time_s < after.step_time_s < 1.05 * before.step_time_s


@pytest.mark.parametrize("model", ["gemma-2-9b", "gpt-oss-20b", "falcon-7b"])
def test_other_activations_are_kept_as_they_are(model: str) -> None:
    """Megatron-core refuses it beside any activation but SwiGLU."""
    assert not narrow_activation_inputs(_asked(model, NARROW))
    assert NARROW not in dict(narrower_forms(_asked(model)))


def test_without_a_fused_activation_it_does_nothing() -> None:
    assert not narrow_activation_inputs(_asked("llama-3.1-8b", NARROW, "activation_fusion=off"))


@pytest.mark.parametrize("changes", [(), (NARROW,)])
def test_a_recipe_says_it_and_is_read_back(tmp_path: Path, changes: tuple[str, ...]) -> None:
    inputs = _asked("qwen3-8b", *changes)
    text = launch_files(Plan(dp=8, zero=1), inputs, "megatron-bridge").files["meshwright_plan.py"]
    assert ("activation_func_fp8_input_store=True" in text) == bool(changes)
    (tmp_path / "plan.py").write_text(text)
    read = question_of_file(tmp_path / "plan.py", Given(cluster="1x8:h200")).inputs
    assert position_of(read.runtime, SWITCH) == ("fp8" if changes else "half")


def test_it_is_offered_where_nothing_fits() -> None:
    inputs = _asked("llama-3.1-8b", cluster="1x1:h200")
    assert NARROW in dict(narrower_forms(inputs))
