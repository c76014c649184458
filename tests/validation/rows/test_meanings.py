"""What the words of a row mean, and what its framework does where it is silent, in tables without settings."""

from __future__ import annotations

import pytest

from meshwright.errors import NotModelled
from meshwright.specs.behaviours import LIGER, PERMUTE_FUSION, ROPE_FUSION, position_of
from meshwright.specs.choices import Recompute
from meshwright.specs.runtime import Runtime
from meshwright.validation.rows.meanings import meanings
from meshwright.validation.rows.reading import read_case
from meshwright.validation.rows.said import Taken, with_behaviours_over
from meshwright.validation.rows.settings import base_runtime, runtime_of, settings
from meshwright.validation.rows.siblings import as_known, as_strangers
from meshwright.validation.rows.table import Row, normalised, read_rows
from tables import llama

STATES = ("autocast=false", "weight_bytes=2", "moment_bytes=2")
QWEN3 = {"model": "qwen3-30b-a3b", "layers": "", "seq_len": "4096", "moe_experts": "128", "ep": "8"}
PIPELINED = {"pp": "2", "schedule": "interleaved", "zero_stage": "2", "recompute": "none", "compiled": "no"}
LAYOUT = "Et*4|(t*4|)*14tmL"
LAID_OUT = {"plan": f"layout={LAYOUT}", "mtp_layers": "1"}
ENDS_COUNT = {"ends_layers_less": "1"}
FP32_GRADIENT_OF_LOGITS = "cross_entropies.fused={ alive_bytes = 6, forward_bytes = 8, backward_bytes = 14 }"
WHOLE_LAYERS = {"runtime": "megatron-core", "recompute": "full", "pp": "1"}
PROFILE = {"runtime": "galvatron", "seq_len": "2048", "source": "layernum[1]_bsz8_seq2048_rank7_", "notes": "rank 7"}
RECIPE = "recipe QWEN3_30B_A3B_PRETRAIN_CONFIG_GB200_BF16_V2@v0.4.0 "
OTHER_RECIPE = {"recipe-of-release-26-02-01"}
"""Rows whose recipe is not the one that their notes name."""


def _stranger(**said: str) -> Row:
    blank = {"recompute": "", "recompute_modules": "", "compiled": "", "params_b": "8.03", "source": ""}
    blank |= {"document_length": "8192"}
    return llama(runtime="torchtitan", tp="1", dp="8", dataset="a stranger", id="new") | blank | said


def _taken(row: Row, *, of_new_model: bool = True) -> list[Taken]:
    each = (meaning.taken(normalised(row), of_new_model=of_new_model) for meaning in meanings())
    return [one for one in each if one]


def _columns(row: Row) -> Row:
    """What the meanings of a row fill in, one after the other."""
    filled: Row = {}
    for meaning in meanings():
        if taken := meaning.taken(normalised(row | filled), of_new_model=True):
            filled |= taken.columns
    return filled


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ({}, {"compiled": "no", "recompute": "selective"}),
        ({"runtime": "torchtitan@0.2.2"}, {"compiled": "no", "recompute": "selective"}),
        ({"params_b": "70.6"}, {"compiled": "no", "recompute": "full"}),
        ({"params_b": "671", "moe_experts": "256"}, {"compiled": "no", "recompute": "selective"}),
        ({"precision": "fp8"}, {"recompute": "selective"}),
        ({"compiled": "yes", "recompute": "none"}, {}),
        ({"source": "[graph_trainer] memory", "recompute": "none"}, {}),
        ({**PIPELINED, "vpp": "1", "notes": "1F1B + AsyncTP"}, {"schedule": "1f1b"}),
        ({**PIPELINED, "vpp": "1", "notes": "Interleaved 1F1B"}, {}),
        ({**PIPELINED, "vpp": "2", "notes": "1F1B + AsyncTP"}, {}),
        ({"runtime": "megatron-core", "recompute": "none", "notes": "MLA, MTP 1, layout"}, {"mtp_layers": "1"}),
        ({"runtime": "automodel", "moe_experts": "8", "notes": "fake balanced gate"}, {"routing": "neighbours"}),
        (PROFILE, {"seq_len": "4096", "memory_rank": "7"}),
        ({**PROFILE, "seq_len": "1024"}, {"memory_rank": "7"}),
        ({"runtime_detail": "torchtitan (FSDP2), float8, compile"}, {"recompute": "selective"}),
        ({"notes": "no compile assumed"}, {"compiled": "no", "recompute": "selective"}),
        ({"runtime": "pytorch-fsdp1"}, {}),
        ({"runtime": "pytorch-fsdp1", "notes": "400 Gb/s; 500 W power cap"}, {"power_limit_w": "500"}),
        ({"runtime": "megatron-lm", "notes": "(hw flops: consistent with full recompute)"}, {"recompute": "full"}),
        ({"runtime": "megatron-lm", "recompute": "none", "notes": "consistent with full recompute"}, {}),
        (
            {"runtime": "megatron-core", "moe_experts": "8", "notes": "capacity factor 1.25"},
            {"expert_capacity": "1.25"},
        ),
        (
            {"runtime": "megatron-core", "moe_experts": "8", "expert_capacity": "1", "notes": "dropless"},
            {"expert_capacity": ""},
        ),
        ({"runtime": "megatron-core", "moe_experts": "8", "notes": "natural routing"}, {"routing": "natural"}),
        ({"runtime": "megatron-core", "notes": "variant: w/o MTP"}, {"mtp_layers": "0"}),
        *(
            (
                {"runtime": "megatron-core", "cp": "4", "notes": f"{said}; bf16"},
                {"plan": 'context_exchange="all_to_all"'},
            )
            for said in ("--cp-comm-type a2a", "cp_comm_type=a2a", "cp_comm_type: 'a2a'", 'cp_comm_type="a2a"')
        ),
        ({"runtime": "megatron-core", "cp": "4", "notes": "cp_comm_type: a2a_p2p"}, {}),
        ({"runtime": "megatron-core", "cp": "1", "notes": "cp-comm-type a2a"}, {}),
        ({"runtime": "megatron-core", "pp": "4", "notes": f"layout of Table 17: {LAYOUT}; offload"}, LAID_OUT),
        ({"runtime": "megatron-bridge", "pp": "4", "notes": f"PIPELINE_LAYOUT={LAYOUT} (head last)"}, LAID_OUT),
        ({"runtime": "megatron-core", "pp": "4", "notes": "layout Et*7|t*8|...|t*7,L"}, {}),
        ({"runtime": "megatron-core", "pp": "1", "notes": f"layout {LAYOUT}"}, {}),
        ({"runtime": "megatron-core", "pp": "2", "notes": "account_for_embedding_in_pipeline_split"}, ENDS_COUNT),
        ({"runtime": "megatron-core", "pp": "2", "notes": "ASYM_PP_EMBED=ASYM_PP_LOSS=True"}, ENDS_COUNT),
        ({"runtime": "megatron-core", "pp": "2", "notes": "no account-for-loss-in-pipeline-split"}, {}),
        ({**WHOLE_LAYERS, "notes": "recompute full/block, 30 of 80 layers; TE"}, {"recompute_layers": "30"}),
        ({**WHOLE_LAYERS, "notes": "the file recomputes 5 layers (block)"}, {"recompute_layers": "5"}),
        ({**WHOLE_LAYERS, "runtime": "accelerate", "notes": "50 of 80 layers recomputed"}, {"recompute_layers": "50"}),
        ({**WHOLE_LAYERS, "runtime": "deepspeed", "notes": "50 of 80 layers recomputed"}, {}),
        ({**WHOLE_LAYERS, "pp": "2", "notes": "12 of 80 layers recomputed"}, {}),
        ({**WHOLE_LAYERS, "pp": "2", "notes": "block, 3 layers of each chunk"}, {"recompute_layers": "3"}),
        ({**WHOLE_LAYERS, "recompute": "none", "notes": "12 of 80 layers recomputed"}, {}),
        (
            {"runtime": "megatron-core", "moe_experts": "8", "notes": "MOE_ROUTER_FORCE_LOAD_BALANCING=False"},
            {"routing": "natural"},
        ),
        ({"runtime": "megatron-core", "moe_experts": "8", "notes": "--moe-router-force-load-balancing"}, {}),
        ({"runtime": "megatron-core", "notes": '"8xB200 GPUs limited to 750W"'}, {"power_limit_w": "750"}),
        ({"runtime": "megatron-core", "notes": "power limit not printed: 772 W is assumed"}, {}),
    ],
)
def test_blanks_are_as_the_words_and_the_configurations_of_the_framework_say(said: Row, meant: Row) -> None:
    assert _columns(_stranger(**said)) == meant


