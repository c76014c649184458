"""Flags of a command line within YAML, as the configurations of Megatron-LM's tests hold them."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshwright.errors import InvalidInput
from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file
from meshwright.layout.legality import faults

YAML = """ENV_VARS:
  CUDA_DEVICE_MAX_CONNECTIONS: 1
COMMON: &common
  --bf16: true
  --pipeline-model-parallel-size: 1
MODEL_ARGS:
  <<: *common
  --num-layers: 12
  --hidden-size: 512
  --num-attention-heads: 8
  --micro-batch-size: 4
  --seq-length: 1_024
  --max-position-embeddings: 1024
  --vocab-file: ${DATA_PATH}/bpe/vocab.json
  --merge-file: ${DATA_PATH}/bpe/merges.txt
  --tensor-model-parallel-size: 2
  --pipeline-model-parallel-size: 2
  --recompute-granularity: selective
  --recompute-modules: "[core_attn mlp]"
  --sequence-parallel: false
MODEL_ARGS_2:
  --pipeline-model-parallel-size: 4
"""


def imported(folder: Path, text: str) -> LaunchQuestion:
    path = folder / "model_config.yaml"
    path.write_text(text)
    return question_of_file(path, Given(cluster="1x8:h100"))


def test_flags_of_the_first_run_are_read_with_the_defaults_of_megatron(tmp_path: Path) -> None:
    question = imported(tmp_path, YAML)
    assert str(question.plan) == "tp2 pp2 dp2 zero0 mbs4 m1 recompute-selective(core_attn,mlp)"
    assert question.settings.environment == {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}
    model = question.inputs.model
    assert (model.vocab_size, model.layer_kinds[0].feed_forward.ffn_size) == (50257, 2048)
    assert question.inputs.job.global_batch == 8
    assert question.settings.by_key()["--num-layers"].line == 8


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("  --hidden-size: 512", "  --hidden-size: 512\n  --swiglu: true", 1344),
        ("  --hidden-size: 512", "  --hidden-size: 512\n  --ffn-hidden-size: 640", 640),
    ],
)
def test_the_width_of_the_feed_forward_block_follows_the_activation(
    tmp_path: Path, old: str, new: str, expected: int
) -> None:
    """megatron/training/arguments.py: int(4 h 2 / 3 / 64) 64 where it is gated, else 4 h."""
    kind = imported(tmp_path, YAML.replace(old, new)).inputs.model.layer_kinds[0]
    assert kind.feed_forward.ffn_size == expected


def test_the_last_batch_of_a_schedule_is_priced(tmp_path: Path) -> None:
    text = YAML.replace("--seq-length", '--step-batch-size-schedule: "0:384 200B:768"\n  --seq-length')
    assert imported(tmp_path, text).inputs.job.global_batch == 768


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--hybrid-layer-pattern: M-M*", "line 7: --hybrid-layer-pattern is of models with layers of state spaces"),
        ("--mamba-head-dim: 64", "--mamba-head-dim is of models with layers of state spaces, not modelled"),
        ("--tokenizer-type: BertWordPieceCase", "is of encoders, not modelled"),
        ("--fp8-format: e5m2", "precision: --fp8-format e5m2 --bf16 True is not modelled"),
    ],
)
def test_models_that_are_not_modelled_are_refused_by_the_flag(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        imported(tmp_path, YAML.replace("  <<: *common", f"  {line}\n  --bf16: true"))
    assert message in str(raised.value)


def test_a_layout_of_one_chunk_beside_two_stages_breaks_a_rule(tmp_path: Path) -> None:
    one = '  --pipeline-model-parallel-size: 2\n  --pipeline-model-parallel-layout: "Et*12L"'
    question = imported(tmp_path, YAML.replace("  --pipeline-model-parallel-size: 2", one))
    assert "names 12 layers for 1 chunks" in str(faults(question.plan, question.inputs)[0])


FLAGSCALE = """
system:
  tensor_model_parallel_size: 2
  pipeline_model_parallel_size: 2
  sequence_parallel: true
  use_distributed_optimizer: true
  precision: {bf16: true, accumulate_allreduce_grads_in_fp32: true}
  checkpoint: {save_interval: "${experiment.save_steps}"}
model:
  num_layers: 16
  hidden_size: 2048
  num_attention_heads: 16
  seq_length: 4096
  max_position_embeddings: 4096
  position_embedding_type: rope
  swiglu: true
  untie_embeddings_and_output_weights: false
  micro_batch_size: 2
  global_batch_size: 64
data:
  tokenizer: {tokenizer_type: QwenTokenizerFS, vocab_size: 151936}
"""


def test_sections_of_flagscale_hold_the_arguments_of_megatron(tmp_path: Path) -> None:
    question = imported(tmp_path, FLAGSCALE)
    assert str(question.plan) == "tp2 sp pp2 dp2 zero1 mbs2 m16"
    model, job = question.inputs.model, question.inputs.job
    assert (model.num_layers, model.vocab_size, model.tied_embeddings) == (16, 151936, True)
    assert (job.sequence_length, job.global_batch, question.inputs.gradient_bytes) == (4096, 64, 4)
    wide = imported(tmp_path, FLAGSCALE.replace("swiglu: true", "swiglu: true\n  multiple_of: 256")).inputs.model
    assert wide.layer_kinds[0].feed_forward.ffn_size == 5632
    wider = FLAGSCALE.replace("swiglu: true", "swiglu: true\n  multiple_of: 4096\n  hidden_dim_multiplier: 1.3")
    assert imported(tmp_path, wider).inputs.model.layer_kinds[0].feed_forward.ffn_size == 8192
    with pytest.raises(InvalidInput, match="line 10: --num-layers 'many'"):
        imported(tmp_path, FLAGSCALE.replace("num_layers: 16", "num_layers: many"))
    with pytest.raises(InvalidInput, match="line 3: --enable-hetero is of plans over devices of several kinds"):
        imported(tmp_path, FLAGSCALE.replace("system:\n", "system:\n  hetero: {enable_hetero: true}\n"))
