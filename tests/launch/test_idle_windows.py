"""Windows as long as the sequence: they do nothing, so no launch file has them and none is refused for them."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from meshwright.answers.launch.files import launch_files
from meshwright.answers.launch.folder import write_folder
from meshwright.cost.step import estimate_each
from meshwright.errors import InvalidSpec
from meshwright.launch.architecture import same_architecture
from meshwright.launch.export import export
from meshwright.launch.fields import differences
from meshwright.launch.imports.question import Given, question_of_file
from meshwright.layout.plan import Plan
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import Model
from meshwright.specs.reading.model import read_model
from strategies import question

MISTRAL = read_model("mistral-7b")
LLAMA = read_model("llama-3.1-8b")
RING = Plan(cp=2, dp=4, zero=1, num_microbatches=16)
GATHERED = replace(RING, context_exchange="all_gather")
WHOLE, SHARDED = replace(GATHERED, zero=0), replace(GATHERED, zero=3)


def _windowed(model: Model, window: int) -> Model:
    (kind,) = model.layer_kinds
    near = kind.replace(name="window", attention=kind.attention.replace(window=window))
    return model.replace(layer_kinds=[near])


def _alternating(model: Model, window: int) -> Model:
    kinds = [*_windowed(model, window).layer_kinds, *model.layer_kinds]
    return model.replace(layer_kinds=kinds, layer_pattern=[layer % 2 for layer in range(model.num_layers)])


def _asked(model: Model, runtime: str, sequence: int) -> Inputs:
    return question(model, "1x8:h200", runtime, sequence_length=sequence, global_batch=64)


@pytest.mark.parametrize(
    ("runtime", "name", "plan"),
    [("megatron-core", "megatron-lm", RING), ("megatron-bridge",) * 2 + (RING,), ("nanotron",) * 2 + (WHOLE,)],
)
@pytest.mark.parametrize("model", [MISTRAL, _alternating(LLAMA, 4096)], ids=["all layers", "every other layer"])
def test_a_file_without_the_window_is_the_same_question(
    runtime: str, name: str, plan: Plan, model: Model, tmp_path: Path
) -> None:
    inputs = _asked(model, runtime, 4096)
    files = launch_files(plan, inputs, name).files
    assert not [file for file, text in files.items() if "window-size" in text or "window_size" in text]
    read = question_of_file(write_folder(files, tmp_path / "run"), Given(cluster="1x8:h200"))
    assert not differences(plan, inputs, read.plan, read.inputs)
    assert same_architecture(read.inputs.model, inputs.model, 4096)
    (told,), (priced,) = estimate_each([read.plan], read.inputs), estimate_each([plan], inputs)
    assert told.step_time_s == pytest.approx(priced.step_time_s)


def test_a_shorter_window_stays_in_the_file() -> None:
    files = launch_files(Plan(dp=8, zero=1, num_microbatches=8), _asked(MISTRAL, "megatron-core", 4097), "megatron-lm")
    assert "--window-size 4095,0\n" in files.files["train.sh"]
    with pytest.raises(InvalidSpec, match="no setting for an attention window of 4096 tokens"):
        export(Plan(dp=8, zero=1, num_microbatches=8), _asked(MISTRAL, "nanotron", 8192), "nanotron")


def test_a_registry_has_the_model_but_for_its_window() -> None:
    model = _windowed(LLAMA, 4096)
    assert export(SHARDED, _asked(model, "torchtitan", 4096), "torchtitan").fields["model.name"] == "llama3 8B"
    with pytest.raises(InvalidSpec, match="no setting for an attention window of 4096 tokens"):
        export(SHARDED, _asked(model, "torchtitan", 8192), "torchtitan")
    other = model.replace(vocab_size=32000)
    with pytest.raises(InvalidSpec, match=r"whose nearest model is llama-3\.1-8b") as caught:
        export(SHARDED, _asked(other, "torchtitan", 4096), "torchtitan")
    assert "window" not in str(caught.value)


@pytest.mark.parametrize(("sequence", "split"), [(4096, True), (8192, False)])
def test_context_parallelism_of_transformers_splits_attention_whose_windows_do_nothing(
    sequence: int, split: bool
) -> None:
    inputs = _asked(MISTRAL, "accelerate", sequence)
    if split:
        assert export(SHARDED, inputs, "accelerate").plan == SHARDED
        return
    with pytest.raises(InvalidSpec, match="cannot split of models with windows"):
        export(SHARDED, inputs, "accelerate")


@pytest.mark.parametrize(("sequence", "masked"), [(4095, False), (4096, True)])
def test_transformers_makes_a_mask_of_a_window_as_long_as_the_sequence(sequence: int, masked: bool) -> None:
    plan, inputs = Plan(dp=8, zero=3, num_microbatches=8), _asked(MISTRAL, "accelerate", sequence)
    script = launch_files(plan, inputs, "accelerate").files["train.py"]
    assert ("take longer than predicted" in " ".join(script.split("#"))) is masked


@pytest.mark.clients("torch", "transformers")
@pytest.mark.parametrize(("sequence", "masked"), [(15, False), (16, True)])
def test_the_mask_is_that_of_transformers(sequence: int, masked: bool) -> None:
    torch: Any = pytest.importorskip("torch")
    library: Any = pytest.importorskip("transformers")
    config = library.MistralConfig(sliding_window=16, attn_implementation="sdpa")
    made = importlib.import_module("transformers.masking_utils").create_sliding_window_causal_mask(
        config=config,
        inputs_embeds=torch.zeros(1, sequence, 4),
        attention_mask=None,
        past_key_values=None,
        position_ids=torch.arange(sequence)[None],
    )
    assert (made is not None) is masked
