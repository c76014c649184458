"""Words: what a row says in its notes, or its source or framework for it; every table with its sources."""

from __future__ import annotations

import math
from typing import Any, NamedTuple


class Said(NamedTuple):
    """Words of a row's notes, details or source, and what they mean."""

    word: str
    """In lower case."""
    meaning: str
    unless: tuple[str, ...] = ()
    """Words, in lower case, of rows that it does not hold for."""
    columns: tuple[tuple[str, str], ...] = ()
    """Columns, and what they hold in the rows that it holds for."""


OLDER_ATTENTION = "older_hopper_attention"
"""The fitted constant of stacks before the newest attention kernels."""
COMPILED_LOSS = "the cross-entropy is compiled with the model (torchtitan PR 642; off from PR 755 to PR 1033)"
ENDS_APART = "embedding and head are units of their own, the last layer is resharded (torchtitan PR 1094, 2025-08)"
HYBRID_EP = (
    "tokens travel by one fused kernel (HybridEP, which Megatron-Bridge took on NVL72 for that release: issue 1197, "
    "pull request 1367)"
)
SAME_STREAM = "SimpleFSDP gathers on the stream that computes (torchtitan PR 1881), else it is priced as FSDP2"
COMPILED_MODEL = (("compiled", "yes"),)
SELECTIVE = (("recompute", "selective"),)

SWITCHES: dict[Said, dict[str, Any]] = {
    Said("fused cross entropy", "the cross-entropy is fused"): {"cross_entropy": "fused"},
    Said("grad_sync_dtype bf16", "gradients are kept and reduced in bf16"): {"gradient_bytes": 2},
    Said("mp mode pure", "gradients are reduced in bf16 (Composer, mixed_precision PURE)"): {"gradient_bytes": 2},
    Said(
        "large scale, >= 128 gpus",
        "FlashAttention-2 and gradients reduced in fp32 (llm-foundry, scripts/train/benchmarking/submit_benchmarks.py "
        "of these runs: `.[gpu-flash2]`, `attn_impl` flash; that extra needs Composer 0.17, whose DEFAULT is fp32)",
    ): {"gradient_bytes": 4, "attention_kernel": "flash-2"},
    Said("fms-fsdp", "gradients are reduced in bf16 (fms-fsdp, policies/mixed_precision.py)"): {"gradient_bytes": 2},
    Said(
        "first 3 layers dense",
        "the optimizer keeps its moments in bf16 (Megatron-Bridge, recipes/deepseek/deepseek_v3.py: `exp_avg_dtype = "
        "torch.bfloat16`, `exp_avg_sq_dtype`)",
    ): {"moment_bytes": 2},
    Said(
        "muon",
        "fp8 weights stand beside bf16 ones (Megatron-Bridge, kimi_llm_pretrain.py: `fp8_param_gather = False`)",
    ): {"quantised_weights": ()},
    Said(
        "dgxc-benchmarking",
        "fp8 weights are stored and gathered as such (dgxc-benchmarking, configure.sh: `+model.fp8_params`; NeMo, "
        "recipes/precision/mixed_precision.py: `fp8_params = True`)",
    ): {"quantised_weights": ("fp8-delayed",)},
    Said(
        "nemo container 25.0",
        "gradients are reduced in bf16 (NeMo, scripts/performance: `trainer.plugins.grad_reduce_in_fp32 = False`)",
        ("megatron-bridge",),
    ): {"gradient_bytes": 2},
    Said(
        "nemo 24.0",
        "gradients are reduced in bf16, and beside bf16 weights the optimizer keeps what they lack of fp32 ones "
        "(NeMo-Framework-Launcher, 175b_performance.yaml and nemotron_340b.yaml: `grad_sync_dtype: bf16`; NeMo, "
        "megatron_base_model.py: `store_param_remainders`)",
    ): {"gradient_bytes": 2, "remainder_weights": ("fp8-delayed",)},
    Said(
        "nemo 24.0",
        "fused attention is older than the newest kernels, by the container's date",
    ): {"attention_constant": OLDER_ATTENTION},
    Said(
        "nemotron4-340b",
        "the optimizer keeps its moments in bf16 (NeMo-Framework-Launcher, nemotron/nemotron_340b.yaml: `dtype: bf16`)",
    ): {"moment_bytes": 2},
    Said("hybridep", "tokens travel by one fused kernel (HybridEP)"): {"dispatcher": "fused"},
    Said("deepep", "tokens travel by one fused kernel (DeepEP)"): {"dispatcher": "fused"},
    **{
        Said("nemo container 25.11", HYBRID_EP, columns=(("model", model), ("gpu", gpu))): {"dispatcher": "fused"}
        for model in ("DeepSeek-V3", "Qwen3-235B-A22B")
        for gpu in ("GB200-NVL72-186GB", "GB300-NVL72-288GB")
    },
    Said("cuda_graph_impl=full_iteration", "one CUDA graph issues every layer"): {"host_s_per_layer": 0.0},
    **{
        Said(word, COMPILED_LOSS, columns=COMPILED_MODEL): {"cross_entropy": "compiled"}
        for word in (
            "move output .float() to loss fn",
            "async tp benchmark",
            "trainy/whitefiber",
            "torchtitan mxfp8 doc",
            "(#1690)",
        )
    },
    **{
        Said(word, ENDS_APART): {"ends_apart": True, "keeps_last_layer_gathered": False}
        for word in (
            "(#1610)",
            "(#1690)",
            "(#1881)",
            "flex_attention flavor",
            "(#3914)",
            "graph_trainer",
            "compiler toolkit",
        )
    },
    Said("memory efficient fsdp wrapping", "embedding and head are units of their own", ("without the pr",)): {
        "ends_apart": True
    },
    **{
        Said(word, SAME_STREAM): {"exchange_pools": False, "keeps_unread_products": False}
        for word in ("simplefsdp aot_eager", "graph_trainer", "compiler toolkit")
    },
    Said("chunked ce loss", "the cross-entropy takes an eighth of the logits at a time (torchtitan PR 996)"): {
        "cross_entropy": "chunked_logits"
    },
    Said("(#3914)", "the head and its cross-entropy take an eighth of the sequence at a time (torchtitan PR 2937)"): {
        "cross_entropy": "chunked"
    },
}
"""Behaviours of the runtime that a row's notes, details or source say differently from the catalogue."""

