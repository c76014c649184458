"""Launch settings: each is told where a plan asks for it and nowhere else, and its file names only what there is."""

from __future__ import annotations

import string
from typing import Any

import pytest

from meshwright.answers.launch.files import launch_files
from meshwright.errors import UnknownName
from meshwright.launch.facts import facts_of
from meshwright.launch.fields import fields_of
from meshwright.launch.framework import framework_files, launch_file
from meshwright.launch.settings import LaunchSetting, launch_settings
from meshwright.launch.spelling import settings_of
from meshwright.launch.table import launch_table, table_of
from meshwright.layout.plan import Plan
from meshwright.specs import catalog
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.inputs import Inputs
from meshwright.specs.precision import read_precision
from meshwright.specs.reading.model import read_model
from meshwright.specs.runtime import read_runtime
from strategies import dense_model, latent, llama_8b, question, with_experts

LLAMA = question(llama_8b(), "8x8:h100", global_batch=256, precision="bf16")
EXPERTS = with_experts(LLAMA, 64)
GATED = question(read_model("qwen1.5-moe-a2.7b"), "8x8:h100")
UNFUSED_ROPE = LLAMA.replace(runtime=with_behaviours(LLAMA.runtime, ["rope_fusion=off"]))
UNFUSED_ACTIVATION = LLAMA.replace(runtime=with_behaviours(LLAMA.runtime, ["activation_fusion=off"]))
ALONE = EXPERTS.replace(runtime=with_behaviours(EXPERTS.runtime, ["grouped_experts=off"]))
UNFUSED = EXPERTS.replace(runtime=with_behaviours(EXPERTS.runtime, ["permute_fusion=off"]))
OVERLAPPED = EXPERTS.replace(runtime=with_behaviours(EXPERTS.runtime, ["overlap.expert=0.66"]))
GRAPHED, PARTS_GRAPHED = (
    LLAMA.replace(runtime=with_behaviours(LLAMA.runtime, [f"host.graphs={each}"])) for each in ("iteration", "parts")
)
MODULES = ["offloaded_modules=core_attn+attn_proj"]
MODULES_ON_HOST = LLAMA.replace(runtime=with_behaviours(LLAMA.runtime, MODULES))
GRAPHED_ON_HOST = LLAMA.replace(runtime=with_behaviours(LLAMA.runtime, [*MODULES, "host.graphs=iteration"]))
HALF = LLAMA.replace(job=LLAMA.job.replace(gradients="half"))
WIDE = LLAMA.replace(job=LLAMA.job.replace(gradients="fp32"))
EIGHT_BITS = LLAMA.replace(job=LLAMA.job.replace(precision="fp8-blockwise"))
BLACKWELL = question(llama_8b(), "8x8:b200", global_batch=256, precision="bf16")
ON_A100 = question(llama_8b(), "8x8:a100", "megatron-bridge", global_batch=256)
ON_4090 = question(llama_8b(), "1x8:rtx-4090", "megatron-bridge", global_batch=256)
ON_MI300X = question(llama_8b(), "1x8:mi300x", "megatron-bridge", global_batch=256)
BRIDGE_OVERLAPPED = with_experts(
    ON_A100.replace(runtime=with_behaviours(ON_A100.runtime, ["overlap.expert=0.66", "dispatcher=all_to_all"])), 64
)
VOLTA = question(llama_8b(), "8x8:v100", global_batch=256, precision="fp16")
NARROW = question(dense_model(hidden_size=2880, heads=64, head_dim=64), "8x8:h100")
DELAYED = LLAMA.replace(job=LLAMA.job.replace(precision="fp8-delayed"))
LATENT = LLAMA.replace(model=latent())
NATIVE = LLAMA.replace(runtime=LLAMA.runtime.replace(cross_entropy="native"))
DETERMINISTIC = LLAMA.replace(runtime=LLAMA.runtime.replace(deterministic="filled"))
FP16 = LLAMA.replace(job=LLAMA.job.replace(precision="fp16"))
FP16_HALF = FP16.replace(job=FP16.job.replace(gradients="half"))
PREDICTED = LLAMA.replace(model=llama_8b().replace(mtp_layers=1))
UNTRAINED = PREDICTED.replace(job=LLAMA.job.replace(mtp_layers=0))
TWICE = with_experts(PREDICTED.replace(job=LLAMA.job.replace(mtp_layers=2)), 64)
ROUND = LLAMA.replace(model=llama_8b().replace(vocab_size=131072))
BRIDGE = question(llama_8b(), "8x8:b200", "megatron-bridge", precision="mxfp8")
BRIDGE_NATIVE = BRIDGE.replace(runtime=BRIDGE.runtime.replace(cross_entropy="native"))
BRIDGE_LATENT = question(read_model("deepseek-v2-lite"), "8x8:b200", "megatron-bridge")
QUANTISED_EXPERTS = with_experts(BRIDGE, 64)
FUSED_EXPERTS = QUANTISED_EXPERTS.replace(runtime=with_behaviours(BRIDGE.runtime, ["fused_experts=on"]))
NARROW_STATES = LLAMA.replace(runtime=LLAMA.runtime.replace(moment_bytes=2))
OFFLOADED = ("optimizer_states=offloaded",)
ON_HOST = LLAMA.replace(runtime=with_behaviours(LLAMA.runtime, OFFLOADED))
OLD = question(dense_model(hidden_size=2880, heads=64, head_dim=64), "8x8:h100", "megatron-lm")
OLD_ROUND = question(dense_model(vocab_size=131072), "8x8:h100", "megatron-lm")
ULYSSES = question(llama_8b(), "8x8:h100", "megatron-deepspeed", precision="bf16")
DEEPSPEED = question(llama_8b(), "8x8:h100", "deepspeed", precision="bf16")
DEEPSPEED_ON_HOST = DEEPSPEED.replace(runtime=with_behaviours(DEEPSPEED.runtime, OFFLOADED))
DEEPSPEED_TIED = DEEPSPEED.replace(model=DEEPSPEED.model.replace(tied_embeddings=True))
WITH_LIGER = ("liger=on",)
WITH_LOSS = ("liger=in_place",)
DEEPSPEED_LIGER = DEEPSPEED.replace(runtime=with_behaviours(DEEPSPEED.runtime, WITH_LIGER))
DEEPSPEED_LOSS = DEEPSPEED.replace(runtime=with_behaviours(DEEPSPEED.runtime, WITH_LOSS))
HALVES = DEEPSPEED.replace(job=DEEPSPEED.job.replace(precision="fp16"))
NANOTRON = question(dense_model(vocab_size=50257), "8x8:h100", "nanotron")
INTERN = question(llama_8b(), "8x8:h100", "internevo")
TITAN = question(llama_8b(), "8x8:h100", "torchtitan")
TITAN_ROWWISE = question(llama_8b(), "8x8:h100", "torchtitan", precision="fp8-rowwise")
TITAN_NEWEST = TITAN.replace(runtime=with_behaviours(TITAN.runtime, ["attention=newest"]))
A100_TITAN = question(llama_8b(), "8x8:a100", "torchtitan")
TITAN_NEWEST_ON_A100 = A100_TITAN.replace(runtime=TITAN_NEWEST.runtime)
TITAN_EXPERTS = question(read_model("qwen3-30b-a3b"), "8x8:h100", "torchtitan")
HYBRID_EP = EXPERTS.replace(runtime=with_behaviours(EXPERTS.runtime, ["dispatcher=fused", "fused_kernels=hybrid_ep"]))
TITAN_FUSED = TITAN_EXPERTS.replace(runtime=with_behaviours(TITAN_EXPERTS.runtime, ["dispatcher=fused"]))
ACCELERATE = question(llama_8b(), "8x8:h100", "accelerate")
ACCELERATE_FP8 = question(llama_8b(), "8x8:h100", "accelerate", precision="fp8")
ACCELERATE_LIGER = ACCELERATE.replace(runtime=with_behaviours(ACCELERATE.runtime, WITH_LIGER))
ACCELERATE_LOSS = ACCELERATE.replace(runtime=with_behaviours(ACCELERATE.runtime, WITH_LOSS))
ACCELERATE_ON_HOST = ACCELERATE.replace(runtime=with_behaviours(ACCELERATE.runtime, OFFLOADED))