@pytest.mark.parametrize(
    ("said", "length"),
    [
        ({}, "850"),
        ({"document_length": "512"}, ""),
        ({"with": "attention_kernel=newest"}, ""),
        ({"runtime": "torchtitan@0.2.2"}, ""),
        ({"runtime": "torchtitan@0.2.2", "with": "attention_kernel=flex; root_unit=true"}, "850"),
        ({"runtime": "torchtitan@0.2.2", "model": "Llama-4-Scout", "with": "attention_kernel=flex"}, "850"),
        ({"runtime": "torchtitan@0.2.2", "model": "GPT-OSS-20B", "with": "attention_kernel=flex"}, ""),
        ({"model": "gpt-oss-20b", "with": "attention_kernel=flex"}, ""),
        ({"model": "gpt-oss-20b"}, "850"),
        ({"runtime": "megatron-core", "notes": "SFT finetuning, packed; MFU printed"}, "200"),
        ({"runtime": "megatron-core", "notes": "SFT run (not pre-training), packed sequences;"}, "200"),
        ({"runtime": "megatron-core", "notes": "SFT run, not packed"}, ""),
        ({"runtime": "megatron-core", "notes": "full SFT, tulu3 packed offline to 2048"}, "780"),
        ({"runtime": "accelerate", "source": "fine-tuning on packed SQuAD"}, "200"),
        ({"runtime": "accelerate", "source": "fine-tuning on SQuAD"}, ""),
        ({"runtime": "accelerate", "notes": "packed sequences"}, ""),
    ],
)
def test_documents_are_as_long_as_those_of_the_data_that_is_named(said: Row, length: str) -> None:
    row = {"document_length": "", "compiled": "no", "recompute": "none"} | said
    assert _columns(_stranger(**row)).get("document_length", "") == length


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"source": "[graph_trainer] memory"}, "compute-intensive operators"),
        ({"source": "[graph_trainer] memory", "recompute": "full"}, ""),
        ({"notes": "two-level ILP memory policy", "recompute": "full"}, "memory budget"),
        ({"compiled": "no", "precision": "fp8", "recompute": "full"}, "without torch.compile"),
        ({"compiled": "yes", "precision": "fp8", "recompute": "full"}, ""),
        ({"precision": "nvfp4", "notes": "last 15% layers bf16"}, "some layers stay in bf16"),
        ({"precision": "mxfp8", "notes": "last 15% layers bf16 for nvfp4"}, ""),
        ({"runtime": "pytorch-fsdp1", "runtime_detail": "CPUOffload(offload_params=True)"}, "on the host"),
        ({"runtime": "pytorch-fsdp1", "notes": "fsdp_offload_params: true"}, "on the host"),
        ({"runtime": "pytorch-fsdp1", "notes": "fsdp_offload_params: false"}, ""),
        ({"moe_experts": "64", "notes": "QLoRA rank 32, quantize_moe_experts: true"}, "packed too"),
        ({"moe_experts": "64", "notes": "quantize_moe_experts: false"}, ""),
        ({"runtime": "pytorch-eager", "notes": "optimizer_in_bwd"}, "within the backward pass"),
        ({"runtime": "pytorch-eager", "notes": "optimizer_in_bwd=False"}, ""),
    ],
)
def test_runs_that_no_runtime_prices_are_refused(said: Row, reason: str) -> None:
    refused = _columns(_stranger(**said)).get("refused", "")
    assert bool(refused) == bool(reason)
    assert reason in refused


@pytest.mark.parametrize(
    ("stage", "pp", "notes", "meant"),
    [("3", "4", "", "2"), ("3", "4", "reshard always", "3"), ("3", "1", "", "3"), ("2", "4", "", "2")],
)
def test_torchtitan_keeps_weights_gathered_under_a_pipeline(stage: str, pp: str, notes: str, meant: str) -> None:
    row = _stranger(zero_stage=stage, pp=pp, notes=notes)
    assert (row | _columns(row))["zero_stage"] == meant


@pytest.mark.parametrize(
    ("source", "compiled", "eager"),
    [
        ("benchmarks/llama3_h100_202412_torchtitan.md", "yes", True),
        ("logs of 2025-03-04", "yes", True),
        ("logs of 2025-04-04", "yes", False),
        ("logs of 2025-03-04", "no", False),
        ("a page without a date", "yes", False),
        ('commit message "float8 rowwise recipe (#808)" of 2025-06', "yes", True),
        ("commit message (#700) of 2024-12", "yes", False),
        ("commit message (#1881)", "yes", False),
    ],
)
def test_the_loss_of_old_torchtitan_is_not_compiled(source: str, compiled: str, eager: bool) -> None:
    done = _taken(_stranger(source=source, compiled=compiled, recompute="none"))
    assert ("cross_entropy=eager",) in [each.behaviours for each in done] or not eager
    assert eager or not any("the loss is not compiled" in each.why for each in done)


