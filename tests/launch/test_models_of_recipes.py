"""What recipes leave to the models that they make: vocabularies, positions, attention."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file

HEAD = "from megatron.bridge import AutoBridge\nfrom megatron.bridge.models.gpt_provider import GPTModelProvider\n"
JOB = """
    cfg.mixed_precision = "bf16_mixed"
    cfg.model.seq_length = 2048
    cfg.train.micro_batch_size = 1
    cfg.train.global_batch_size = 32
    cfg.model.tensor_model_parallel_size = 1
    cfg.model.pipeline_model_parallel_size = 1
    return cfg
"""
GEMMA = f"""{HEAD}
def adjusted(model, path):
    if hasattr(model, "vocab_size") and path:
        model.vocab_size = len(tokenizer)

def recipe():
    cfg = ConfigContainer()
    cfg.model = AutoBridge.from_hf_pretrained("google/gemma-2-2b").to_megatron_provider(load_weights=False)
    adjusted(cfg.model, "google/gemma-2-2b"){JOB}"""
PLAIN = f"""{HEAD}
def recipe():
    cfg = ConfigContainer()
    cfg.model = GPTModelProvider(num_layers=24, hidden_size=2048, ffn_hidden_size=8192, num_attention_heads=16)
    cfg.tokenizer.vocab_size = 32000{JOB}"""
TITAN = """[model]
name = "llama3"
flavor = "FLAVOUR"

[training]
local_batch_size = 1
seq_len = 8192
compile = true
"""


def imported(path: Path, text: str, **values: str) -> LaunchQuestion:
    path.write_text(text)
    return question_of_file(path, Given(cluster="1x8:h100", values=values))


def test_a_vocabulary_that_only_running_tells_is_that_of_the_named_model(tmp_path: Path) -> None:
    """Source: NVIDIA-NeMo/Megatron-Bridge@067f987df03b recipes/gemma/h100/gemma2.py, _adjust_gemma2_vocab_size."""
    question = imported(tmp_path / "recipe.py", GEMMA)
    assert (question.inputs.model.name, question.inputs.model.vocab_size) == ("gemma-2-2b", 256000)
    assert any("whether this holds the file does not decide" in note for note in question.notes)


def test_a_plain_provider_has_learned_positions_and_the_vocabulary_of_the_tokenizer(tmp_path: Path) -> None:
    """Source: the same, models/gpt_provider.py L142, training/setup.py L741-776; recipes/gpt/h100/gpt3_175b.py."""
    question = imported(tmp_path / "recipe.py", PLAIN)
    model = question.inputs.model
    assert (model.learned_positions, model.vocab_size) == (2048, 32000)
    assert not any("apply_rope_fusion" in note for note in question.notes)
    rotary = imported(tmp_path / "rotary.py", PLAIN.replace("num_layers", 'position_embedding_type="rope", num_layers'))
    assert rotary.inputs.model.learned_positions == 0


@pytest.mark.parametrize(("flavour", "kernel"), [("8B", "newest"), ("8B_varlen", "flash-2"), ("8B_flex", "flex")])
def test_attention_in_the_name_of_a_flavour_is_read(flavour: str, kernel: str, tmp_path: Path) -> None:
    """Source: pytorch/torchtitan v0.2.2 torchtitan/models/llama3/__init__.py L60-79."""
    question = imported(tmp_path / "llama3.toml", TITAN.replace("FLAVOUR", flavour))
    assert (question.inputs.model.name, question.inputs.attention_kernel) == ("llama-3.1-8b", kernel)
    assert any("--document-length" in note for note in question.notes) == ("_" in flavour)