SELECTIVE = {"recompute": "selective"}
PARTS = {**SELECTIVE, "recompute_modules": ["layernorm", "mlp"]}
ENDS = {"pp": 4, "vpp": 2, "first_stage_layers": 4}
Asked = tuple[Inputs, dict[str, Any]]
TOLD_AND_NOT: tuple[tuple[str, Asked, Asked, str], ...] = (
    (
        "connections_of_recipes",
        (BRIDGE, {}),
        (ON_A100, {}),
        "CUDA_DEVICE_MAX_CONNECTIONS=32: as its performance recipes have it on b200",
    ),
    (
        "connections_of_recipes_with_experts",
        (BRIDGE_OVERLAPPED, {"ep": 8}),
        (BRIDGE_OVERLAPPED, {"ep": 8, "tp": 2}),
        "CUDA_DEVICE_MAX_CONNECTIONS=32: as its performance recipes have it, for exchanges of experts",
    ),
    ("single_connection", (LLAMA, {"tp": 8}), (BLACKWELL, {"tp": 8}), "CUDA_DEVICE_MAX_CONNECTIONS=1: tp 8 x cp 1"),
    (
        "connections_of_expert_overlap",
        (OVERLAPPED, {"tp": 2, "ep": 8}),
        (OVERLAPPED, {"ep": 8}),
        "CUDA_DEVICE_MAX_CONNECTIONS=32: exchanges of experts",
    ),
    ("single_connection", (LLAMA, {"tp": 8}), (OVERLAPPED, {"tp": 2, "ep": 8}), "CONNECTIONS=1: tp 8 x cp 1 needs it"),
    ("several_connections", (LLAMA, {"zero": 3}), (OVERLAPPED, {"dp": 8, "tp": 2, "ep": 8, "zero": 2}), "unset or"),
    ("several_connections", (LLAMA, {"zero": 3}), (LLAMA, {"zero": 1}), "no CUDA_DEVICE_MAX_CONNECTIONS: unset or"),
    (
        "megatron_fsdp",
        (LLAMA, {"dp": 8, "zero": 2}),
        (LLAMA, {"zero": 1}),
        "--ckpt-format fsdp_dtensor and no --use-tp-pp-dp-",
    ),
    (
        "meta_device",
        (LLAMA, {"dp": 8, "zero": 2}),
        (GATED, {"dp": 8, "zero": 2}),
        "--init-model-with-meta-device: a rank",
    ),
    (
        "graph_of_iteration",
        (GRAPHED, {}),
        (LLAMA, {}),
        "--cuda-graph-impl full_iteration --te-rng-tracker --no-check-for",
    ),
    (
        "graphs_of_layers",
        (PARTS_GRAPHED, {}),
        (GRAPHED, {}),
        "--cuda-graph-modules attn: CUDA graphs are priced to issue",
    ),
    (
        "sharded_weights",
        (LLAMA, {"dp": 8, "zero": 3}),
        (LLAMA, {"dp": 8, "zero": 2}),
        "strategy optim_grads_params: zero 3",
    ),
    ("sharded_gradients", (LLAMA, {"dp": 8, "zero": 2}), (LLAMA, {"dp": 8, "zero": 3}), "strategy optim_grads: zero 2"),
    ("distributed_optimizer", (LLAMA, {"dp": 8, "zero": 1}), (LLAMA, {"zero": 1}), "--use-distributed-optimizer"),
    ("parameter_gather_overlap", (LLAMA, {"dp": 8}), (LLAMA, {}), "no --overlap-param-gather: with zero 0 there"),
    ("interleaving_overlap", (LLAMA, {"pp": 2, "vpp": 4}), (LLAMA, {"pp": 4, "vpp": 4}), "no --no-overlap-p2p"),
    ("tensor_overlap", (LLAMA, {"tp": 2}), (LLAMA, {"tp": 2, "sp": True}), "no --tp-comm-overlap"),
    (
        "tensor_overlap_before_ampere",
        (VOLTA, {"tp": 2, "sp": True}),
        (LLAMA, {"tp": 2, "sp": True}),
        "no --tp-comm-overlap: Transformer Engine",
    ),
    (
        "tensor_overlap_without_peer_access",
        (ON_4090, {"tp": 2, "sp": True}),
        (ON_A100, {"tp": 2, "sp": True}),
        "tp_comm_overlap: Transformer Engine, which does it, writes to the memory of the other",
    ),
    (
        "tensor_overlap_on_rocm",
        (ON_MI300X, {"tp": 2, "sp": True}),
        (ON_A100, {"tp": 2, "sp": True}),
        "overlapped tensor parallelism on mi300x needs Transformer Engine of ROCm",
    ),
    (
        "tensor_overlap_before_hopper",
        (ON_A100, {"tp": 2, "sp": True}),
        (BRIDGE, {"tp": 2, "sp": True}),
        "UB_SKIPMC=1: a100-sxm-80gb has no CUDA multicast",
    ),
    ("expert_tensor_degree", (EXPERTS, {"tp": 2}), (EXPERTS, {"tp": 2, "etp": 2}), "--expert-tensor-parallel-size 1"),
    ("expert_dispatcher", (EXPERTS, {"ep": 8}), (EXPERTS, {}), "--moe-token-dispatcher-type alltoall: the dispatcher"),
    ("unfused_activation", (UNFUSED_ACTIVATION, {}), (LLAMA, {}), "--no-bias-swiglu-fusion: activations are priced"),
    ("unfused_rope", (UNFUSED_ROPE, {}), (LLAMA, {}), "--no-rope-fusion: rotary positions are priced"),
    ("fused_activation", (BRIDGE, {}), (LLAMA, {}), "model.bias_activation_fusion True: activations are priced"),
    ("grouped_experts", (EXPERTS, {"ep": 8}), (ALONE, {"ep": 8}), "--moe-grouped-gemm: one module computes"),
    (
        "hybrid_ep_kernels",
        (HYBRID_EP, {"ep": 8}),
        (EXPERTS, {"ep": 8}),
        "NUM_OF_TOKENS_PER_CHUNK_COMBINE_API=128: HybridEP is priced on 32 multiprocessors",
    ),
    ("permute_fusion", (EXPERTS, {"ep": 8}), (UNFUSED, {"ep": 8}), "--moe-permute-fusion: fused kernels sort"),
    (
        "fused_experts",
        (FUSED_EXPERTS, {"ep": 8}),
        (QUANTISED_EXPERTS, {"ep": 8}),
        "model.moe_mlp_glu_interleave_size 32 and NVTE_CUTEDSL_FUSED_GROUPED_MLP=1: one fused kernel",
    ),
    (
        "expert_overlap",
        (OVERLAPPED, {"ep": 8}),
        (OVERLAPPED, {"ep": 8, "pp": 4}),
        "--overlap-moe-expert-parallel-comm and no",
    ),
    (
        "expert_overlap_of_pipelines",
        (EXPERTS, {"ep": 8, "pp": 4}),
        (EXPERTS, {"ep": 8, "pp": 4, "vpp": 2}),
        "it needs vpp 2",
    ),
    (
        "expert_overlap_beside_recomputation",
        (EXPERTS, {"ep": 8, "recompute": "full"}),
        (EXPERTS, {"ep": 8}),
        "refuses it where experts are recomputed",
    ),
    ("expert_overlap_of_prediction", (TWICE, {"ep": 8}), (EXPERTS, {"ep": 8}), "and this plan trains 2"),
    ("mtp_layers", (PREDICTED, {"pp": 2}), (LLAMA, {}), "--mtp-num-layers 1: on the stage of the head"),
    ("no_mtp_layers", (UNTRAINED, {}), (PREDICTED, {}), "no --mtp-num-layers: the 1 of"),
    ("head_size", (NARROW, {}), (LLAMA, {}), "--kv-channels 64: left out, it becomes hidden size 2880 / 64 heads"),
    ("head_size", (OLD, {}), (OLD_ROUND, {}), "--kv-channels 64"),
    ("padded_vocabulary", (LLAMA, {"tp": 8}), (ROUND, {"tp": 8}), "from 128256 to 129024, a multiple of 128 x tp 8"),
    ("padded_vocabulary", (OLD, {"tp": 8}), (OLD_ROUND, {}), "a multiple of 128 x tp 8"),
    ("padded_vocabulary", (NANOTRON, {"tp": 8}), (NANOTRON, {}), "from 50257 to 50264, a multiple of 1 x tp 8"),
    (
        "recompute_layers",
        (LLAMA, {"recompute": "full", "recompute_layers": 5}),
        (LLAMA, {}),
        "block --recompute-num-layers 5",
    ),
    (
        "recompute_full",
        (LLAMA, {"recompute": "full"}),
        (LLAMA, {}),
        "--recompute-method uniform --recompute-num-layers 1",
    ),
    ("recompute_selective", (LLAMA, SELECTIVE), (LLAMA, {}), "no --recompute-method and no --recompute-num-layers:"),
    ("recompute_modules", (LLAMA, PARTS), (LLAMA, SELECTIVE), "--recompute-modules layernorm mlp: left out"),
    ("low_precision", (EIGHT_BITS, {}), (LLAMA, {}), "--bf16 --fp8-format hybrid --fp8-recipe blockwise: the job"),
    ("chunk_layers", (LLAMA, {"pp": 2, "chunk_layers": (20, 12)}), (LLAMA, {"pp": 2}), "'Et*20|t*12L': the plan's 2"),
    ("layers_of_prediction", (PREDICTED, {"pp": 4}), (LLAMA, {"pp": 4}), "chunks holds 1 of multi-token prediction"),
    (
        "uneven_layers",
        (LLAMA, {"pp": 5}),
        (LLAMA, {"pp": 4}),
        "'Et*6|t*7|t*7|t*6|t*6L': 32 layers are not divisible by 5",
    ),
    (
        "embedding_as_layer",
        (LLAMA, {"pp": 3, "embedding_as_layer": True}),
        (LLAMA, {"pp": 4}),
        "split: 33 layers for pp 3",
    ),
    (
        "head_as_layer",
        (LLAMA, {"pp": 3, "head_as_layer": True}),
        (LLAMA, {"pp": 4}),
        "--account-for-loss-in-pipeline-split",
    ),
    (
        "first_stage_layers",
        (LLAMA, ENDS),
        (LLAMA, {"pp": 4}),
        "--decoder-first-pipeline-num-layers 4: so the other",
    ),
    (
        "last_stage_layers",
        (LLAMA, {"pp": 4, "last_stage_layers": 5}),
        (LLAMA, ENDS),
        "--decoder-last-pipeline-num-layers 5",
    ),
    (
        "chunks_of_named_ends",
        (LLAMA, ENDS),
        (LLAMA, {"pp": 4, "vpp": 2}),
        "--num-virtual-stages-per-pipeline-rank 2 and no",
    ),
    (
        "microbatch_group",
        (LLAMA, {"pp": 4, "vpp": 2, "microbatch_group": 6}),
        (LLAMA, {"pp": 4, "vpp": 2}),
        "--microbatch-group-size-per-virtual-pipeline-stage 6",
    ),
    ("context_exchange", (LLAMA, {"cp": 2, "context_exchange": "all_to_all"}), (LLAMA, {}), "--cp-comm-type a2a:"),
    ("context_exchange", (LLAMA, {"cp": 16, "context_exchange": "hierarchical"}), (LLAMA, {}), "parallel-sizes 8 2:"),
    (
        "sharding_replicas",
        (LLAMA, {"dp": 8, "dp_replicate": 2}),
        (LLAMA, {}),
        "--num-distributed-optimizer-instances 2",
    ),
    ("gradients_in_fp32", (WIDE, {}), (LLAMA, {}), "--accumulate-allreduce-grads-in-fp32: gradients of 4 bytes"),
    ("gradients_in_bf16", (HALF, {}), (LLAMA, {}), "--grad-reduce-in-bf16: gradients of 2 bytes"),
    ("gradients_in_fp16", (FP16_HALF, {}), (FP16, {}), "no --accumulate-allreduce-grads-in-fp32: gradients of 2 bytes"),
    (
        "activation_offloading",
        (LLAMA, {"pp": 2}),
        (LLAMA, {}),
        "no --cpu-offloading-num-layers: it works only without pipeline parallelism, and this plan has pp 2",
    ),
    (
        "activation_offloading_of_recomputed",
        (LLAMA, {"recompute": "full"}),
        (LLAMA, {"recompute": "full", "pp": 2}),
        "no --cpu-offloading-num-layers: Megatron-core refuses it together with recomputation, and this",
    ),
    (
        "offloaded_modules",
        (MODULES_ON_HOST, {"pp": 2}),
        (LLAMA, {"pp": 2}),
        "--fine-grained-activation-offloading and NVTE_CPU_OFFLOAD_V1=1: what these modules save is priced in host",
    ),
    (
        "offloads_of_one_graph",
        (GRAPHED_ON_HOST, {}),
        (MODULES_ON_HOST, {}),
        "--fine-grained-offloading-max-inflight-offloads 1: one CUDA graph of the whole step needs to know",
    ),
    (
        "saved_activations_of_sequences",
        (LLAMA, {"tp": 2, "sp": True, "recompute": "full"}),
        (LLAMA, {"tp": 2, "recompute": "full"}),
        "no --distribute-saved-activations: sequence parallelism has already split them over the 2",
    ),
    (
        "saved_activations",
        (LLAMA, {"recompute": "full"}),
        (LLAMA, {"tp": 2, "recompute": "full"}),
        "with tp 1 there are no other ranks to distribute them to",
    ),
    ("latent_attention", (LATENT, {}), (LLAMA, {}), "--multi-latent-attention and no --group-query-attention"),
    ("deterministic", (DETERMINISTIC, {}), (LLAMA, {}), "--deterministic-mode: kernels add up in a fixed order"),
    ("fused_cross_entropy", (BRIDGE, {}), (BRIDGE_NATIVE, {}), "model.cross_entropy_fusion_impl te"),
    ("native_cross_entropy", (NATIVE, {}), (LLAMA, {}), "--cross-entropy-fusion-impl native"),
    ("quantised_weights", (BRIDGE, {}), (EIGHT_BITS, {}), "mixed_precision.reuse_grad_buf_for_mxfp8_param_ag True: "),
    (
        "narrow_optimizer_states",
        (NARROW_STATES, {}),
        (LLAMA, {}),
        "--exp-avg-sq-dtype bf16: optimizer states are priced with 8 bytes",
    ),
    ("quantised_end_layers", (DELAYED, {}), (LLAMA, {}), "no --first-last-layers-bf16: fp8-delayed quantises all 32"),
    ("layer_kinds", (BRIDGE_LATENT, {}), (BRIDGE, {}), "model.transformer_layer_spec get_gpt_decoder_block_spec: with"),
    ("pipeline_precision", (BRIDGE, {"pp": 2}), (BRIDGE, {}), "model.pipeline_dtype bf16: pp 2 has no default"),
    (
        "plain_engine",
        (ULYSSES, {"zero": 3}),
        (ULYSSES, {}),
        "--no-pipeline-parallel: the pipeline engine refuses zero 3",
    ),
    ("single_connection_of_sequence", (ULYSSES, {"tp": 8, "sp": True}), (ULYSSES, {"tp": 8}), "CONNECTIONS=1: sp with"),
    (
        "partial_offloading",
        (DEEPSPEED, {"zero": 2}),
        (DEEPSPEED, {"zero": 3}),
        "no zero_optimization.offload_optimizer.ratio",
    ),
    ("offloaded_states", (ON_HOST, {}), (LLAMA, {}), "--optimizer-cpu-offload --use-precision-aware-optimizer"),
    ("offloaded_states", (DEEPSPEED_ON_HOST, {}), (DEEPSPEED, {}), "zero_optimization.offload_optimizer.device cpu"),
    ("offloaded_weights", (ACCELERATE_ON_HOST, {}), (ACCELERATE, {}), "fsdp_config.fsdp_offload_params: weights"),
    ("liger_kernels", (ACCELERATE_LIGER, {}), (ACCELERATE, {}), "use_liger_kernel True: kernels of Liger are priced"),
    ("liger_kernels", (DEEPSPEED_LIGER, {}), (DEEPSPEED, {}), "use_liger_kernel True: kernels of Liger are priced"),
    ("liger_loss", (ACCELERATE_LOSS, {}), (ACCELERATE_LIGER, {}), "cross_entropy true and fused_linear_cross_entropy"),
    ("liger_loss", (DEEPSPEED_LOSS, {}), (DEEPSPEED_LIGER, {}), "cross_entropy true and fused_linear_cross_entropy"),
    ("divided_logits", (DEEPSPEED_TIED, {"tp": 2}), (DEEPSPEED, {"tp": 2}), "divided over 2 tensor-parallel ranks"),
    ("half_optimizer_states", (DEEPSPEED, {}), (HALVES, {}), "bf16_master_weights_and_grads; with bf16"),
    ("pipeline_engine", (NANOTRON, {"pp": 2}), (NANOTRON, {}), "parallelism.pp_engine 1f1b: left out, pp 2"),
    (
        "reduce_scatter_mode",
        (NANOTRON, {"tp": 2, "sp": True}),
        (NANOTRON, {"tp": 2}),
        "tp_mode REDUCE_SCATTER: left out",
    ),
    ("interleaved_overlap", (INTERN, {"pp": 4, "vpp": 2}), (INTERN, {"pp": 4}), "interleaved_overlap True: vpp 2"),
    (
        "sequence_parallel_mode",
        (INTERN, {"tp": 2, "sp": True}),
        (INTERN, {"tp": 2}),
        "parallel.tensor.mode msp: or fsp",
    ),
    ("pipeline_without_graphs", (TITAN, {"pp": 2}), (TITAN, {}), "training.disable_cuda_graphs True: CUDA graphs"),
    (
        "pipeline_schedule",
        (TITAN, {"pp": 4, "vpp": 2, "schedule": "zb-v"}),
        (TITAN, {"pp": 4}),
        "ZBVZeroBubble: left out",
    ),
    (
        "pipeline_micro_batch",
        (TITAN, {"pp": 2, "micro_batch": 2, "num_microbatches": 8}),
        (TITAN, {}),
        "pipeline_parallel_microbatch_size 2: left out",
    ),
    (
        "chunk_layers",
        (TITAN, {"pp": 2, "chunk_layers": (20, 12)}),
        (TITAN, {"pp": 2}),
        "model_part 20, 12: the layers of 2",
    ),
    ("layers_per_stage", (TITAN, {"pp": 2, "vpp": 3}), (TITAN, {"pp": 2, "vpp": 2}), "layers_per_stage 6: it cuts 32"),
    ("uncut_layers", (TITAN, {"pp": 5, "vpp": 3}), (TITAN, {"pp": 2, "vpp": 3}), "no layers per stage cut 32 into 15"),
    (
        "first_stage_less_layers",
        (TITAN, {"pp": 4}),
        (TITAN, {"pp": 4, "embedding_as_layer": True}),
        "first_stage_less_layers 0",
    ),
    (
        "last_stage_less_layers",
        (TITAN, {"pp": 4}),
        (TITAN, {"pp": 4, "head_as_layer": True}),
        "last_stage_less_layers 0",
    ),
    (
        "expert_dispatcher",
        (TITAN_FUSED, {"ep": 8}),
        (TITAN_FUSED, {}),
        "moe_comm_backend deepep: the dispatcher that is priced for ep 8",
    ),
    ("quantised_by_torchao", (TITAN_ROWWISE, {}), (TITAN, {}), "model_spec.converters float8 rowwise: its kernels"),
    ("attention_backend", (TITAN_NEWEST, {}), (TITAN, {}), "attn_backend varlen: the attention that is priced"),
    ("attention_backend", (TITAN_NEWEST, {"cp": 2}), (TITAN, {"cp": 2}), "attn_backend flex_flash: the attention"),
    ("attention_backend", (TITAN_NEWEST_ON_A100, {"cp": 2}), (TITAN, {"cp": 2}), "attn_backend flex: the attention"),
    (
        "context_parallel_types",
        (TITAN, {"cp": 2}),
        (TITAN, {}),
        "spmd_types and FlexAttention (flex or",
    ),
    (
        "batch_of_replicas",
        (DEEPSPEED, {"tp": 4, "micro_batch": 2}),
        (DEEPSPEED, {"micro_batch": 2}),
        "no train_batch_size: it would count every sequence on all 4 tensor-parallel ranks",
    ),
    (
        "fully_sharded_version",
        (ACCELERATE, {"zero": 3}),
        (ACCELERATE, {"dp": 8}),
        "fsdp_config.fsdp_version 2: left out",
    ),
    (
        "one_sequence_split",
        (ACCELERATE, {"cp": 4}),
        (ACCELERATE, {}),
        "no parallelism_config_sp_size: only one of this and parallelism_config_cp_size 4",
    ),
    (
        "loading_beside_torchao",
        (ACCELERATE_FP8, {"dp": 64, "zero": 3}),
        (ACCELERATE, {"dp": 64, "zero": 3}),
        "fsdp_config.fsdp_cpu_ram_efficient_loading False: with products of torchao in 8 bits accelerate refuses",
    ),
    (
        "gathers_beside_torchao",
        (ACCELERATE_FP8, {"dp": 64, "zero": 3}),
        (ACCELERATE, {"dp": 64, "zero": 3}),
        "fp8_config.enable_fsdp_float8_all_gather False: weights are priced as gathered in 2 bytes",
    ),
)
ALWAYS = {"batch_triple", "sequence_lengths", "weight_shards"}
NAMES = framework_files("settings")