@pytest.mark.parametrize(
    ("runtime", "detail", "behaviours"),
    [
        ("pytorch-eager", "all bf16", STATES),
        ("pytorch-fsdp1", "Pure BF16", (*STATES, "gradient_bytes=2")),
        ("torchtitan@0.2.2", "bf16 weights, gradients and moments", STATES),
        ("pytorch-ddp", "all bf16", (*STATES, "gradient_bytes=2", "gradient_bucket=13107200")),
        ("accelerate", "bf16 (fp32 master, fp32 reduction)", ("gradient_bytes=4",)),
        ("pytorch-fsdp1", "bf16 with fp32 weights (FSDP mixed precision, bf16 reduction)", ("gradient_bytes=2",)),
        ("accelerate", "bf16 weights with 16-bit remainders, fp32 moments", ()),
        ("megatron-core", "all bf16", ()),
    ],
)
def test_states_have_the_bytes_that_the_words_name(runtime: str, detail: str, behaviours: tuple[str, ...]) -> None:
    taken = _taken(_stranger(runtime=runtime, precision_detail=detail, compiled="no", recompute="none"))
    assert tuple(behaviour for each in taken for behaviour in each.behaviours) == behaviours


@pytest.mark.parametrize(
    ("framework", "notes", "behaviour"),
    [
        ("megatron-core", "te cross-entropy", "cross_entropy=fused"),
        ("megatron-core", "CE_FUSION_IMPL=te", "cross_entropy=fused"),
        ("megatron-core", "cross-entropy not fused", ""),
        ("megatron-core", "overlap-param-gather, cross-entropy-loss-fusion", "cross_entropy=native"),
        ("megatron-core", "cross_entropy_loss_fusion=false", ""),
        ("megatron-bridge", "cross_entropy_loss_fusion=false", "cross_entropy=unfused"),
        ("megatron-core", "fsdp_double_buffer", "double_buffered=true"),
        ("megatron-bridge", "Megatron-FSDP with nccl_ub", "double_buffered=true"),
        ("megatron-bridge", "e02 without nccl_ub", ""),
        ("megatron-bridge", "nccl_ub=false", ""),
        ("megatron-core", "--use-torch-fsdp2", "gradient_queue=0"),
        ("megatron-core", "--cross-entropy-loss-fusion (te)", ""),
        ("megatron-core", "native cross-entropy fusion", "cross_entropy=native"),
        ("megatron-core", "ran out of memory in the fused cross-entropy", "cross_entropy=fused"),
        ("megatron-core", "cross-entropy-loss-fusion; OOM in the fused cross-entropy", "cross_entropy=native"),
        ("megatron-core", "cross-entropy-loss-fusion, cross-entropy-fusion-impl te", "cross_entropy=fused"),
        ("megatron-core", "config: FULL_CUDA_GRAPH=1", "host.graphs=iteration"),
        ("megatron-core", "MCORE_CUDA_GRAPH=1, FULL_CUDA_GRAPH=0", "host.graphs=iteration"),
        ("megatron-core", "FULL_CUDA_GRAPH=0", ""),
        ("megatron-core", "dropout of 0.1 by default", "dropout=true"),
        ("megatron-core", "dropout of 0.0", ""),
        ("megatron-core", "run in deterministic mode", "deterministic=filled"),
        ("megatron-core", "deterministic_mode=true", "deterministic=filled"),
        ("megatron-core", "in non-deterministic mode", ""),
        ("megatron-core", "nondeterministic mode", ""),
        ("megatron-core", "not in deterministic mode", ""),
        ("megatron-core", "precision-aware optimizer with bf16 gradients and moments", "optimizer_states=bf16"),
        ("megatron-core", "--use-precision-aware-optimizer --main-grads-dtype bf16", "gradient_bytes=2"),
        ("megatron-core", "Transformer Engine 2.11, bf16 moments", "casts_moments=[1, 2]"),
        ("megatron-core", "bf16 gradients and moments, TE 1.13", "casts_moments=[1, 2]"),
        ("megatron-core", "Transformer Engine 2.11", ""),
        ("megatron-core", "Transformer Engine 2.13.0, bf16 moments", "moment_bytes=2"),
        ("megatron-bridge", "Transformer Engine 2.17.1", ""),
        ("megatron-bridge", "Transformer Engine 2.18.0", FP32_GRADIENT_OF_LOGITS),
        ("pytorch-fsdp1", "Hugging Face Trainer, FSDP1", "gradient_bytes=2"),
        ("accelerate", "fsdp_offload_params=true", "offloaded=everything"),
        ("accelerate", "fsdp_offload_params=false", ""),
        ("pytorch-eager", "packed; cut cross-entropy", "cross_entropy=fused_linear"),
        ("accelerate", "cut_cross_entropy: false", ""),
        ("accelerate", "experts of ScatterMoE", "expert_products=one_kernel"),
        ("accelerate", "experts of modules of transformers", ""),
        ("accelerate", "AdamW of 8 bits", "moment_bytes=1"),
        ("pytorch-eager", "optim: paged_adamw_8bit", "moment_block=256"),
        ("pytorch-eager", "weights of 8 bits", ""),
        ("megatron-core", "CUDA_LAUNCH_BLOCKING=1 in its environment", "runs_ahead=false"),
        ("megatron-core", "CUDA_LAUNCH_BLOCKING=0", ""),
        ("megatron-core", "ranks not bound to cores (numactl --membind=0-3 alone)", "binds_ranks=false"),
        ("megatron-core", "--transformer-impl local by default", "elementwise=eager"),
        ("megatron-core", "without Transformer Engine and Apex", "fused_update=false"),
        ("megatron-core", "overlap_grad_reduce off by default", "overlap.data_parallel=0"),
        ("megatron-core", "--use-distributed-optimizer", "overlap.data_parallel=0"),
        ("megatron-core", "use_distributed_optimizer, overlap_grad_reduce, overlap_param_gather", ""),
        ("megatron-core", "distributed optimizer", ""),
        ("megatron-core", "--combined-1f1b-recipe ep_a2a", "expert_overlap=on"),
        ("torchtitan", "deepseek_v3_16b, HybridEP", "fused_kernels=hybrid_ep"),
        ("megatron-bridge", "NCCL all-to-all; mock data", "dispatcher=all_to_all"),
        ("megatron-bridge", "NCCL all-to-all beside DeepEP", "dispatcher=fused"),
        ("megatron-core", "moe_token_dispatcher_type=allgather; DeepEP was slower", "dispatcher=all_gather"),
        ("megatron-core", "--moe-token-dispatcher-type allgather", "dispatcher=all_gather"),
        ("megatron-core", "reduce-scatter and allgather of NCCL", ""),
        ("deepspeed", "ZeRO 3 with CPU optimizer offloading", "offloaded=states_and_gradients"),
        ("torchtitan", "AdamW (foreach, one more copy)", "fused_update=false"),
        ("pytorch-ddp", "AdamW of torch (fused=False)", "update_lists=0"),
        ("pytorch-ddp", "nanoGPT, DDP", "keeps_logits=true"),
        ("pytorch-eager", "own trainer, Transformer Engine 2.13.0 layers", "fused_activation=true"),
        ("pytorch-eager", "own trainer, without Transformer Engine layers", ""),
        ("automodel", "", "cross_entropy=eager"),
        ("automodel", "", "fused_kernels=deep_ep"),
        ("megatron-core", "moments bf16 (recipe)", "moment_bytes=2"),
        ("megatron-core", "moments fp32", ""),
        ("megatron-bridge", "DELAY_WGRAD_COMPUTE; early training", "expert_overlap=on"),
        ("megatron-core", "A2A_OVERLAP=1 (with delayed weight gradients)", "expert_overlap=on"),
        ("megatron-core", "delay_wgrad_compute=False", ""),
        ("megatron-bridge", "MOE_EXPERT_RANK_CAPACITY_FACTOR=1.5", "host.graphs=iteration"),
        ("megatron-bridge", "dropless with paged stash", "fused_kernels=hybrid_ep"),
        ("megatron-core", "HybridEP, moe_hybridep_num_sms=32", "fused_multiprocessors=32"),
        ("megatron-bridge", "moe-flex-dispatcher-num-sms 16", "fused_multiprocessors=16"),
        ("megatron-core", "NUM_OF_TOKENS_PER_CHUNK_COMBINE_API=128", "fused_chunk_tokens=128"),
        ("megatron-core", "graphs of attn, moe_router, moe_preprocess", "host.graphs=parts"),
        ("megatron-core", "CUDA_GRAPH_SCOPE='attn moe_router moe_preprocess'", "host.graphs=parts"),
        ("megatron-bridge", "cuda_graph_scope=attn,moe_router,moe_preprocess", "host.graphs=parts"),
        ("megatron-core", "graphs of moe_router and moe_preprocess", "host.graphs=router"),
        ("megatron-bridge", "mxfp8 (FP8_DPA attention)", "quantised_attention=true"),
        ("megatron-bridge", "attention bf16 (FP8_DPA off)", ""),
    ],
)
def test_options_by_their_own_names_are_read(framework: str, notes: str, behaviour: str) -> None:
    row = _stranger(
        gpu="B200-SXM-180GB", runtime=framework, notes=notes, compiled="no", recompute="none", moe_experts="8"
    )
    behaviours = {each for taken in _taken(row) for each in taken.behaviours}
    assert behaviour in behaviours if behaviour else not behaviours


