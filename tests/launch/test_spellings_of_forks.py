"""Settings of forks and releases that change a model, or what is priced, and were once passed over."""

from __future__ import annotations

from pathlib import Path

import pytest

from launch_examples import FLAGS, MODEL, NANOTRON, NEOX
from meshwright.errors import InvalidInput
from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file

MEGATRON = f"torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py {MODEL} --seq-length 4096 --micro-batch-size 1"
MEGATRON += " --global-batch-size 64 --bf16 --tensor-model-parallel-size 2 --sequence-parallel"
PLAIN = "--attention-dropout 0 --hidden-dropout 0"
AXOLOTL = "base_model: Qwen/Qwen3-8B\nmicro_batch_size: 2\nsequence_len: 4096\nbf16: auto\n"
LLAMA_FACTORY = (
    "model_name_or_path: Qwen/Qwen3-8B\nstage: sft\nfinetuning_type: full\ncutoff_len: 4096\nbf16: true\n"
    "per_device_train_batch_size: 2\n"
)
NEMO = """
trainer: {num_nodes: 2, devices: 8, precision: bf16}
model:
  encoder_seq_length: 2048
  max_position_embeddings: ${.encoder_seq_length}
  num_layers: 24
  hidden_size: 2048
  ffn_hidden_size: 8192
  num_attention_heads: 16
  micro_batch_size: 1
  global_batch_size: 64
  tensor_model_parallel_size: 2
  sequence_parallel: true
  vocab_size: 50304
  optim: {name: distributed_fused_adam}
"""


def read(folder: Path, name: str, text: str, **values: str) -> LaunchQuestion:
    path = folder / name
    path.write_text(text)
    return question_of_file(path, Given(cluster="2x8:h100", values=values))


def behaviours(question: LaunchQuestion) -> dict[str, str]:
    return {each.behaviour: each.value for each in question.inputs.runtime.replaced}


@pytest.mark.parametrize(
    ("flags", "kv_heads", "gated"),
    [("", 32, False), ("--attention-head-type multiquery", 1, False), ("--t5-swiglu", 32, True)],
)
def test_forks_of_megatron_name_heads_and_gated_blocks_otherwise(
    tmp_path: Path, flags: str, kv_heads: int, gated: bool
) -> None:
    plain = MEGATRON.replace("--swiglu", "").replace("--group-query-attention --num-query-groups 8", "")
    kind = read(tmp_path, "a.sh", f"{plain} {flags}").inputs.model.layer_kinds[0]
    assert (kind.attention.kv_heads, kind.feed_forward.gated) == (kv_heads, gated)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("flags", "note"),
    [
        ("", "priced as if the file set --attention-dropout=0.0 and --hidden-dropout=0.0: "),
        ("--attention-dropout 0 --hidden-dropout 0.1", "priced as if the file set --hidden-dropout=0.0: "),
        (f"{PLAIN} --transformer-impl local", "priced as if the file set --transformer-impl=transformer_engine: "),
        (f"{PLAIN} --attention-backend unfused", "priced as if the file set --attention-backend=auto: "),
    ],
)
def test_what_is_priced_at_one_value_and_is_another_is_told(tmp_path: Path, flags: str, note: str) -> None:
    assert any(note in each for each in read(tmp_path, "a.sh", f"{MEGATRON} {flags}").notes)


def test_what_is_priced_as_it_is_said_is_not_told(tmp_path: Path) -> None:
    notes = read(tmp_path, "a.sh", f"{MEGATRON} {PLAIN}").notes
    assert not any("dropout" in each or "transformer-impl" in each for each in notes)


@pytest.mark.parametrize(
    ("flag", "behaviour"),
    [
        ("--tp-comm-overlap", "overlap.tensor_parallel"),
        ("--overlap-moe-expert-parallel-comm", "overlap.expert"),
    ],
)
def test_overlaps_that_a_script_switches_on_are_priced(tmp_path: Path, flag: str, behaviour: str) -> None:
    assert behaviour not in behaviours(read(tmp_path, "a.sh", MEGATRON))
    assert float(behaviours(read(tmp_path, "a.sh", f"{MEGATRON} {flag}"))[behaviour]) > 0


def test_unfused_accumulation_is_priced_where_gradients_are_not_scattered(tmp_path: Path) -> None:
    unfused = f"{MEGATRON} --no-gradient-accumulation-fusion"
    assert "kernels.gradient_accumulation" not in behaviours(read(tmp_path, "a.sh", MEGATRON))
    assert behaviours(read(tmp_path, "a.sh", unfused))["kernels.gradient_accumulation"] == "unfused"
    sharded = read(tmp_path, "a.sh", f"{unfused} --use-megatron-fsdp --data-parallel-sharding-strategy optim_grads")
    assert "kernels.gradient_accumulation" not in behaviours(sharded)


