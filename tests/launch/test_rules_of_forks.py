"""What Megatron-DeepSpeed and the zero-bubble fork refuse of a script is told as broken, and what they take is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands import asked
from meshwright.launch.imports.question import Given, question_of_file
from meshwright.launch.imports.rules.demands import FileRule, demands_of

NAME = "CUDA_DEVICE_MAX_CONNECTIONS"
MODEL = """--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 \\
  --max-position-embeddings 4096 --vocab-size 50304 --untie-embeddings-and-output-weights \\
  --micro-batch-size 1 --global-batch-size 256 --train-iters 100 --lr 1e-4 --min-lr 1e-5 \\
  --save /s --save-interval 100"""
DEEPSPEED = f"""#!/bin/bash
export {NAME}=1
cat > ds.json <<EOF
{{"train_batch_size": 256, "train_micro_batch_size_per_gpu": 1, "zero_optimization": {{"stage": 1}},
 "bf16": {{"enabled": true}}}}
EOF
deepspeed --num_gpus 8 --num_nodes 2 pretrain_gpt.py {MODEL} \\
  --tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 --deepspeed --deepspeed_config ds.json \\
  --zero-stage 1 --bf16 --use-flash-attn-v2
"""
ZERO_BUBBLE = f"""#!/bin/bash
export {NAME}=1
torchrun --nnodes 2 --nproc_per_node 8 pretrain_gpt.py {MODEL} \\
  --tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 --enable-zero-bubble \\
  --zero-bubble-max-pending-backward 8 --bf16 --no-overlap-p2p-communication