def _overlap(**said: str) -> float:
    (row,) = as_known([_stranger(tp="2", dp="4", sp="True", recompute="none", **said)])
    return runtime_of(row).overlap.tensor_parallel


@pytest.mark.parametrize(
    ("runtime", "detail", "month", "unfused"),
    [
        ("pytorch-fsdp1", "Hugging Face Trainer, FSDP1", "2023-05", False),
        ("pytorch-fsdp1", "Hugging Face Trainer, FSDP1", "2023-06", True),
        ("accelerate", "TRL SFTTrainer", "2025-07", True),
        ("accelerate", "TRL SFTTrainer", "2025-08", False),
        ("accelerate", "TRL SFTTrainer, optim adamw_torch_fused", "2024-07", False),
        ("accelerate", "its own loop", "2024-07", False),
        ("deepspeed", "LLaMA-Factory, ds_z3_config.json (ZeRO-3, no offload)", "2024-07", True),
        ("deepspeed", "LLaMA-Factory, ds_z3_offload_config.json (ZeRO-3, CPU offload)", "2024-07", False),
        ("deepspeed", "Hugging Face Trainer", "2024-07", False),
    ],
)
def test_the_trainer_updates_operator_by_operator_until_torch_2_8(
    runtime: str, detail: str, month: str, unfused: bool
) -> None:
    row = _stranger(runtime=runtime, runtime_detail=detail, source=f"a page ({month}-15)", compiled="no")
    assert ("fused_update=false" in [each for taken in _taken(row) for each in taken.behaviours]) == unfused


@pytest.mark.parametrize(
    ("detail", "unfused"),
    [
        ("PyTorch loop; AdamW of torch (foreach=True)", True),
        ("PyTorch loop; AdamW (foreach)", True),
        ("PyTorch loop; fused AdamW of torch (fused=True)", False),
        ("PyTorch loop; AdamW of torch", False),
    ],
)
def test_a_loop_says_that_it_updates_operator_by_operator(detail: str, unfused: bool) -> None:
    (row,) = as_known([_stranger(runtime="pytorch-eager", runtime_detail=detail)])
    assert runtime_of(row).storage.fused_update != unfused


@pytest.mark.parametrize(
    ("detail", "month", "ahead"),
    [
        ("accelerate FSDP FULL_SHARD", "2023-12", True),
        ("accelerate FSDP FULL_SHARD", "2024-01", False),
        ("accelerate FSDP FULL_SHARD, fsdp_limit_all_gathers: true", "2023-12", False),
        ("its own loop", "2023-12", False),
    ],
)
def test_accelerate_does_not_limit_gathers_until_2024(detail: str, month: str, ahead: bool) -> None:
    row = _stranger(runtime="pytorch-fsdp1", runtime_detail=detail, source=f"a page ({month}-15)", compiled="no")
    assert ("limits_gathers=false" in [each for taken in _taken(row) for each in taken.behaviours]) == ahead


@pytest.mark.parametrize(
    ("detail", "whole"),
    [
        ("accelerate 0.20 FSDP FULL_SHARD, examples run_clm_no_trainer.py", True),
        ("accelerate 0.20 FSDP FULL_SHARD, its own loop", False),
    ],
)
def test_scripts_without_the_trainer_add_up_whole_gradients(detail: str, whole: bool) -> None:
    row = _stranger(runtime="pytorch-fsdp1", runtime_detail=detail, source="a page (2023-06-23)", compiled="no")
    assert ("accumulates_whole=true" in [each for taken in _taken(row) for each in taken.behaviours]) == whole


@pytest.mark.parametrize(
    ("detail", "gathered"),
    [
        ("torchao float8 dynamic, float8 all-gather", ("fp8",)),
        ("fp8 tensorwise + fp8 all-gather", ("fp8",)),
        ("float8 tensorwise, without float8 all-gather", ()),
        ("fp8 tensorwise (no fp8 all-gather)", ()),
        ("float8 rowwise, float8 all-gather", ()),
    ],
)
def test_words_say_whether_shards_are_quantised_before_a_gather(detail: str, gathered: tuple[str, ...]) -> None:
    (row,) = as_known([_stranger(runtime="torchtitan@0.2.2", precision="fp8", precision_detail=detail)])
    assert runtime_of(row).sharding.quantised_weight_gathers == gathered