OVERLAPS: dict[Said, dict[str, float]] = {
    Said("moe_a2a_overlap=true", "exchanges of experts run beside another micro-batch"): {"expert": 0.7},
    Said("tp-comm-overlap", "tensor-parallel collectives overlap (the row: `tp-comm-overlap ... ON`)"): {
        "tensor_parallel": 0.5
    },
    Said("nvfp4", '`tp_comm_overlap = False if precision == "nvfp4"` (Megatron-Bridge, scripts/performance)'): {
        "tensor_parallel": 0.0
    },
    Said(
        "qwen3_235b_a22b_pretrain_config_h100",
        "tensor-parallel collectives do not overlap (Megatron-Bridge, scripts/performance: Qwen3 235B on H100)",
    ): {"tensor_parallel": 0.0},
}
"""Shares of communication that a row's notes, details or source say are hidden."""

JOBS: dict[Said, dict[str, Any]] = {
    Said("moe capacity factor 1 ", "experts drop and pad to a capacity factor of 1"): {"expert_capacity": 1.0},
    Said(
        "token-drop moe",
        "experts drop and pad to a capacity factor of 1 (Megatron-Bridge, apply_moe_token_drop: "
        "`moe_expert_capacity_factor: float = 1.0`)",
    ): {"expert_capacity": 1.0},
    Said("w/o mtp", "multi-token prediction is not trained"): {"mtp_layers": 0},
    Said(
        "memory_profiling_bf16_llama2-7b_all",
        "4096 tokens, though the profile's keys say seq2048: what a layer keeps, 514.5634765625 MiB, is to the byte "
        "that of 4096 in its code, and upstream's seq4096 figures are equal (tests/utils/profiler_configs.py@6f77a6cb)",
        columns=(("seq_len", "2048"),),
    ): {"sequence_length": 4096},
}
"""What a row's notes say of the job beyond its columns."""