def told(asked: Asked) -> dict[str, LaunchSetting]:
    """What a launch must set, by name."""
    inputs, fields = asked
    return {setting.name: setting for setting in launch_settings(Plan(**fields), inputs)}


def test_every_setting_of_every_file_has_an_example() -> None:
    known = {(name, setting.name) for name in NAMES for setting in launch_file(name).settings if setting.name}
    shown = {(inputs.runtime.launch, name) for name, (inputs, _), _, _ in TOLD_AND_NOT}
    unshown = {name for _, name in known} - {name for _, name in shown} - ALWAYS
    assert (shown <= known, unshown) == (True, set())


@pytest.mark.parametrize(("name", "asked", "other", "text"), TOLD_AND_NOT, ids=[each[0] for each in TOLD_AND_NOT])
def test_a_setting_is_told_where_a_plan_asks_for_it_and_nowhere_else(
    name: str, asked: Asked, other: Asked, text: str
) -> None:
    line = str(told(asked)[name])
    assert text in line
    assert "\n" not in line
    assert name not in told(other)


@pytest.mark.parametrize("name", framework_files("fields"))
def test_what_is_told_has_one_place_that_writes_it(name: str) -> None:
    table = launch_table(name)
    rows, set_there = {row.key for row in table.rows.values()}, {key for each in table.settings for key in each.set}
    for setting in (each for each in table.settings if each.name):
        assert {*setting.tells} <= table.keys | set_there, setting
        assert not setting.every_value.keys() & rows, setting
        assert not setting.every_value.keys() & {*setting.tells}, setting