def test_words_say_whether_tensor_parallel_collectives_overlap() -> None:
    core = {"runtime": "megatron-core"}
    assert _overlap(**core) == 0
    assert _overlap(**core, notes="overlap-grad-reduce, tp-comm-overlap, PP overlap ON") == 0.5
    assert _overlap(**core, runtime_detail="NeMo container 24.09 (Megatron-Core)") == 0.5
    assert _overlap(**core, runtime_detail="NeMo container 24.09", notes="TP comm overlap disabled") == 0
    assert _overlap(**core, notes="TP_COMM_OVERLAP is off") == 0
    assert _overlap(**core, notes="no tp-comm-overlap") == 0
    assert _overlap(**core, notes="ub_tp_comm_overlap false") == 0
    assert _overlap(**core, notes="ub_tp_comm_overlap true") == 0.5
    assert _overlap(**core, notes="TP_COMM_OVERLAP=True") == 0.5
    assert _overlap(notes="async TP") == 0.5
    assert _overlap(notes="vanilla TP") == 0


@pytest.mark.parametrize(
    ("precision", "notes", "quantised"),
    [
        ("mxfp8", "fp8-param-gather, bf16 moments", ("mxfp8",)),
        ("fp8-blockwise", "--fp8-param-gather", ("fp8-blockwise",)),
        ("fp8", "mxfp8 param gather", ("fp8",)),
        ("mxfp8", "sbatch_benchmarking.sh has no --fp8-param-gather", ()),
        ("mxfp8", "FP8_PARAM_GATHER=False", ()),
        ("nvfp4", "weights quantised before; FP8_DPA=1", ("nvfp4",)),
        ("nvfp4", "FP8_DPA=1", ()),
        ("bf16", "overlap_grad_reduce and overlap_param_gather", ()),
    ],
)
def test_words_say_whether_weights_are_gathered_in_8_bits(
    precision: str, notes: str, quantised: tuple[str, ...]
) -> None:
    (row,) = as_known([_stranger(runtime="megatron-core", precision=precision, notes=notes)])
    assert runtime_of(row).storage.quantised_weights == quantised
    (bridge,) = as_known([_stranger(runtime="megatron-bridge", precision="mxfp8", notes="FP8_PARAM_GATHER=False")])
    assert runtime_of(bridge).storage.quantised_weights == ()


@pytest.mark.parametrize(
    ("model", "said", "kernel"),
    [
        ("GPT-OSS-20B", {"runtime": "torchtitan@0.2.2"}, "flex"),
        ("GPT-OSS-20B", {"source": "commit message (#3105) of 2026-05-26"}, "flex"),
        ("GPT-OSS-20B", {"source": "a page of 2026-08"}, "newest"),
        ("Llama-4-Scout-17Bx16E", {"runtime": "torchtitan@0.1.0"}, "flex"),
        ("DeepSeek-V3-16B", {"runtime": "torchtitan@0.2.2", "source": "logs of 2025-11"}, "flex"),
        ("DeepSeek-V3-16B", {"runtime": "torchtitan@0.2.2", "source": "logs of 2025-07"}, "newest"),
        ("DeepSeek-V3-16B", {"runtime": "torchtitan@0.2.2", "source": "logs of 2025-11", "gpu": "MI300X"}, "newest"),
        ("Llama-3-8B", {"source": "commit message (#3105) of 2026-05-26"}, "newest"),
        ("Llama-3-8B", {"source": "a page of 2026-08"}, "flex"),
    ],
)
def test_models_of_torchtitan_attend_as_their_flavours_did_then(model: str, said: Row, kernel: str) -> None:
    (row,) = as_known([_stranger(model=model, compiled="yes", **said)])
    kernels = runtime_of(row).kernels
    sinks = "OSS" in model
    assert (kernels.modified_attention_kernel if sinks else kernels.attention_kernel) == kernel


@pytest.mark.parametrize(
    ("said", "loss"),
    [
        ({"source": "commit message (#641)"}, "eager"),
        ({"source": "commit message (#642)"}, "compiled"),
        ({"source": "commit message (#754)"}, "compiled"),
        ({"source": "commit message (#755)"}, "eager"),
        ({"source": "logs of 2024-10-30"}, "eager"),
        ({"source": "logs of 2024-11-30"}, "compiled"),
        ({"source": "logs of 2024-12-01"}, "eager"),
        ({"source": "logs of 2024-10-21", "notes": "fused norms, loss compiled"}, "compiled"),
        ({"source": "logs of 2024-11-30", "notes": "loss not compiled"}, "eager"),
        ({"source": "logs of 2024-11-30", "compiled": "no"}, "eager"),
    ],
)
def test_torchtitan_compiled_its_loss_for_some_weeks_of_2024(said: Row, loss: str) -> None:
    (row,) = as_known([_stranger(**({"runtime": "torchtitan@0.1.0", "compiled": "yes"} | said))])
    assert runtime_of(row).kernels.cross_entropy == loss


def test_torchtitan_may_compile_the_loss_alone() -> None:
    said = {"runtime": "torchtitan@0.2.2", "compiled": "no", "source": "logs of 2025-10"}
    for notes, loss in (("compile of the loss only", "compiled"), ('components = ["loss"]', "compiled"), ("", "eager")):
        (row,) = as_known([_stranger(notes=notes, **said)])
        assert runtime_of(row).kernels.cross_entropy == loss


@pytest.mark.parametrize(
    ("said", "behaviour", "taken"),
    [
        ({"source": "(#1500)", "gpu": "B200-SXM-180GB", "recompute": "selective"}, "attention-again", True),
        ({"source": "(#2200)", "gpu": "B200-SXM-180GB", "recompute": "selective"}, "attention-again", False),
        ({"source": "(#1500)", "gpu": "H100-SXM-80GB", "recompute": "selective"}, "attention-again", False),
        ({"notes": "torchtitan@6fc499f6f of 2025-08-14", "runtime": "torchtitan@0.2.2"}, "early-stop", True),
        ({"notes": "torchtitan@6fc499f6f of 2025-10-14", "runtime": "torchtitan@0.2.2"}, "early-stop", False),
        ({"source": "(#390)"}, "logits-until-the-next-batch", True),
        ({"source": "(#391)"}, "logits-until-the-next-batch", False),
        ({"source": "logs of 2024-06-13"}, "logits-until-the-next-batch", False),
        ({"source": "(#642)"}, "default-segments", True),
        ({"source": "(#643)"}, "default-segments", False),
        ({"source": "logs of 2024-09-30"}, "default-segments", True),
        ({"source": "logs of 2024-11-01"}, "default-segments", False),
        ({"source": "(#642)", "notes": "expandable segments"}, "default-segments", False),
        ({"runtime": "megatron-core", "notes": "PYTORCH_CUDA_ALLOC_CONF is not set"}, "no-expandable-segments", True),
        ({"runtime": "megatron-core", "notes": "expandable segments"}, "no-expandable-segments", False),
        ({"source": "(#3105)"}, "one-rotary-table", True),
        ({"source": "(#3500)"}, "one-rotary-table", False),
        ({"source": "(#3500)"}, "projections-apart", True),
        ({"source": "(#3900)"}, "projections-apart", False),
    ],
)
def test_torchtitan_does_as_it_did_when_the_run_was(said: Row, behaviour: str, taken: bool) -> None:
    named = settings()[behaviour].behaviours
    assert (named in [each.behaviours for each in _taken(_stranger(**said))]) == taken