"""
SCRIPTS = {"megatron-deepspeed": DEEPSPEED, "zero-bubble": ZERO_BUBBLE}
CHUNKS = "--num-layers-per-virtual-pipeline-stage"
BOTH = [
    ("positions", "--max-position-embeddings 4096", "--max-position-embeddings 2048", "-embeddings 4096"),
    ("one_half_format", "--bf16", "--bf16 --fp16", "leave out --fp16"),
    ("heads_of_the_width", "--num-attention-heads 32", "--num-attention-heads 31", "--num-attention-heads 32 or add"),
    ("steps_or_samples", "--train-iters 100", "--train-iters 100 --rampup-batch-size 32 32 1000", "in samples"),
    ("samples_or_steps", "--train-iters 100", "--train-samples 99 --lr-warmup-iters 10", "in samples"),
    ("one_warmup", "--lr 1e-4", "--lr 1e-4 --lr-warmup-fraction 0.1 --lr-warmup-iters 10", "--lr-warmup-fraction"),
    ("learning_rates", "--min-lr 1e-5", "--min-lr 1e-3", "nearest: --min-lr 1e-4"),
    ("save_interval", " --save-interval 100", "", "add --save-interval"),
    ("fp16_cross_entropy", "--bf16", "--bf16 --fp16-lm-cross-entropy", "leave out --fp16-lm-cross-entropy"),
    ("constant_weight_decay", "--lr 1e-4", "--lr 1e-4 --end-weight-decay 0.1", "leave out --start-weight-decay"),
    ("rising_weight_decay", "--lr 1e-4", "--lr 1e-4 --weight-decay-incr-style cosine", "add --start-weight-decay"),
    ("distributed_recompute", "--bf16", "--bf16 --distribute-saved-activations", "leave out --distribute-saved"),
    ("batch_size_of_old", "--bf16", "--bf16 --batch-size 4", "--micro-batch-size in its place"),
    ("warmup_of_old", "--bf16", "--bf16 --warmup 0.1", "--lr-warmup-fraction in its place"),
    ("model_parallel_of_old", "--bf16", "--bf16 --model-parallel-size 2", "--tensor-model-parallel-size in its place"),
    (
        "selective_recompute",
        "--bf16",
        "--bf16 --recompute-granularity selective --recompute-method uniform",
        "leave out --recompute-method",
    ),
    ("fp32_residual", "--bf16", "--fp32-residual-connection", "add --bf16"),
]
OF_DEEPSPEED = [
    ("one_connection", f"export {NAME}=1|--bf16", f"export {NAME}=8|--bf16 --sequence-parallel", f"{NAME}=1"),
    (
        "chunks_of_three_stages",
        "--pipeline-model-parallel-size 4",
        f"--pipeline-model-parallel-size 2 {CHUNKS} 4",
        f"leave out {CHUNKS}",
    ),
    ("layers_per_chunk", "--bf16", f"--bf16 {CHUNKS} 5", f"nearest: {CHUNKS} 4"),
    ("one_stage_without_pipeline", "--bf16", "--bf16 --no-pipeline-parallel", "leave out --no-pipeline-parallel"),
    ("local_buffers", "--bf16", "--bf16 --DDP-impl torch", "leave out --DDP-impl"),
    ("distributed_checkpointing", "--bf16", "--bf16 --distribute-checkpointed-activations", "add --checkpoint-act"),
    (
        "one_fp8_format",
        "--bf16",
        "--bf16 --transformer-impl transformer_engine --fp8-e4m3 --fp8-hybrid",
        "leave out --fp8-e4m3",
    ),
    ("fp8_implementation", "--bf16", "--bf16 --fp8-hybrid", "--transformer-impl transformer_engine"),
    ("query_groups", "--bf16", "--bf16 --num-key-value-heads 7", "nearest: --num-key-value-heads 8"),
    ("full_recompute", "--bf16", "--bf16 --recompute-granularity full", "--recompute-method uniform"),
    ("adam_on_the_host", "--bf16", "--bf16 --cpu-optimizer --optimizer sgd", "leave out --optimizer"),
    ("arguments_of_a_checkpoint", "--bf16", "--bf16 --use-checkpoint-args", "add --load"),
    ("weighted_splits", "--bf16", "--bf16 --data-path /d --train-weighted-split-paths /t", "leave out --data-path"),
]
OF_ZERO_BUBBLE = [
    ("untied_embeddings", "--untie-embeddings-and-output-weights", "", "add --untie-embeddings"),
    ("embedding_gradient", "--bf16", "--bf16 --defer-embedding-wgrad-compute", "leave out --defer-embedding"),
    ("stages_to_fill", "--pipeline-model-parallel-size 4", "", "leave out the schedule"),
    (
        "layers_of_a_v",
        "--num-layers 32|--enable-zero-bubble",
        "--num-layers 28|--zero-bubble-v-schedule",
        "nearest: --num-layers 24 or",
    ),
    ("chunks_of_a_v", "--enable-zero-bubble", f"--zero-bubble-v-schedule {CHUNKS} 4", f"leave out {CHUNKS}"),
    (
        "overlapped_optimizer",
        "--bf16",
        "--bf16 --use-distributed-optimizer --overlap-grad-reduce",
        "leave out --overlap",
    ),
    ("validated_steps", "--bf16", "--bf16 --enable-optimizer-post-validation", "leave out --enable-optimizer"),
    ("sequence_splits", "--bf16", "--bf16 --num-seq-splits 2", "add --use-flash-attn"),
    ("tp_comm_overlap", "--bf16", "--bf16 --tp-comm-overlap", "add --sequence-parallel"),
    (
        "interleaved_stages",
        "--pipeline-model-parallel-size 4 --enable-zero-bubble|--no-overlap-p2p-communication",
        f"--enable-zb-runtime {CHUNKS} 4|",
        f"leave out {CHUNKS}",
    ),
    (
        "interleaving_overlap",
        "--pipeline-model-parallel-size 4 --enable-zero-bubble",
        f"--pipeline-model-parallel-size 2 --enable-zb-runtime {CHUNKS} 4",
        f"leave out {CHUNKS}",
    ),
    ("layers_per_chunk", "--enable-zero-bubble", f"--enable-zb-runtime {CHUNKS} 3", f"nearest: {CHUNKS} 2"),
    (
        "padded_layers",
        "--num-layers 32|--bf16",
        "--num-layers 30|--bf16 --allow-padding-num-layers --standalone-embedding-stage",
        "leave out --standalone-embedding-stage",
    ),
    (
        "param_gather_sharded",
        "--enable-zero-bubble|--bf16",
        "--enable-zb-runtime|--bf16 --overlap-param-gather",
        "leave out --overlap-param-gather",
    ),
    ("grouped_experts", "--bf16", "--fp16 --moe-grouped-gemm", "nearest: --bf16"),
    ("fused_interleaved_rotary", "--bf16", "--bf16 --rotary-interleaved", "add --no-rope-fusion"),
    ("named_positions", "--bf16", "--bf16 --no-position-embedding", "leave out --no-position-embedding"),
    ("experts_to_spread", "--bf16", "--bf16 --expert-model-parallel-size 2", "leave out --expert-model-parallel-size"),
    (
        "context_of_legacy_models",
        "--bf16",
        "--bf16 --context-parallel-size 2 --use-legacy-models",
        "leave out --use-legacy-models",
    ),
    ("checkpoints_of_legacy_models", "--bf16", "--bf16 --use-dist-ckpt --use-legacy-models", "leave out --use-dist"),
    ("one_data_source", "--bf16", "--bf16 --mock-data --data-path /d", "leave out --mock-data"),
]
CASES = [("megatron-deepspeed", *each) for each in BOTH + OF_DEEPSPEED]
CASES += [("zero-bubble", *each) for each in BOTH + OF_ZERO_BUBBLE]
"""The fork, the rule, what of its script is replaced by what (several with a bar between), and the nearest change."""


def read(folder: Path, text: str) -> tuple[dict[str, FileRule], str]:
    """The broken rules, or why there is no plan."""
    path = folder / "run.sh"
    path.write_text(text)
    try:
        question = question_of_file(path, Given(cluster="2x8:h100"))
    except ValueError as error:
        return {}, str(error)
    return {rule.name: rule for rule in question.rules if not rule.kept}, ""


def replaced(text: str, old: str, new: str) -> str:
    for one, other in zip(old.split("|"), new.split("|") if "|" in old else [new], strict=True):
        assert one in text
        text = text.replace(one, other, 1)
    return text


@pytest.mark.parametrize("fork", SCRIPTS)
def test_a_script_that_a_fork_takes_breaks_nothing(tmp_path: Path, fork: str) -> None:
    assert read(tmp_path, SCRIPTS[fork]) == ({}, "")
    assert question_of_file(tmp_path / "run.sh", Given(cluster="2x8:h100")).dialect.name == fork
    assert asked("check", "--from", str(tmp_path / "run.sh"), "--cluster", "2x8:h100").code == 0


@pytest.mark.parametrize(
    ("fork", "rule", "old", "new", "nearest"), CASES, ids=[f"{fork} {rule}" for fork, rule, *_ in CASES]
)
def test_what_a_fork_refuses_is_broken_with_the_nearest_change(
    tmp_path: Path, fork: str, rule: str, old: str, new: str, nearest: str
) -> None:
    broken, why = read(tmp_path, replaced(SCRIPTS[fork], old, new))
    assert [*broken] == [rule] or why
    told = broken[rule].reason if broken else why
    assert nearest in told
    assert asked("check", "--from", str(tmp_path / "run.sh"), "--cluster", "2x8:h100").code == 2


@pytest.mark.parametrize("fork", SCRIPTS)
def test_every_demand_of_a_fork_has_an_example_and_a_line(fork: str) -> None:
    demands = demands_of(fork)
    assert demands is not None
    assert {each.name for each in demands.demands} == {rule for name, rule, *_ in CASES if name == fork}
    assert all(" L" in f" {each.source}" for each in demands.demands)


def test_connections_of_sequence_parallelism_may_come_from_outside(tmp_path: Path) -> None:
    text = DEEPSPEED.replace(f"export {NAME}=1\n", "").replace("--bf16", "--bf16 --sequence-parallel")
    assert read(tmp_path, text) == ({}, "")
    question = question_of_file(tmp_path / "run.sh", Given(cluster="2x8:h100"))
    (warning,) = [rule.warning for rule in question.rules if rule.warning]
    assert f"{NAME}=1 comes from the environment, which this file does not set" in warning


def test_the_file_that_the_script_writes_is_held_to_the_rules_of_deepspeed(tmp_path: Path) -> None:
    broken, _ = read(tmp_path, DEEPSPEED.replace('"bf16"', '"fp16": {"enabled": true}, "bf16"'))
    assert [*broken] == ["deepspeed_one_half_format"]
    assert broken["deepspeed_one_half_format"].reason.startswith("ds.json, line 2: ")


@pytest.mark.parametrize("heads", ["31e999", "3" * 400, "31.5"])
def test_a_value_that_counts_nothing_has_no_nearest_number(tmp_path: Path, heads: str) -> None:
    (tmp_path / "run.sh").write_text(ZERO_BUBBLE.replace("--num-attention-heads 32", f"--num-attention-heads {heads}"))
    answer = asked("check", "--from", str(tmp_path / "run.sh"), "--cluster", "2x8:h100")
    assert answer.code == 2
    assert "--num-attention-heads" in answer.out + answer.err
    assert "Traceback" not in answer.err