B100_EXPONENT = math.log(1.75 / 2.25) / math.log(700 / 1000)
"""By which speed goes with power: dense bf16 of B100, 1.75 PFLOP/s at 700 W, over B200's 2.25 at 1000 (NVIDIA HGX B100
and B200; fp8 alike)."""

SITES: dict[Said, dict[str, Any]] = {
    Said(
        "power limited",
        "the accelerators draw 750 W of 1000, as others of PyTorch's B200 (pytorch/ao PR 3566), and lose in proportion "
        "what NVIDIA rates the same chip lower at 700 W (B100)",
        columns=(("gpu", "B200-SXM-180GB"),),
    ): {"site_derate": (1000 / 750) ** B100_EXPONENT},
}
"""What a row says of the accelerators beyond their name."""

ENDS_AS_LAYERS = {"Llama3.1-405B": "Megatron-Bridge", "Qwen3-235B": "Megatron-Bridge"}
"""Models, by how their names begin, whose ends a framework counts as layers when it splits a pipeline
(Megatron-Bridge, recipes: `account_for_embedding_in_pipeline_split = True`, `account_for_loss_in_pipeline_split`)."""

COMPILED: dict[str, dict[str, Any]] = {
    "yes": {"elementwise": "fused", "fused_activation": True, "keeps_unread_products": False},
    "no": {"elementwise": "eager"},
    "": {},
}
"""What the column `compiled` changes in the runtime; blank: nothing. Compiled, a layer keeps neither the activation
beside its product (34.2 s b h of Llama 8B for 41.2) nor a product that backward does not read: saved tensors of
PyTorch 2.13, backends aot_eager and inductor."""

KEEPS_EVERY_PRODUCT = (
    "graph_trainer keeps the results of all compute-intensive operators and of the weights' all-gathers (torchtitan "
    "PR 2570; graph_trainer/configs.py@0014ac2ca45a, memory_policy), which no runtime of the catalogue does"
)
NOT_MODELLED = (
    Said(
        "two-level ilp memory policy",
        "graph_trainer keeps, recomputes or offloads tensor by tensor under a memory budget (torchtitan PR 3975)",
    ),
    Said("graph_trainer", KEEPS_EVERY_PRODUCT, columns=SELECTIVE),
    Said("compiler toolkit", KEEPS_EVERY_PRODUCT, columns=SELECTIVE),
    Said(
        "nvfp4 quantization converter",
        "the last 15 % of the layers stay in bf16, and selective recomputation keeps no product in nvfp4",
        columns=(("precision", "nvfp4"),),
    ),
    Said(
        "eager float8 without compile",
        "float8 of torchao without torch.compile keeps what each of its operators makes, which is not modelled",
    ),
)
"""What a row says that nothing here stands for: it is not represented."""

LEFT_OUT = (
    Said("cuda_graph_impl=transformer_engine", "CUDA graphs of parts of a layer are priced as none"),
    Said("cpu_offloading", "the way of activations to the host and back is priced as hidden"),
    Said("muon", "the Muon optimizer is priced as Adam"),
    Said("packed", "packed sequences are priced as one sequence of full length"),
    Said("vboost", "higher clocks of the matrix units (vboost) in some runs are left out"),
    Said("async tp", "asynchronous tensor parallelism is priced as the plain one"),
    Said("asynctp", "asynchronous tensor parallelism is priced as the plain one"),
    Said("flexattention", "FlexAttention is priced as the runtime's own attention"),
    Said("unfused adamw", "an unfused optimizer is priced as the fused one"),
    Said("graph_trainer", "full and no recomputation of graph_trainer are priced as the eager ones"),
    Said("development server", "the server's missing or slower links are not known"),
)
"""What a row says and no prediction heeds; the row is scored all the same."""

PART_OF_THE_LAYERS = {"every-other-layer", "fraction-of-layers"}
"""Kinds of selective recomputation that take some layers whole; a fraction that is not printed is taken as a half."""

OWN_SELECTION = {"", "per-op"}
"""Kinds of selective recomputation, as rows name them, that a runtime's own `selective` stands for; others are modules
with plus signs between, or nothing that is modelled."""