def test_recipes_of_release_26_06_for_h100_overlap_no_exchange_of_experts() -> None:
    bridge = {"runtime": "megatron-bridge@26.06", "dataset": "a page"} | QWEN3
    (h100,) = as_known([_stranger(**bridge | {"gpu": "H100-SXM-80GB"})])
    (asked,) = as_known([_stranger(**bridge | {"gpu": "H100-SXM-80GB", "notes": "with EP overlap"})])
    assert (runtime_of(h100).overlap.fused_expert, runtime_of(asked).overlap.fused_expert) == (0, 0.32)


@pytest.mark.parametrize(
    ("said", "binds"),
    [
        ({}, False),
        ({"num_gpus": "1"}, True),
        ({"source": "Megatron-Bridge docs/performance-summary.md"}, True),
        ({"runtime": "megatron-core"}, True),
    ],
)
def test_ranks_of_verification_cards_are_bound_to_no_cores(said: Row, binds: bool) -> None:
    card = {"runtime": "megatron-bridge@26.06", "source": "examples/model_verification_cards/qwen3-8b/card.yaml, sft"}
    (row,) = as_known([_stranger(**card | said)])
    assert runtime_of(row).host.binds_ranks == binds


@pytest.mark.parametrize(
    ("said", "loss", "rope", "hidden", "gradient_bytes"),
    [
        ({"model": "GPT-OSS-20B", "notes": "full SFT, natural routing"}, "native", "off", 0, 4),
        ({"model": "GPT-OSS-20B", "notes": 'natural routing; "not performance-tuned"'}, "native", "off", 0.9, 4),
        ({"model": "GPT-OSS-20B", "notes": "natural routing; perf_recipes"}, "fused", "on", 0.9, 2),
        ({"model": "Qwen3-8B", "notes": "full SFT"}, "native", "off", 0, 4),
        ({"model": "Qwen3-30B-A3B", "notes": "full SFT"}, "fused", "off", 0.9, 4),
    ],
)
def test_recipes_that_are_not_for_performance_do_as_their_files_say(
    said: Row, loss: str, rope: str, hidden: float, gradient_bytes: int
) -> None:
    bridge = {"runtime": "megatron-bridge@26.06", "gpu": "H100-SXM-80GB", "moe_experts": "32", "dataset": "a page"}
    (row,) = as_known([_stranger(**bridge | said)])
    runtime = runtime_of(row)
    assert (runtime.kernels.cross_entropy, position_of(runtime, ROPE_FUSION)) == (loss, rope)
    assert (runtime.overlap.data_parallel, runtime.storage.gradient_bytes) == (hidden, gradient_bytes)


def test_a_recipe_says_that_one_kernel_computes_experts_without_a_graph_of_the_iteration() -> None:
    graphs = "TE CUDA graphs moe_router+moe_preprocess"
    said = {"runtime": "megatron-bridge@26.06", "precision": "mxfp8", "gpu": "GB200-NVL72-186GB", "moe_experts": "128"}
    for notes, products in ((graphs, "each"), (f"{graphs}; NVTE_CUTEDSL_FUSED_GROUPED_MLP", "fused")):
        (row,) = as_known([_stranger(**said, notes=notes)])
        assert runtime_of(row).kernels.expert_products == products


@pytest.mark.parametrize(
    ("said", "quantised"),
    [
        ({}, True),
        ({"gpu": "GB300-NVL72-288GB", "gpus_per_node": "4"}, True),
        ({"gpu": "B300-SXM-288GB"}, True),
        ({"gpu": "B200-SXM-180GB"}, False),
        ({"precision": "bf16"}, False),
        ({"notes": "cuda_graph_impl=transformer_engine"}, False),
        ({"notes": "cuda_graph_impl=transformer_engine, fp8_dot_product_attention"}, True),
        ({"model": "Qwen3-235B-A22B", "gpu": "B300-SXM-288GB"}, False),
        ({"model": "DeepSeek-V3"}, False),
        ({"model": "DeepSeek-V3", "gpu": "GB300-NVL72-288GB"}, True),
    ],
)
def test_recipes_of_one_graph_quantise_the_attention_core_but_that_of_deepseek_v3_for_gb200(
    said: Row, quantised: bool
) -> None:
    experts = {"moe_experts": "128", "moe_topk": "8", "moe_ffn": "768"}
    run = {
        "runtime": "megatron-bridge@26.06",
        "model": "Qwen3-30B-A3B",
        "gpu": "GB200-NVL72-186GB",
        "precision": "mxfp8",
    }
    (row,) = as_known([_stranger(**run | experts | said)])
    assert runtime_of(row).kernels.quantised_attention == quantised


def test_notes_of_a_job_say_how_it_starts_its_ranks_and_what_its_graphs_hold() -> None:
    notes = "torchrun, ranks not bound to cores; NCCL all-to-all, graphs of moe_router and moe_preprocess"
    detail = "Megatron-Bridge, container nvcr.io/nvidia/nemo:26.02.00"
    experts = {"moe_experts": "128", "moe_topk": "8", "moe_ffn": "768"}
    said = {"runtime": "megatron-core", "runtime_detail": detail, "software_release": "26.02", "notes": notes}
    (row,) = as_known([_stranger(**experts | said)])
    host = runtime_of(row).host
    assert (host.binds_ranks, host.graphs) == (False, "router")


def test_a_run_of_nemo_of_a_known_model_of_its_source_does_as_the_others() -> None:
    said = {"runtime": "megatron-core", "runtime_detail": "NeMo 24.07", "sp": "True", "tp": "4"}
    named = settings()["nemo-tensor-parallel-overlap"].behaviours
    assert [each.behaviours for each in _taken(_stranger(**said))] == [named]
    assert not _taken(_stranger(**said), of_new_model=False)


@pytest.mark.parametrize(
    ("release", "precision", "notes", "narrow"),
    [
        ("nemo-24.03", "fp8", "SFT on SQuAD", True),
        ("nemo-24.07", "fp8-delayed", "SFT on SQuAD", True),
        ("nemo-24.03", "fp8", "pre-training", False),
        ("nemo-24.03", "bf16", "SFT on SQuAD", False),
        ("nemo-24.11", "fp8", "SFT on SQuAD", False),
    ],
)
def test_fine_tuning_of_nemo_in_2024_keeps_states_in_bf16(
    release: str, precision: str, notes: str, narrow: bool
) -> None:
    row = _stranger(runtime=f"megatron-core@{release}", precision=precision, notes=notes)
    named = settings()["nemo-24-fine-tuning"].behaviours
    assert (named in [each.behaviours for each in _taken(row)]) == narrow


def test_words_say_whether_tensor_parallelism_of_deepspeed_divides_the_ends() -> None:
    row = _stranger(runtime="deepspeed", zero_stage="1", tp="8", dp="1", notes="vocabulary-parallel embedding and loss")
    named = settings()["divided-ends"].behaviours
    assert named in [each.behaviours for each in _taken(row)]
    assert named not in [each.behaviours for each in _taken(row | {"notes": "AutoTP"})]