WRITTEN = [asked for _, *both, _ in TOLD_AND_NOT for asked in both if table_of(asked[0].runtime.id)]


@pytest.mark.parametrize("asked", WRITTEN)
def test_what_is_told_is_what_is_written(asked: Asked) -> None:
    inputs, plan = asked[0], Plan(**asked[1])
    name = table_of(inputs.runtime.id)
    assert name
    otherwise = {key for each in launch_table(name).settings for key in each.told}
    table = launch_table(name)
    written = table.as_recipe(settings_of(fields_of(plan, inputs), facts_of(plan, inputs), table))
    for setting in launch_settings(plan, inputs):
        for key in setting.set.keys() - otherwise:
            words = written[key] if isinstance(written[key], list) and not table.recipe else [written[key]]
            assert str(setting.set[key]) == " ".join(map(str, words)), setting
        assert not {key for key in setting.unset if written.get(key)}, setting


@pytest.mark.parametrize("asked", [asked for _, *both, _ in TOLD_AND_NOT for asked in both])
def test_nobody_who_writes_recipes_is_told_flags(asked: Asked) -> None:
    if asked[0].runtime.launch == "megatron-lm":
        inputs = asked[0].replace(runtime=read_runtime("megatron-bridge"))
        assert not [line for line in map(str, launch_settings(Plan(**asked[1]), inputs)) if "--" in line]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_names_facts_that_there_are(name: str) -> None:
    facts = facts_of(Plan(), EXPERTS).keys() | fields_of(Plan(), EXPERTS).keys()
    for setting in launch_file(name).settings:
        texts = [setting.why, *setting.every_value.values(), *setting.told.values()]
        parsed = (string.Formatter().parse(text) for text in texts if isinstance(text, str))
        named = {field for text in parsed for _, field, _, _ in text if field}
        conditions = {condition.removeprefix("not ") for condition in setting.when}
        assert named | conditions | ({setting.by} if setting.by else set()) <= facts, setting
        assert bool(setting.source) == bool(setting.name), setting
        assert bool(setting.instead) == bool(setting.told), setting


