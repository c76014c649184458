"""What a framework refuses of a launch file itself is told as broken, all of it at once; what it takes is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands import asked
from launch_examples import FILES, SAID
from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file
from meshwright.launch.imports.rules.conditions import Said, fulfilled
from meshwright.launch.imports.rules.demands import FILES as DEMANDS
from meshwright.launch.imports.rules.demands import FileRule, demands_of

SCRIPT = """#!/bin/bash
export CUDA_DEVICE_MAX_CONNECTIONS=1
MODEL=(
  --num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 --num-attention-heads 64 --group-query-attention
  --num-query-groups 8 --seq-length 8192 --max-position-embeddings 8192 --position-embedding-type rope --swiglu
  --disable-bias-linear --normalization RMSNorm --untie-embeddings-and-output-weights --vocab-size 128256
)
LAYOUT=(
  --tensor-model-parallel-size 8 --pipeline-model-parallel-size 4 --sequence-parallel
  --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather
)
torchrun --nproc_per_node 8 --nnodes 8 pretrain_gpt.py ${MODEL[@]} ${LAYOUT[@]} --micro-batch-size 1 \\
  --global-batch-size 256 --bf16 --lr 1e-4 --train-iters 100 --save /s --save-interval 100
"""
"""Accepted by parse_args and validate_args of Megatron-LM at the commit of the rules."""
TORCH = "--tensor-model-parallel-size 1 --use-torch-fsdp2"
EXPERTS = (
    "--num-experts 16 --moe-router-topk 2 --moe-ffn-hidden-size 4096 --expert-model-parallel-size 2 "
    "--expert-tensor-parallel-size 1 --moe-token-dispatcher-type"
)
SHARDED = "--bf16 --use-megatron-fsdp --ckpt-format fsdp_dtensor --init-model-with-meta-device"
GRAPH = "--cuda-graph-impl full_iteration"
GRAPHS = "--cuda-graph-impl transformer_engine --cuda-graph-modules"
FULL = "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"
CHUNKS = "--num-virtual-stages-per-pipeline-rank"
LAYOUT = "--pipeline-model-parallel-layout 'Et*20|t*20|t*20|t*20L'"
PLAIN = "--sequence-parallel\n  --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather"
DEEPSPEED = (
    '{"train_batch_size": 64, "train_micro_batch_size_per_gpu": 1,\n"zero_optimization": {"stage": 3},\n'
    '"bf16": {"enabled": true}, "fp16": {"enabled": true}}'
)
ACCELERATE = """distributed_type: FSDP
mixed_precision: bf16
fsdp_config:
  fsdp_version: 2
  fsdp_reshard_after_forward: true
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAPP
"""
BRIDGE = """import torch
from megatron.bridge.models.gpt_provider import GPTModelProvider
from megatron.bridge.recipes.common import _pretrain_common


def config():
    cfg = _pretrain_common()
    cfg.model = GPTModelProvider(
        num_layers=80, hidden_size=8192, ffn_hidden_size=28672, num_attention_heads=64, num_query_groups=8,
        vocab_size=128256, seq_length=8192, normalization="RMSNorm", gated_linear_unit=True, add_bias_linear=False,
        activation_func=torch.nn.functional.silu, share_embeddings_and_output_weights=False,
        position_embedding_type="rope", tensor_model_parallel_size=8, sequence_parallel=True,
        pipeline_model_parallel_size=4, virtual_pipeline_model_parallel_size=5,
    )
    cfg.train.micro_batch_size = 1
    cfg.train.global_batch_size = 256
    cfg.dataset.seq_length = 8192
    cfg.mixed_precision = "bf16_mixed"
    return cfg