def _bridge(notes: str) -> Runtime:
    (row,) = as_known([_stranger(runtime="megatron-bridge@26.04", dataset="a page", notes=notes, **QWEN3)])
    return runtime_of(row)


@pytest.mark.parametrize(
    ("options", "dispatcher", "graphs", "overlaps"),
    [
        ("moe_flex_dispatcher_backend=hybridep;", "fused", "none", False),
        ("moe_a2a_overlap=True;", "all_to_all", "none", True),
        ("cuda_graph_impl=none;", "all_to_all", "none", False),
        ("cuda_graph_impl=full_iteration;moe_flex_dispatcher_backend=deepep;", "fused", "iteration", False),
        ("cuda_graph_impl=transformer_engine;cuda_graph_scope=['attn', 'moe_router'];", "all_to_all", "parts", False),
        ("cuda_graph_impl=transformer_engine;cuda_graph_scope=['moe_router'];", "all_to_all", "router", False),
    ],
)
def test_a_recipe_has_the_options_that_the_row_lists_and_no_others(
    options: str, dispatcher: str, graphs: str, overlaps: bool
) -> None:
    runtime = _bridge(RECIPE + options)
    assert (runtime.communication.dispatcher, runtime.host.graphs) == (dispatcher, graphs)
    assert (runtime.overlap.expert > 0) == overlaps
    assert _bridge(RECIPE + "cpu_offloading_num_layers=20").activations.offloaded_layers == 20


def test_layers_that_wait_on_the_host_are_those_that_a_row_of_megatron_core_lists_too() -> None:
    row = _stranger(runtime="megatron-core", runtime_detail="NeMo 25.07", notes="cpu_offloading_num_layers=95")
    assert runtime_of(as_known([row])[0]).activations.offloaded_layers == 95


def test_modules_that_wait_on_the_host_are_those_that_a_row_lists() -> None:
    row = _stranger(
        runtime="megatron-core", runtime_detail="Megatron-core 0.17", notes="offload_modules=core_attn,attn_proj"
    )
    assert runtime_of(as_known([row])[0]).activations.offloaded_modules == ("core_attn", "attn_proj")


@pytest.mark.parametrize(
    ("runtime_detail", "dispatcher", "kernels"),
    [
        ("Megatron-Bridge, alltoall", "all_to_all", []),
        ("Megatron-Bridge, moe_flex_dispatcher_backend=hybridep", "fused", ["hybrid_ep"]),
        ("Megatron-Bridge, moe_flex_dispatcher_backend=deepep", "fused", ["deep_ep"]),
        ("Megatron-Bridge", "fused", ["hybrid_ep", "deep_ep"]),
    ],
)
def test_an_option_of_the_dispatcher_goes_before_those_that_notes_name(
    runtime_detail: str, dispatcher: str, kernels: list[str]
) -> None:
    row = _stranger(
        runtime="megatron-bridge",
        runtime_detail=runtime_detail,
        notes="HybridEP is faster, DeepEP slower than this",
        moe_experts="8",
    )
    behaviours = [each for taken in _taken(row) for each in taken.behaviours]
    assert {f"dispatcher={dispatcher}"} == {each for each in behaviours if each.startswith("dispatcher")}
    assert [f"fused_kernels={each}" for each in kernels] == [each for each in behaviours if "kernels" in each]


def test_what_a_row_says_that_it_has_not_is_not_taken() -> None:
    assert _bridge(RECIPE + "HybridEP").communication.dispatcher == "fused"
    assert _bridge("no DeepEP; without HybridEP; not EP overlap").replace(replaced=()) == _bridge("").replace(
        replaced=()
    )


def test_recipes_that_rows_list_are_read_as_they_were_by_hand() -> None:
    listed = [
        row for row in read_rows() if row["dataset"] == "bridge" and "recipe " in row["notes"] and "@" in row["notes"]
    ]
    listed = [row for row in listed if not OTHER_RECIPE & {*row["settings"].split(";")}]
    assert len(listed) > 100
    for row in listed:
        bare = row | {"settings": "", "with": "", "dataset": "a stranger", "config_key": "", "runtime": "megatron-core"}
        (read,) = as_known([bare])
        by_words, by_hand = runtime_of(read), runtime_of(row)
        for one, other in (
            (by_words.communication.dispatcher, by_hand.communication.dispatcher),
            (by_words.host.graphs, by_hand.host.graphs),
            (by_words.overlap.expert, by_hand.overlap.expert),
            (by_words.kernels.expert_products, by_hand.kernels.expert_products),
            (by_words.activations.offloaded_layers, by_hand.activations.offloaded_layers),
        ):
            assert one == other or not row["moe_experts"], row["id"]


@pytest.mark.parametrize(
    ("said", "refused"),
    [
        ({"source": "README_70b.md table Llama3 70b Finetuning LORA BF16"}, True),
        ({"notes": "QLoRA of 4 bits"}, True),
        ({"notes": "full fine-tuning, no LoRA"}, False),
        ({"notes": "latent attention (--kv-lora-rank 512, --q-lora-rank 1536)"}, False),
    ],
)
def test_adapters_are_refused(said: Row, refused: bool) -> None:
    (row,) = as_known([_stranger(**{"source": ""} | said)])
    assert bool(row["refused"]) == refused
    if refused:
        with pytest.raises(NotModelled, match="LoRA"):
            read_case(row)


@pytest.mark.parametrize(
    ("said", "position", "cross_entropy"),
    [
        ({"runtime": "accelerate", "notes": "fused linear cross-entropy (Liger); FA4"}, "on", "fused_linear"),
        ({"runtime": "deepspeed", "notes": "packed; --use_liger_kernel"}, "on", "fused_linear"),
        ({"runtime": "accelerate", "notes": "Liger kernels with its plain cross-entropy"}, "in_place", "in_place"),
        ({"runtime": "accelerate", "notes": "no Liger"}, "off", "eager"),
        ({"runtime": "accelerate", "notes": "Liger off; FA4"}, "off", "eager"),
    ],
)
def test_kernels_of_liger_are_read(said: Row, position: str, cross_entropy: str) -> None:
    (row,) = as_known([_stranger(**said, recompute="full", zero_stage="3")])
    runtime = runtime_of(row)
    assert (position_of(runtime, LIGER), runtime.kernels.cross_entropy) == (position, cross_entropy)


def test_kernels_that_a_run_does_without_are_read() -> None:
    notes = "unfused cross-entropy; gradient_accumulation_fusion=false; no fused permutation"
    (row,) = as_known([_stranger(runtime="megatron-core", notes=notes, **QWEN3)])
    runtime = runtime_of(row)
    assert (runtime.kernels.cross_entropy, runtime.kernels.gradient_accumulation) == ("unfused", "unfused")
    assert position_of(runtime, PERMUTE_FUSION) == "off"