def test_every_file_is_some_runtimes() -> None:
    names = (*catalog.names("runtimes"), "torchtitan@0.2.2")
    told = {name for name in NAMES if any(each.name for each in launch_file(name).settings)}
    assert {read_runtime(name).launch for name in names} - {""} == told


def test_an_earlier_release_is_told_no_setting_that_it_lacks() -> None:
    """torchtitan 0.2.2 has no CUDA graphs and no attention backend to name (v0.2.2 torchtitan/config/job_config.py)."""
    inputs = question(read_model("llama-3.1-70b"), "8x8:h100", "torchtitan@0.2.2", global_batch=16)
    asked = inputs, {"tp": 8, "pp": 4, "vpp": 2, "dp": 2, "zero": 2, "num_microbatches": 8}
    newest = inputs.replace(runtime=read_runtime("torchtitan")), asked[1]
    assert "pipeline_without_graphs" in told(newest)
    keys = {key for setting in told(asked).values() for key in setting.set}
    assert keys
    assert all(key.startswith("parallelism.pipeline_parallel_") for key in keys)


def test_a_launch_has_keys_and_values_apart_from_the_reason() -> None:
    asked = EXPERTS.replace(runtime=EXPERTS.runtime.replace(dispatcher="fused")), {"tp": 2, "ep": 8}
    assert told(asked)["expert_tensor_degree"].set == {"--expert-tensor-parallel-size": "1"}
    fused = {"--moe-token-dispatcher-type": "flex", "--moe-flex-dispatcher-backend": "deepep"}
    assert told(asked)["expert_dispatcher"].set == fused
    assert told((LATENT, {}))["latent_attention"].unset == ("--group-query-attention",)
    layout = told((LLAMA, {"pp": 5}))["uneven_layers"].set
    assert layout == {"--pipeline-model-parallel-layout": "Et*6|t*7|t*7|t*6|t*6L"}