@pytest.mark.parametrize("flag", ["--fsdp-double-buffer", "--use-nccl-ub", "--use-nccl-ub --fsdp-double-buffer"])
def test_double_buffers_are_priced_where_megatron_fsdp_has_them(tmp_path: Path, flag: str) -> None:
    sharded = f"{MEGATRON} --use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params"
    assert "sharding.double_buffered" not in behaviours(read(tmp_path, "a.sh", f"{MEGATRON} {flag}"))
    assert "sharding.double_buffered" not in behaviours(read(tmp_path, "a.sh", sharded))
    assert behaviours(read(tmp_path, "a.sh", f"{sharded} {flag}"))["sharding.double_buffered"] == "true"


@pytest.mark.parametrize("segments", [True, False])
def test_buffers_of_nccl_are_priced_without_expandable_segments_unless_a_script_sets_them(
    tmp_path: Path, segments: bool
) -> None:
    """Megatron refuses the two beside one another below PyTorch 2.11."""
    start = "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n" if segments else ""
    question = read(tmp_path, "a.sh", f"{start}{MEGATRON} {PLAIN} --use-nccl-ub")
    told = [note for note in question.notes if "expandable" in note]
    assert ("fragmentation_safe" in str(question.inputs.runtime.replaced)) is not segments
    assert ("--use-nccl-ub" in question.understood.unpriced) is segments
    assert not any("priced as if the file set PYTORCH_CUDA_ALLOC_CONF" in note for note in told)
    assert len(told) == (not segments)


def test_deterministic_mode_is_priced_as_it_fills_what_pytorch_allocates(tmp_path: Path) -> None:
    assert "kernels.deterministic" not in behaviours(read(tmp_path, "a.sh", MEGATRON))
    asked = behaviours(read(tmp_path, "a.sh", f"{MEGATRON} --deterministic-mode"))
    assert asked["kernels.deterministic"] == "filled"


@pytest.mark.parametrize(
    ("model", "entries"),
    [
        ("/models/Llama-2/tokenizer.model", 32000),
        ("/models/tokenizer.model", 32000),
        ("/models/llm-jp-tokenizer-100k.ver3.0b1.model", None),
    ],
)
def test_a_sentencepiece_model_of_its_own_is_not_that_of_llama_2(
    tmp_path: Path, model: str, entries: int | None
) -> None:
    text = MEGATRON.replace("--vocab-size 32000", f"--tokenizer-type Llama2Tokenizer --tokenizer-model {model}")
    if entries is None:
        with pytest.raises(InvalidInput, match="of the model: --vocab-size"):
            read(tmp_path, "a.sh", text)
        return
    question = read(tmp_path, "a.sh", text)
    assert question.inputs.model.vocab_size == entries
    told = any(f"--set --vocab-size=... where {model} holds others" in each for each in question.notes)
    assert told == ("Llama-2" not in model)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ('"attention_config": [[["gmlp"], "all"]]', "attention_config is of layers of other kinds"),
        ('"attention_config": [[["flash"], 24]]', ""),
        ('"te_fp8_mha": true', "te_fp8_mha is of layers in fp8"),
        ('"te_fp8_mha": false', ""),
    ],
)
def test_layers_of_other_kinds_in_gpt_neox_are_refused(tmp_path: Path, keys: str, message: str) -> None:
    text = NEOX.rstrip().removesuffix("}").rstrip().removesuffix(",") + f",\n{keys}}}\n"
    if not message:
        assert read(tmp_path, "a.yml", text).plan.num_gpus == 16
        return
    with pytest.raises(InvalidInput, match=message):
        read(tmp_path, "a.yml", text)