def test_rows_of_the_project_are_priced_as_their_words_say() -> None:
    otherwise = set()
    for row in map(normalised, read_rows()):
        if row["refused"]:
            continue
        said = row
        for meaning in meanings():
            if meaning.says and (taken := meaning.taken(row, of_new_model=False)):
                said = said | {"with": with_behaviours_over(said["with"], taken.behaviours)}
        if runtime_of(said).replace(replaced=()) != runtime_of(row).replace(replaced=()):
            otherwise.add(row["id"])
    assert otherwise == {"BRIDGE-173"}  # its table names the recipe of the release before


def test_settings_that_meanings_name_are_of_their_frameworks() -> None:
    owned = [(name, each) for each in meanings() for name in each.settings if settings()[name].runtimes]
    assert owned
    for name, meaning in owned:
        runtimes = {base_runtime(framework).framework for framework in meaning.frameworks}
        assert runtimes <= {*settings()[name].runtimes}, (name, meaning.frameworks)


def test_a_stranger_is_priced_so_and_says_it() -> None:
    (row,) = as_known([_stranger(source="logs of 2025-03-04", compiled="True", params_b="1,026")])
    case = read_case(row)
    assert case.inputs.runtime.kernels.cross_entropy == "eager"
    assert case.plan.recompute == Recompute.FULL
    for words in (
        "every layer recomputed, as torchtitan's own",
        "the loss is not compiled, by the date of its source",
    ):
        assert words in row["assumed"]


def test_states_of_a_stranger_are_priced_and_said() -> None:
    (row,) = as_known([_stranger(runtime="pytorch-fsdp1", precision_detail="all bf16")])
    storage = read_case(row).inputs.runtime.storage
    assert (storage.weight_bytes, storage.moment_bytes, storage.gradient_bytes) == (2, 2, 2)
    assert "gradients reduced in bf16, by what the row says of its precision" in row["assumed"]
    (silent,) = as_known([_stranger(runtime="pytorch-fsdp1", precision_detail="bf16")])
    assert (silent["with"], silent["assumed"]) == ("", "")
    (named,) = as_known([_stranger(runtime="pytorch-fsdp1", precision_detail="all bf16", settings="unfused-adamw")])
    assert named["with"] == ""


def test_modules_are_taken_from_siblings_where_the_row_recomputes_some_alone() -> None:
    """Rows of MLPerf that print no recomputation were refused with the modules of the others of their model."""
    rows = [row for row in read_rows() if row["dataset"] == "mlperf" and row["model"] == "DeepSeek-V3"]
    strangers = as_strangers(rows)
    assert {row["recompute"] for row in rows} == {"none", "selective"}
    assert all(read_case(row).plan.recompute != Recompute.FULL for row in strangers)
    assert not any(row["recompute_modules"] for row in strangers if row["recompute"] == "none")


@pytest.mark.parametrize(
    ("source", "notes", "loss"),
    [
        ("NVIDIA-NeMo/Automodel (pull request 2394, 2026-06-08)", "benchmark recipe", "half"),
        ("NVIDIA-NeMo/Automodel (pull request 573)", "benchmark recipe", "eager"),
        ("NVIDIA-NeMo/Automodel (pull request 2394, 2026-06-08)", "fine-tuning", "eager"),
    ],
)
def test_benchmarks_of_automodel_keep_the_loss_that_they_configure(source: str, notes: str, loss: str) -> None:
    row = _stranger(runtime="automodel", source=source, notes=notes, compiled="no", recompute="none")
    assert read_case(as_known([row])[0]).inputs.runtime.kernels.cross_entropy == loss


@pytest.mark.parametrize(
    ("said", "whole"),
    [
        ({"software_release": "2025-10"}, False),
        ({"software_release": "2025-10", "notes": "enable_fsdp_optimizations: true"}, True),
        ({"software_release": "2025-12"}, True),
        ({"software_release": "2025-10", "moe_experts": ""}, True),
    ],
)
def test_automodel_summed_gradients_of_experts_in_every_micro_batch_in_2025(said: Row, whole: bool) -> None:
    row = _stranger(runtime="automodel", compiled="no", recompute="none", **QWEN3 | {"notes": ""} | said)
    read = with_behaviours_over("", [each for one in _taken(row) for each in one.behaviours])
    assert ("accumulates_whole=false" in read) != whole


@pytest.mark.parametrize(
    ("runtime", "month", "dp", "whole"),
    [
        ("accelerate", "2025-08", "8", False),
        ("accelerate", "2025-11", "8", True),
        ("accelerate", "2025-08", "1", True),
        ("pytorch-fsdp1", "2025-08", "8", True),
    ],
)
def test_accelerate_reduced_in_every_micro_batch_of_fsdp2_until_1_11(
    runtime: str, month: str, dp: str, whole: bool
) -> None:
    row = _stranger(runtime=runtime, runtime_detail="axolotl", software_release=month, dp=dp, compiled="no")
    read = with_behaviours_over("", [each for one in _taken(row) for each in one.behaviours])
    assert ("accumulates_whole=false" in read) != whole


def test_loops_of_bionemo_sum_gradients_in_every_micro_batch() -> None:
    row = _stranger(runtime="automodel", runtime_detail="bionemo-recipes: Transformer Engine layers, FSDP2")
    read = read_case(as_known([row])[0]).inputs.runtime
    assert (read.sharding.accumulates_whole, read.kernels.elementwise) == (False, "fused")
    asked = read_case(as_known([row | {"runtime_detail": "NeMo AutoModel"}])[0]).inputs.runtime
    assert asked.sharding.accumulates_whole


@pytest.mark.parametrize(
    ("said", "loss"),
    [
        ({"notes": "loss chunked_nll"}, "chunked"),
        ({"runtime_detail": "TRL SFTTrainer", "software_release": "2026-08"}, "chunked"),
        ({"runtime_detail": "TRL SFTTrainer", "software_release": "2026-08", "notes": "loss_type=nll"}, "eager"),
        ({"runtime_detail": "TRL SFTTrainer", "software_release": "2025-08"}, "eager"),
    ],
)
def test_the_loss_of_trl_is_computed_by_parts_since_2026(said: Row, loss: str) -> None:
    row = _stranger(runtime="accelerate", compiled="no", recompute="none", **said)
    assert read_case(as_known([row])[0]).inputs.runtime.kernels.cross_entropy == loss


@pytest.mark.parametrize(
    "notes", ["inputs of checkpointed layers in pinned host memory", "activation_offloading: true"]
)
def test_words_say_that_inputs_of_checkpointed_layers_wait_on_the_host(notes: str) -> None:
    row = _stranger(runtime="accelerate", notes=notes)
    read = [as_known([row | {"recompute": recompute}])[0] for recompute in ("full", "none")]
    assert [read_case(each).inputs.runtime.activations.offloaded_layers for each in read] == [10_000, 0]