def test_weights_have_as_many_shards_as_tensor_parallel_ranks() -> None:
    """Megatron refuses fewer, so that people are not told of 1 for every plan."""
    setting = told((LLAMA, {"tp": 8}))["weight_shards"]
    assert not setting.set
    assert str(setting).startswith("no --tensor-parallel-num-weight-shards: left out, it equals tp 8; a larger")


def test_the_length_is_told_by_the_field_that_bridge_compares() -> None:
    """Source: Megatron-Bridge@067f987df03b training/config.py L304, L1642: dataset.seq_length."""
    assert told((BRIDGE, {}))["sequence_lengths"].set == {"dataset.seq_length": "4096"}


def test_one_tensor_parallel_rank_has_no_exchange_to_overlap() -> None:
    """Megatron-LM refuses --tp-comm-overlap without sequence parallelism, and the launch was refused with it."""
    inputs = LLAMA.replace(runtime=with_behaviours(LLAMA.runtime, ["tensor_parallel_overlap=on"]))
    alone, split = Plan(dp=64, zero=1, num_microbatches=4), Plan(tp=8, sp=True, dp=8, zero=1, num_microbatches=32)
    files = [launch_files(plan, inputs, "megatron-lm").files["train.sh"] for plan in (alone, split)]
    assert ["--tp-comm-overlap" in each for each in files] == [False, True]