"""
OVERLAPPED = "cfg.comm_overlap.overlap_moe_expert_parallel_comm = True\n    return cfg"
UNCHECKED, CHECKED = (
    f"cfg.rerun_state_machine.check_for_nan_in_loss = {each}\n    return cfg" for each in (False, True)
)
RECOMPUTED = "recompute_granularity='full', recompute_method='uniform', recompute_num_layers=1"
EXPERTS_AGAIN = "num_moe_experts=16, recompute_granularity='selective', recompute_modules=['moe']"
SHARDED_OVERLAP = f"cfg.ddp.use_megatron_fsdp = True\n    {OVERLAPPED}"
OF_BRIDGE = [
    (
        "parallel_size=5",
        "parallel_size=1|num_layers=78",
        "layers_per_stage",
        "pipeline_model_parallel_size 3 or model.p",
    ),
    ("parallel_size=5", "parallel_size=3", "layers_per_virtual_stage", "virtual_pipeline_model_parallel_size 2 or"),
    ("seq_length = 8192", "seq_length = 4096", "sequence_lengths", "nearest: dataset.seq_length 8192"),
    (
        "return cfg",
        f"{OVERLAPPED}|num_layers=80, num_moe_experts=16, moe_token_dispatcher_type='allgather'",
        "expert_overlap",
        "leave out comm_overlap.overlap_moe_expert_parallel_comm",
    ),
    (
        "return cfg",
        f"{UNCHECKED}|num_layers=80, num_moe_experts=16, cuda_graph_impl='full_iteration'",
        "graph_of_fixed_sizes",
        "--expert-capacity with padding",
    ),
    (
        "return cfg",
        f"{CHECKED}|num_layers=80, cuda_graph_impl='full_iteration'",
        "graph_without_checks",
        "check_for_nan_in_loss False",
    ),
    (
        "num_layers=80",
        f"num_layers=80, {RECOMPUTED}, cuda_graph_impl='transformer_engine', cuda_graph_scope=['attn']",
        "graphs_of_recomputed_layers",
        "model.cuda_graph_impl full_iteration",
    ),
    (
        "num_layers=80",
        f"num_layers=80, {EXPERTS_AGAIN}, cuda_graph_impl='transformer_engine', cuda_graph_scope=['moe_router']",
        "graphs_of_recomputed_experts",
        "model.cuda_graph_scope attn",
    ),
    (
        "return cfg",
        f"{SHARDED_OVERLAP}|num_layers=80, cuda_graph_impl='transformer_engine', cuda_graph_scope=['attn']",
        "graphs_of_shards",
        "leave out comm_overlap.overlap_moe_expert_parallel_comm",
    ),
    (
        "pipeline_model_parallel_size=4, virtual_pipeline_model_parallel_size=5",
        "context_parallel_size=2, window_size=(8191, 0)",
        "idle_window_ring",
        "leave out model.window_size",
    ),
    (
        "num_layers=80",
        "num_layers=80, num_moe_experts=16, moe_router_topk=2, moe_layer_freq=[0] * 8 + [1] * 72",
        "layer_kinds",
        "model.transformer_layer_spec partial(get_gpt_decoder_block_spec, use_transformer_engine=True)",
    ),
]
"""Of Megatron-Bridge: what of the recipe is replaced by what, the rule, and what is said."""
MEGATRON = [
    ("positions", "beddings 8192", "beddings 4096", "line 5: ", "nearest: --max-position-embeddings 8192"),
    ("param_gather_overlap", " --overlap-grad-reduce", "", "line 10: --overlap-param-gather without", "add --overlap"),
    ("param_gather_sharded", "--use-distributed-optimizer ", "", "line 10: ", "add --use-distributed-optimizer"),
    ("one_half_format", "--bf16", "--bf16 --fp16", "line 13: --bf16, --fp16: ", "leave out --fp16"),
    ("fp8_or_fp4", "--bf16", "--bf16 --fp8-format hybrid --fp4-format e2m1", "line 13: ", "leave out --fp4-format"),
    ("fp8_param_gather", PLAIN, "--fp8-format hybrid --fp8-param-gather", "line 9: ", "--use-distributed-optimizer"),
    ("fp4_param_gather", "--bf16", "--bf16 --fp4-param-gather", "line 13: ", "add --fp4-format e2m1"),
    ("layers_per_chunk", "--seq", "--num-layers-per-virtual-pipeline-stage 3 --seq", "lines 4, 5, 9: ", "stage 2"),
    (
        "layers_per_stage",
        "--num-layers 80",
        "--num-layers 78",
        "lines 4, 9: --pipeline-model-parallel-size 4, --num-layers 78: ",
        "nearest: --pipeline-model-parallel-size 3 or --pipeline-model-parallel-layout",
    ),
    (
        "layers_per_virtual_stage",
        "--bf16",
        "--bf16 --num-virtual-stages-per-pipeline-rank 3",
        "lines 4, 9, 13: ",
        "nearest: --num-virtual-stages-per-pipeline-rank 2 or --pipeline-model-parallel-layout",
    ),
    (
        "one_way_to_interleave",
        "--bf16",
        "--bf16 --num-layers-per-virtual-pipeline-stage 5 --num-virtual-stages-per-pipeline-rank 4",
        "line 13: ",
        "leave out --num-layers-per-virtual-pipeline-stage",
    ),
    (
        "chunks_or_layout",
        "--bf16",
        f"--bf16 --num-virtual-stages-per-pipeline-rank 1 {LAYOUT}",
        "line 13: ",
        "leave out --num-virtual-stages-per-pipeline-rank",
    ),
    (
        "uneven_ends_by_chunks",
        "--bf16",
        "--bf16 --num-layers-per-virtual-pipeline-stage 5 --decoder-first-pipeline-num-layers 20",
        "line 13: ",
        "leave out --num-layers-per-virtual-pipeline-stage",
    ),
    (
        "interleaved_stages",
        "--pipeline-model-parallel-size 4",
        "--pipeline-model-parallel-size 1 --num-virtual-stages-per-pipeline-rank 2",
        "line 9: ",
        "leave out --num-virtual-stages-per-pipeline-rank",
    ),
    ("one_connection", "CONNECTIONS=1", "CONNECTIONS=8", "line 2: CUDA_DEVICE_MAX_CONNECTIONS 8", "CONNECTIONS=1"),
    (
        "several_connections",
        "--bf16",
        "--bf16 --use-megatron-fsdp --ckpt-format fsdp_dtensor",
        "lines 2, 13: ",
        "leave out CUDA_DEVICE_MAX_CONNECTIONS",
    ),
    (
        "sharded_checkpoints",
        "export CUDA_DEVICE_MAX_CONNECTIONS=1|--bf16",
        "|--bf16 --use-megatron-fsdp --ckpt-format torch_dist",
        "line 13: ",
        "--ckpt-format fsdp_dtensor",
    ),
    ("checkpoints_of_shards", "--bf16", "--bf16 --ckpt-format fsdp_dtensor", "line 13: ", "--ckpt-format torch_dist"),
    (
        "graph_of_fixed_sizes",
        "--bf16",
        f"--bf16 {GRAPH} --no-check-for-nan-in-loss-and-grad {EXPERTS} alltoall",
        "line 13: ",
        "--expert-capacity with padding",
    ),
    ("graph_without_checks", "--bf16", f"--bf16 {GRAPH}", "line 13: ", "add --no-check-for-nan-in-loss-and-grad"),
    (
        "graph_without_modules",
        "--bf16",
        f"--bf16 {GRAPH} --no-check-for-nan-in-loss-and-grad --cuda-graph-modules attn",
        "line 13: ",
        "leave out --cuda-graph-modules",
    ),
    (
        "graphs_of_recomputed_layers",
        "--bf16",
        f"--bf16 {GRAPHS} attn {FULL}",
        "line 13: ",
        "--cuda-graph-impl full_iteration",
    ),
    (
        "graphs_of_recomputed_experts",
        "--bf16",
        f"--bf16 {GRAPHS} attn moe_router {EXPERTS} alltoall --recompute-granularity selective --recompute-modules moe",
        "line 13: ",
        "--cuda-graph-modules attn",
    ),
    (
        "graphs_of_shards",
        "export CUDA_DEVICE_MAX_CONNECTIONS=1|--bf16",
        f"|{SHARDED} {GRAPHS} attn {EXPERTS} alltoall --overlap-moe-expert-parallel-comm {CHUNKS} 2",
        "line 13: ",
        "leave out --overlap-moe-expert-parallel-comm",
    ),
    (
        "graphs_beside_expandable_segments",
        "CONNECTIONS=1|--bf16",
        f"CONNECTIONS=1 PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True NCCL_GRAPH_REGISTER=1|--bf16 {GRAPHS} attn",
        "lines 2, 13: ",
        "NCCL_GRAPH_REGISTER=0",
    ),
    (
        "meta_device_of_shards",
        "export CUDA_DEVICE_MAX_CONNECTIONS=1|--bf16",
        f"|{SHARDED} --data-parallel-sharding-strategy no_shard",
        "line 13: ",
        "leave out --init-model-with-meta-device",
    ),
    (
        "meta_device_of_gates",
        "export CUDA_DEVICE_MAX_CONNECTIONS=1|--bf16",
        f"|{SHARDED} {EXPERTS} alltoall --moe-shared-expert-intermediate-size 4096 --moe-shared-expert-gate",
        "line 13: ",
        "leave out --init-model-with-meta-device",
    ),
    (
        "torch_fsdp_degrees",
        f"CONNECTIONS=1|--tensor-model-parallel-size 8|{PLAIN}",
        f"CONNECTIONS=8|{TORCH} --no-gradient-accumulation-fusion|",
        "line 9: ",
        "--use-megatron-fsdp in its place",
    ),
    (
        "torch_fsdp_optimizer",
        "CONNECTIONS=1|--tensor-model-parallel-size 8 --pipeline-model-parallel-size 4",
        f"CONNECTIONS=8|{TORCH} --no-gradient-accumulation-fusion",
        "lines 9, 10: ",
        "leave out --use-distributed-optimizer",
    ),
    (
        "torch_fsdp_weights",
        f"CONNECTIONS=1|--tensor-model-parallel-size 8 --pipeline-model-parallel-size 4|{PLAIN}",
        f"CONNECTIONS=8|{TORCH}|",
        "line 9: ",
        "--no-gradient-accumulation-fusion",
    ),
    (
        "deterministic",
        "--bf16",
        "--bf16 --deterministic-mode --cross-entropy-loss-fusion",
        "line 13: ",
        "leave out --cross-entropy-loss-fusion",
    ),
    ("tp_comm_overlap", "--sequence-parallel", "--tp-comm-overlap", "line 9: ", "add --sequence-parallel"),
    (
        "full_recompute",
        "--bf16",
        "--bf16 --recompute-granularity full",
        "line 13: --recompute-granularity full without --recompute-method or --recompute-num-layers",
        "--recompute-method uniform --recompute-num-layers 1",
    ),
    (
        "selective_recompute",
        "--bf16",
        "--bf16 --recompute-granularity selective --recompute-num-layers 1",
        "line 13: ",
        "leave out --recompute-method",
    ),
    ("distributed_recompute", "--bf16", "--bf16 --distribute-saved-activations", "line 13: ", "leave out --distribute"),
    ("one_batch_size", "--bf16", "--bf16 --step-batch-size-schedule 0:16", "lines 12, 13: |line 13: ", "leave out"),
    ("steps_or_samples", "--bf16", "--bf16 --lr-decay-samples 1000", "line 13: ", "in steps"),
    ("samples_or_steps", "--train-iters 100", "--train-samples 9 --lr-decay-iters 9", "line 13: ", "in samples"),
    ("one_warmup", "--bf16", "--bf16 --lr-warmup-fraction 0.1 --lr-warmup-iters 10", "line 13: ", "leave out --lr-w"),
    ("learning_rates", "--bf16", "--bf16 --min-lr 1e-3", "line 13: ", "nearest: --min-lr 1e-4"),
    ("save_interval", "--save-interval 100", "", "line 13: --save /s without ", "add --save-interval"),
    ("hierarchical_context_sizes", "--bf16", "--bf16 --cp-comm-type a2a+p2p", "line 13: ", "add --hierarchical"),
    ("latent_or_grouped", "--bf16", "--bf16 --multi-latent-attention", "lines 4, 13: ", "leave out --group-query"),
    ("offloaded_optimizer", "--bf16", "--bf16 --optimizer-cpu-offload", "line 13: ", "add --use-precision-aware"),
    ("one_data_source", "--bf16", "--bf16 --mock-data --data-path /d", "line 13: ", "leave out --mock-data"),
    ("fp16_cross_entropy", "--bf16", "--bf16 --fp16-lm-cross-entropy", "line 13: ", "leave out --fp16-lm"),
    ("fp32_residual", "--bf16", "--fp32-residual-connection", "line 13: ", "add --bf16"),
    ("experts_to_spread", "--bf16", "--bf16 --expert-model-parallel-size 2", "line 13: ", "leave out --expert-model"),
    (
        "interleaving_overlap",
        "--pipeline-model-parallel-size 4|--bf16",
        f"--pipeline-model-parallel-size 2|--bf16 {CHUNKS} 4 --no-overlap-p2p-communication",
        "lines 9, 13: ",
        "leave out --no-overlap-p2p-communication",
    ),
    (
        "layout_alone",
        "--bf16",
        f"--bf16 --account-for-loss-in-pipeline-split {LAYOUT}",
        "line 13: ",
        "leave out what else says them",
    ),
    ("deepep_dispatcher", "--bf16", f"--bf16 --moe-enable-deepep {EXPERTS} alltoall", "line 13: ", "-type flex"),
    (
        "expert_overlap",
        "--bf16",
        f"--bf16 --overlap-moe-expert-parallel-comm {EXPERTS} allgather {LAYOUT}",
        "line 13: ",
        "leave out --overlap-moe",
    ),
    (
        "expert_overlap_interleaved",
        "--bf16",
        f"--bf16 --overlap-moe-expert-parallel-comm {EXPERTS} alltoall",
        "lines 9, 13: ",
        "add --num-virtual-stages-per-pipeline-rank",
    ),
    ("cpu_offloading", "--bf16", "--bf16 --cpu-offloading-num-layers 2", "lines 9, 13: ", "leave out --cpu-offloading"),
    (
        "offloaded_modules",
        "--bf16",
        "--bf16 --fine-grained-activation-offloading",
        "line 13: ",
        "add --offload-modules core_attn",
    ),
    (
        "precision_aware_optimizer",
        f"{PLAIN}|--bf16",
        "--sequence-parallel|--bf16 --use-precision-aware-optimizer",
        "line 12: ",
        "add --use-distributed-optimizer",
    ),
    (
        "mtp_positions",
        "embedding-type rope|--bf16",
        "embedding-type yarn|--bf16 --mtp-num-layers 1",
        "lines 5, 13: |line 5: |line 13: ",
        "leave out --mtp-num-layers",
    ),
    (
        "idle_window_ring",
        "--pipeline-model-parallel-size 4|--bf16",
        "--context-parallel-size 4|--bf16 --window-size 8191,0",
        "lines 9, 13: ",
        "leave out --window-size",
    ),
    ("known_options", "--sequence-parallel", "--sequence-paralel", "line 9: ", "(nearest: --sequence-parallel)"),
    ("option_values", "--bf16", "--bf16 --lr-decay-style cosin", "line 13: ", "nearest: --lr-decay-style cosine"),
    ("option_values", "--bf16", "--bf16 true", "line 13: --bf16 takes no value", "nearest: --bf16"),
]
"""Of Megatron-LM: the rule, what of the script is replaced by what (several with a bar between), and what is said. Its
own parse_args and validate_args, its TransformerConfig for recomputation, and Transformer Engine for windows, refuse
each.
"""


def told(folder: Path, name: str, text: str, **values: str) -> tuple[LaunchQuestion | None, str]:
    """The question of a file, or why there is none."""
    path = folder / name
    path.write_text(text)
    options = {"model": "llama-3.1-8b"} if not name.endswith((".sh", ".py", ".toml")) else {}
    given = Given(cluster="8x8:h100", values=values, **options)
    try:
        return question_of_file(path, given), ""
    except ValueError as error:
        return None, str(error)


def broken(question: LaunchQuestion | None) -> dict[str, FileRule]:
    assert question is not None
    return {rule.name: rule for rule in question.rules if not rule.kept}


def replaced(old: str, new: str) -> str:
    text = SCRIPT
    for one, other in zip(old.split("|"), new.split("|") if "|" in old else [new], strict=True):
        assert one in text
        text = text.replace(one, other, 1)
    return text


def test_a_script_that_megatron_takes_breaks_nothing(tmp_path: Path) -> None:
    question, why = told(tmp_path, "run.sh", SCRIPT)
    assert not why
    assert not broken(question)
    answer = asked("check", "--from", str(tmp_path / "run.sh"), "--cluster", "8x8:h100")
    assert answer.code == 0


@pytest.mark.parametrize(("rule", "old", "new", "place", "nearest"), MEGATRON)
def test_what_megatron_refuses_is_broken_with_its_line_and_the_nearest_change(
    tmp_path: Path, rule: str, old: str, new: str, place: str, nearest: str
) -> None:
    question, why = told(tmp_path, "run.sh", replaced(old, new))
    reasons = [why] if question is None else [broken(question)[rule].reason]
    assert any(each in reason for reason in reasons for each in place.split("|")), reasons
    assert any(nearest in reason for reason in reasons), reasons
    if question is not None:
        assert set(broken(question)) == {rule}
        code = asked("check", "--from", str(tmp_path / "run.sh"), "--cluster", "8x8:h100").code
        assert code == 2


def test_every_demand_has_an_example() -> None:
    demands = demands_of("megatron-lm")
    assert demands is not None
    assert {each.name for each in demands.demands} <= {rule for rule, *_ in MEGATRON}
    names = {file.name.removesuffix(".toml") for file in DEMANDS.iterdir() if file.name.endswith(".toml")}
    forks, of_a_trainer = {"megatron-deepspeed", "zero-bubble"}, {"llama-factory", "axolotl", "trl", "swift"}
    assert names == {"megatron-lm", "megatron-bridge", "deepspeed", "trainer", "accelerate"} | forks | of_a_trainer
    bridge = demands_of("megatron-bridge")
    assert bridge is not None
    assert {each.name for each in bridge.demands} == {rule for _, _, rule, _ in OF_BRIDGE}


@pytest.mark.parametrize(("old", "new", "rule", "nearest"), OF_BRIDGE)
def test_what_megatron_bridge_refuses_is_broken(tmp_path: Path, old: str, new: str, rule: str, nearest: str) -> None:
    assert not broken(told(tmp_path, "recipe.py", BRIDGE)[0])
    value, _, other = new.partition("|")
    text = BRIDGE.replace(old, value).replace("num_layers=80", other or "num_layers=80")
    rules = broken(told(tmp_path, "recipe.py", text)[0])
    assert set(rules) == {rule}
    assert nearest in rules[rule].reason


def test_two_half_formats_of_deepspeed_are_broken(tmp_path: Path) -> None:
    question, _ = told(tmp_path, "ds.json", DEEPSPEED, **{"job.sequence_length": "4096"})
    assert broken(question)["one_half_format"].reason.startswith("line 3: ")
    question, _ = told(
        tmp_path, "ds.json", DEEPSPEED.replace('"fp16": {"enabled": true}', '"fp16": {"enabled": false}')
    )
    again, _ = told(tmp_path, "ds.json", (tmp_path / "ds.json").read_text(), **{"job.sequence_length": "4096"})
    assert not broken(again)


def test_a_misspelt_policy_of_accelerate_is_broken(tmp_path: Path) -> None:
    said = {"job.sequence_length": "4096", "plan.micro_batch": "1", "job.global_batch": "64"}
    question, _ = told(tmp_path, "a.yaml", ACCELERATE, **said)
    reason = broken(question)["wrap_policy"].reason
    assert reason.startswith("lines 1, 6: ")
    assert reason.endswith("nearest: fsdp_config.fsdp_auto_wrap_policy TRANSFORMER_BASED_WRAP")
    question, _ = told(
        tmp_path, "a.yaml", ACCELERATE.replace("WRAPP", "WRAP").lower().replace("fsdp\n", "FSDP\n"), **said
    )
    assert not broken(question)


TITAN = """[model]
name = "llama3"
flavor = "70B"
[training]
local_batch_size = 8
seq_len = 8192
[parallelism]
tensor_parallel_degree = 8
pipeline_parallel_degree = 4
[activation_checkpoint]
mode = "selective"
"""


@pytest.mark.parametrize(
    ("name", "text", "key", "near"),
    [
        ("t.toml", TITAN, "tensor_paralell_degree", "parallelism.tensor_parallel_degree"),
        ("a.yaml", ACCELERATE, "fsdp_reshard_after_foward", "fsdp_config.fsdp_reshard_after_forward"),
        ("ds.json", DEEPSPEED, "staage", "zero_optimization.stage"),
        ("recipe.py", BRIDGE, "tensor_model_paralel_size", "model.tensor_model_parallel_size"),
    ],
)
def test_a_key_that_is_nearly_one_of_the_framework_is_broken(
    tmp_path: Path, name: str, text: str, key: str, near: str
) -> None:
    """Such a degree was passed over, and the file priced without it."""
    text = text.replace("WRAPP", "WRAP").replace(', "fp16": {"enabled": true}', "")
    said = {"job.sequence_length": "4096", "plan.micro_batch": "1", "job.global_batch": "64", "plan.zero": "3"}
    said = {} if name in ("t.toml", "recipe.py") else said
    assert not broken(told(tmp_path, name, text, **said)[0])
    meant = near.rpartition(".")[2]
    rule = broken(told(tmp_path, name, text.replace(meant, key, 1), **said)[0])["known_keys"]
    assert f"(nearest: {near})" in rule.reason
    assert rule.reason.startswith("line ")


@pytest.mark.parametrize("field", ["moe_expert_rank_capacity_factor=1.5", "patch_size=14"])
def test_a_field_of_its_own_that_is_nearly_another_one_is_not_called_misspelt(tmp_path: Path, field: str) -> None:
    text = BRIDGE.replace("tensor_model_parallel_size=8", f"tensor_model_parallel_size=8, {field}")
    assert not broken(told(tmp_path, "recipe.py", text)[0])


@pytest.mark.parametrize("name", sorted(FILES))
def test_files_that_people_run_break_nothing(tmp_path: Path, name: str) -> None:
    for each, text in FILES.items():
        (tmp_path / each).write_text(text)
    partial = name in ("deepspeed.json", "accelerate.yaml", "bridge.py")
    said = {key: value for key, value in SAID.items() if partial and (key != "function" or name == "bridge.py")}
    given = Given(cluster="2x8:h100", model="llama-3.1-8b" if partial else None, values=said)
    question = question_of_file(tmp_path / name, given)
    assert not broken(question)


@pytest.mark.parametrize(
    "text",
    [
        replaced("--bf16", "--bf16 --use-fused-rotary-pos-emb --own-flag"),
        replaced("pretrain_gpt.py", "train.py").replace("--bf16", "--bf16 --own-flag"),
        replaced("--bf16", "--bf16 --data-impl mmap --checkpoint-num-layers 1"),
        replaced("--overlap-grad-reduce", "").replace("${LAYOUT[@]}", "${LAYOUT[@]} $1"),
        replaced("--overlap-grad-reduce", "").replace("torchrun", "if [ -e /x ]; then LAYOUT+=(--y); fi\ntorchrun"),
        replaced("CONNECTIONS=1", "CONNECTIONS=${CONNECTIONS}"),
    ],
    ids=["a fork", "another script", "an older release", "words from outside", "a condition", "a variable"],
)
def test_what_may_be_otherwise_is_not_called_broken(tmp_path: Path, text: str) -> None:
    question, why = told(tmp_path, "run.sh", text)
    if question is None:
        assert "breaks rules" not in why
    else:
        assert not broken(question)


def test_an_option_that_a_copy_of_the_script_has_is_taken_as_one(tmp_path: Path) -> None:
    text = replaced("--bf16", "--bf16 --own-flag")
    assert set(broken(told(tmp_path, "run.sh", text)[0])) == {"known_options"}
    assert not broken(told(tmp_path, "run.sh", text, **{"--own-flag": "true"})[0])


def test_many_unknown_options_are_told_once_and_shortly(tmp_path: Path) -> None:
    """Those first that are nearly others; rules that hold are one line, with their sources in JSON."""
    path = tmp_path / "run.sh"
    others = " ".join(f"--own-{each}" for each in "abcdefghijkl")
    path.write_text(replaced("--sequence-parallel", f"{others} --sequence-paralel"))
    words = " ".join(asked("check", "--from", str(path), "--cluster", "8x8:h100").out.split())
    assert "line 9: --sequence-paralel (nearest: --sequence-parallel); --own-" in words
    assert "; and 5 more: no option of pretrain_gpt.py" in words
    assert "unknown settings, ignored" not in words
    assert "rules pass; --more lists each with where it is enforced" in words
    more = " ".join(asked("check", "--from", str(path), "--cluster", "8x8:h100", "--more").out.split())
    assert "rules about the file's own settings; --json has each with its source" in more
    assert "param_gather_sharded" not in words
    rules = json.loads(asked("check", "--from", str(path), "--cluster", "8x8:h100", "--json").out)["rules"]
    assert "param_gather_sharded" in {each["name"] for each in rules}
    assert {each["source"].count("file is named") for each in rules} == {0}


def test_the_connections_matter_before_blackwell_alone(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text(replaced("CONNECTIONS=1", "CONNECTIONS=8"))
    assert set(broken(question_of_file(path, Given(cluster="8x8:b200")))) == set()
    path.write_text(replaced("export CUDA_DEVICE_MAX_CONNECTIONS=1", ""))
    assert not broken(question_of_file(path, Given(cluster="8x8:h100")))


def test_all_faults_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    text = replaced("beddings 8192", "beddings 4096").replace("--sequence-parallel", "--sequence-paralel")
    text = text.replace("256", "250").replace("--bf16", "--bf16 --num-virtual-stages-per-pipeline-rank 5")
    path.write_text(text)
    answer = asked("check", "--from", str(path), "--cluster", "8x8:h100", "--json")
    rules = json.loads(answer.out)["rules"]
    assert answer.code == 2
    found = {each["name"]: each["about"] for each in rules if not each["kept"]}
    assert found == {"positions": "file", "known_options": "file", "microbatch_groups": "plan"}
    path.write_text(text.replace("--bf16", "--bf16 --fp8-format e5m2"))
    message = asked("check", "--from", str(path), "--cluster", "8x8:h100").message
    assert "--fp8-format e5m2" in message
    assert "--sequence-paralel (nearest: --sequence-parallel)" in message
    assert "--max-position-embeddings 4096" in message
    assert "microbatch_groups" in message


def test_a_degree_that_is_no_number_hides_what_rests_on_it(tmp_path: Path) -> None:
    text = replaced("beddings 8192", "beddings 4096").replace("parallel-size 8", "parallel-size eight")
    question, why = told(tmp_path, "run.sh", text.replace("256", "250"))
    assert question is None
    assert "'eight' is not a whole number" in why
    assert "--max-position-embeddings 4096" in why
    assert "world_size" not in why


@pytest.mark.parametrize("command", ["explain", "plan"])
def test_explain_and_plan_tell_what_is_refused(tmp_path: Path, command: str) -> None:
    path = tmp_path / "run.sh"
    path.write_text(replaced("beddings 8192", "beddings 4096"))
    options = ("--from", str(path), "--cluster", "8x8:h100")
    answer = asked(command, *options)
    assert answer.code == 0
    assert "refuses this file" in answer.out
    assert "line 5: --max-position-embeddings 4096" in answer.out
    document = json.loads(asked(command, *options, "--json").out)
    assert [each["rule"] for each in document["launch_file"]["broken"]] == ["positions"]


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("--a", True),
        ("not --a", False),
        ("--b", False),
        ("not --b", True),
        ("--open", None),
        ("not --open or --a", True),
        ("--open or --b", None),
        ("X_Y = 1", None),
        ("--a in 1 2 3", True),
        ("--a != 3", False),
        ("--a >= --c", True),
        ("--a > --b", None),
        ("--a * --c divides --a + --a", True),
        ("--word > 1", None),
    ],
)
def test_a_condition_holds_or_not_or_is_open(condition: str, holds: bool | None) -> None:
    said = Said({"--a": "3", "--word": "x"}, open=frozenset({"--open"}), defaults={"--c": 2})
    assert fulfilled(condition, said) is holds