def test_memory_that_gpt_neox_moves_or_narrows_is_told(tmp_path: Path) -> None:
    keys = '"use_bnb_optimizer": true, "fp32_allreduce": false, "data_types": {"grad_accum_dtype": "fp32"}'
    text = NEOX.rstrip().removesuffix("}").rstrip().removesuffix(",") + f",\n{keys}}}\n"
    question = read(tmp_path, "a.yml", text)
    assert "use_bnb_optimizer" in question.understood.unpriced
    assert "fp32_allreduce" not in question.understood.unpriced
    assert question.inputs.gradient_bytes == 4


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("lisa_n_layers: 4\n", "lisa_n_layers is of training of a part of the model"),
        ("unfrozen_parameters: ['^lm_head']\n", "unfrozen_parameters is of training of a part of the model"),
        ("gptq: true\n", "gptq is of quantised weights"),
    ],
)
def test_axolotl_that_trains_a_part_is_refused(tmp_path: Path, keys: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read(tmp_path, "a.yaml", AXOLOTL + keys)


def test_axolotl_counts_micro_batches_by_the_batch_of_a_rank(tmp_path: Path) -> None:
    assert read(tmp_path, "a.yaml", f"{AXOLOTL}batch_size: 8\ngptq: false\n").plan.num_microbatches == 4


def test_axolotl_recomputes_and_offloads_as_its_section_of_fsdp_says(tmp_path: Path) -> None:
    section = "fsdp_version: 2\nfsdp_config: {offload_params: true, activation_checkpointing: true}\n"
    question = read(tmp_path, "a.yaml", AXOLOTL + section)
    assert question.inputs.runtime.storage.offloaded == "everything"
    assert "recompute-full" in str(question.plan)


def test_llama_factory_recomputes_unless_it_is_told(tmp_path: Path) -> None:
    given = {"zero_optimization.stage": "3"}
    assert "recompute-full" in str(read(tmp_path, "a.yaml", LLAMA_FACTORY, **given).plan)
    off = read(tmp_path, "a.yaml", f"{LLAMA_FACTORY}disable_gradient_checkpointing: true\n", **given)
    assert "recompute" not in str(off.plan)
    with pytest.raises(InvalidInput, match="fp8 is of layers in fp8"):
        read(tmp_path, "a.yaml", f"{LLAMA_FACTORY}fp8: true\n", **given)


def test_llama_factory_without_deepspeed_says_how_fsdp_is_named(tmp_path: Path) -> None:
    question = read(tmp_path, "a.yaml", LLAMA_FACTORY)
    assert question.plan.zero == 0
    assert any("--runtime accelerate --set plan.zero=3" in each for each in question.notes)
    given = Given(cluster="1x8:h100", runtime="accelerate", values={"plan.zero": "3"})
    sharded = question_of_file(tmp_path / "a.yaml", given)
    assert (sharded.inputs.runtime.id, sharded.plan.zero) == ("accelerate", 3)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("fsdp: true", "--fsdp is of NeMo's FSDP"),
        ("mcore_customization_config: {parallel_attention: true}", "is of layers that branch in parallel"),
        ("logits_soft_cap: 30.0", "is of models of recurrent layers"),
        ("bert_binary_head: true", r"line 16: model\.bert_binary_head is of an encoder, which is not modelled"),
        ("bert_binary_head: false", r"line 16: model\.bert_binary_head is of an encoder, which is not modelled"),
        ("encoder: {num_layers: 12}", r"model\.encoder\.num_layers is of an encoder"),
        ("transformer_block_type: post_ln", "is of layers whose norms stand elsewhere"),
    ],
)
def test_other_models_and_engines_in_nemo_are_refused(tmp_path: Path, keys: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read(tmp_path, "a.yaml", f"{NEMO}  {keys}\n")


def test_nemo_says_what_is_stored_and_overlapped(tmp_path: Path) -> None:
    plain = read(tmp_path, "a.yaml", f"{NEMO}  transformer_block_type: pre_ln\n  fsdp: false\n")
    assert (behaviours(plain), plain.inputs.model.learned_positions) == ({}, 2048)
    assert not plain.understood.unknown
    keys = "  fp8: true\n  fp8_hybrid: true\n  fp8_params: true\n  ub_tp_comm_overlap: true\n"
    found = behaviours(read(tmp_path, "a.yaml", NEMO + keys))
    assert found == {"storage.quantised_weights": '["fp8-delayed"]', "overlap.tensor_parallel": "0.5"}
    waits = "distributed_fused_adam, overlap_grad_sync: false, overlap_param_sync: false"
    slower = NEMO.replace("distributed_fused_adam", waits)
    assert behaviours(read(tmp_path, "a.yaml", slower)) == {"overlap.data_parallel": "0"}


def test_experts_that_a_runtime_has_not_are_refused_with_one_that_has_them(tmp_path: Path) -> None:
    text = NANOTRON.replace("tie_word_embeddings: true", "moe_config: {num_experts: 8, top_k: 2}")
    with pytest.raises(InvalidInput, match=r"has no such models; use .*\n  - --runtime megatron-core prices its"):
        read(tmp_path, "a.yaml", text)
    path = tmp_path / "a.yaml"
    question = question_of_file(path, Given(cluster="2x8:h100", runtime="megatron-core"))
    assert question.inputs.model.is_moe


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--perform-rl-step", "--perform-rl-step is of training with rewards"),
        ("--grpo-group-size 8", "--grpo-group-size is of training with rewards"),
        ("--num-tokens-to-generate 32", "--num-tokens-to-generate is of the generation of text"),
        ("--model-provider llava", "--model-provider is of models of several modalities"),
        ("--export-kd-teacher-load x", "--export-kd-teacher-load is of training by another model's logits"),
    ],
)
def test_other_training_by_the_arguments_of_megatron_is_refused(tmp_path: Path, flags: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read(tmp_path, "a.sh", f"{MEGATRON} {flags}")


@pytest.mark.parametrize(
    ("program", "message"),
    [("inference/gpt/gpt_dynamic_inference.py", "which trains nothing"), ("pretrain_vlm.py", "decoders alone are")],
)
def test_flags_in_yaml_of_a_program_that_trains_no_decoder_are_refused(
    tmp_path: Path, program: str, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        read(tmp_path, "a.yaml", f"TRAINING_SCRIPT_PATH: examples/{program}\n{FLAGS}")