def test_the_batch_is_told_as_three_numbers_that_agree() -> None:
    text = str(told((DEEPSPEED, {"dp": 32, "micro_batch": 2}))["batch_triple"])
    batch = "train_batch_size 64, train_micro_batch_size_per_gpu 2 and gradient_accumulation_steps 1"
    assert text == f"{batch}: their product with dp 32 must agree"


@pytest.mark.parametrize(("cluster", "backend"), [("8x8:h100", "deepep"), ("16x4:gb200", "hybridep")])
def test_the_fused_dispatcher_is_the_one_of_the_links(cluster: str, backend: str) -> None:
    given = with_experts(question(llama_8b(), cluster, precision="bf16"), 64)
    given = given.replace(runtime=given.runtime.replace(dispatcher="fused"))
    assert f"--moe-flex-dispatcher-backend {backend}:" in str(told((given, {"ep": 8}))["expert_dispatcher"])


@pytest.mark.parametrize(
    "precision", [name for name in BLACKWELL.runtime.plans.precisions if read_precision(name).quantises]
)
def test_every_recipe_that_quantises_has_its_flags(precision: str) -> None:
    given = BLACKWELL.replace(job=BLACKWELL.job.replace(precision=precision))
    setting = told((given, {}))["low_precision"]
    assert len(setting.set) == 3
    assert setting.why == f"the job asks for {precision}"


def test_a_runtime_without_a_file_says_nothing_of_its_launch() -> None:
    assert not launch_settings(Plan(), question(llama_8b(), "1x8:h100", "pytorch-ddp"))


def test_a_file_that_nobody_has_written_is_refused() -> None:
    with pytest.raises(UnknownName, match="unknown launch 'megatron'; nearest: megatron-"):
        launch_settings(Plan(), LLAMA.replace(runtime=LLAMA.runtime.replace(launch="megatron")))


def test_a_framework_that_is_like_another_sets_a_thing_once_and_its_own_way() -> None:
    """Megatron-Bridge is launched with the cross-entropy of Transformer Engine, as its files are written."""
    inputs = question(read_model("llama-3.1-8b"), "1x8:h100", "megatron-bridge", global_batch=64)
    told = [str(each) for each in launch_settings(Plan(dp=8, zero=1, num_microbatches=8), inputs)]
    assert [each.partition(":")[0] for each in told if "cross_entropy" in each or "cross-entropy" in each] == [
        "model.cross_entropy_loss_fusion True and model.cross_entropy_fusion_impl te"
    ]
