"""What a row leaves unsaid and its source, or the framework that ran it, does say: every table with its sources."""

from __future__ import annotations

from typing import Any, NamedTuple


class Family(NamedTuple):
    """What the models of one family consist of, beyond the sizes that a row prints."""

    begins: str
    """How the names of its models begin; the first family that matches counts."""
    mlp: dict[str, Any]
    attention: dict[str, Any]
    model: dict[str, Any]
    source: str
    learned_positions: bool = False
    """It learns one embedding for each position of the sequence; else positions are rotary."""
    runtime: str = ""
    """Of rows alone whose `runtime_detail` holds this."""


class Said(NamedTuple):
    """Words of a row's notes, details or source, and what they mean."""

    word: str
    """In lower case."""
    meaning: str
    unless: tuple[str, ...] = ()
    """Words, in lower case, of rows that it does not hold for."""


SILU = {"gated": True, "activation": "silu"}
BIASED_GELU = {"gated": False, "activation": "gelu", "bias": True}
BIASES = {"qkv_bias": True, "output_bias": True}
LAYER_NORM = {"norm": "layer", "tied_embeddings": True}
FAMILIES = (
    Family("Nemotron4", {"gated": False, "activation": "relu2"}, {}, {}, "arXiv:2402.16819"),
    Family(
        "Nemotron3",
        {"gated": False, "activation": "relu2"},
        {},
        {},
        "assumed as Nemotron4; printed sizes agree to 3.3 %",
    ),
    Family(
        "GPT-", BIASED_GELU, {}, {"norm": "layer"}, "printed sizes: both ends count", runtime="Megatron-Core r0.8.0"
    ),
    Family("GPT", BIASED_GELU, {}, LAYER_NORM, "Megatron-LM, GPTModel", True),
    Family("MPT", BIASED_GELU, BIASES, LAYER_NORM, "notes of the rows; llm-foundry, models/mpt", True),
    Family("InternLM", SILU, BIASES, {}, "InternEvo, modeling_internlm.py and modules/mha.py"),
    Family("Qwen3-1.7B", SILU, {"qk_norm": "head", "head_dim": 128}, {"tied_embeddings": True}, "Qwen/Qwen3-1.7B"),
    Family("Qwen3", SILU, {"qk_norm": "head", "head_dim": 128}, {}, "Qwen/Qwen3-14B and -32B, config.json"),
    Family("Llama-3.2-1B", SILU, {}, {"tied_embeddings": True}, "meta-llama/Llama-3.2-1B, config.json"),
    Family("Llama", SILU, {}, {}, "arXiv:2307.09288 and arXiv:2407.21783"),
)

CATALOGUED = {
    "DeepSeek-V2-L4": "deepseek-v2",
    "DeepSeek-V3-16B": "deepseek-v2-lite",
    "DeepSeek-V3": "deepseek-v3",
    "GPT-OSS-120B": "gpt-oss-120b",
    "Kimi-K2": "kimi-k2",
    "Qwen3-235B-A22B": "qwen3-235b-a22b",
    "Qwen3-30B-A3B": "qwen3-30b-a3b",
}
"""Models whose latent attention, experts or windows no row prints in full, by how their names begin: the catalogue's
model with as many of its first layers as the row has. torchtitan's V3 of 16B has the sizes of V2-Lite
(arXiv:2405.04434)."""

SITE_DERATE = {"simumax-part": 1.35}
"""How much slower than the catalogue's fit a site's own matrix products run, by dataset: median over the 401 large
products that MooreThreads/SimuMax@4dcaae51 measured on its B200s (a 700 W power setting is likely)."""

FRAMEWORKS = {"llm-foundry": "llm-foundry", "sail-sg zero-bubble": "zero-bubble"}
"""Runtimes of the catalogue that a row names in words, beside the library that its column `runtime` gives."""

RECIPES = {"fp8": "fp8-delayed", "fp8 (TE amp_fp8; MP Mode DEFAULT)": "fp8-delayed"}
"""Recipes that a row's precision details stand for, where `precision` is no recipe's name: fp8 without another word is
assumed to be Transformer Engine's delayed scaling (NeMo-Framework-Launcher, gpt3/175b_performance.yaml:
`fp8_amax_history_len: 1024`; for Composer assumed alike)."""

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
        "megatron-bridge",
        "gradients are reduced in bf16, the cross-entropy is fused, fp8 weights are stored and gathered as such, and "
        "beside bf16 weights the optimizer keeps what they lack of fp32 ones (Megatron-Bridge, scripts/performance: "
        '`cfg.ddp.grad_reduce_in_fp32 = False`, `cross_entropy_fusion_impl = "te"`, `use_precision_aware_optimizer` in '
        "bf16; training/mixed_precision.py: `fp8_param_gather = True` but for blockwise)",
    ): {
        "gradient_bytes": 2,
        "cross_entropy": "fused",
        "quantised_weights": ("fp8", "fp8-delayed", "mxfp8"),
        "remainder_weights": ("bf16",),
    },
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
        "nemotron4-340b",
        "the optimizer keeps its moments in bf16 (NeMo-Framework-Launcher, nemotron/nemotron_340b.yaml: `dtype: bf16`)",
    ): {"moment_bytes": 2},
    Said("hybridep", "tokens travel by one fused kernel (HybridEP)"): {"dispatcher": "fused"},
    Said("deepep", "tokens travel by one fused kernel (DeepEP)"): {"dispatcher": "fused"},
    Said("cuda_graph_impl=full_iteration", "one CUDA graph issues every layer"): {"host_s_per_layer": 0.0},
}
"""Behaviours of the runtime that a row's notes, details or source say differently from the catalogue."""

OVERLAPS: dict[Said, dict[str, float]] = {
    Said("moe_a2a_overlap=true", "exchanges of experts run beside another micro-batch"): {"expert": 0.7},
    Said("tp-comm-overlap", "tensor-parallel collectives overlap (the row: `tp-comm-overlap ... ON`)"): {
        "tensor_parallel": 0.5
    },
    Said(
        "megatron-bridge",
        "tensor-parallel collectives overlap (Megatron-Bridge, scripts/performance: `tp_comm_overlap=True`, "
        '`False if precision == "nvfp4"`, `False` for Qwen3 235B on H100)',
        ("nvfp4", "qwen3_235b_a22b_pretrain_config_h100"),
    ): {"tensor_parallel": 0.5},
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
}
"""What a row's notes say of the job beyond its columns."""

ENDS_AS_LAYERS = {"Llama3.1-405B": "Megatron-Bridge", "Qwen3-235B": "Megatron-Bridge"}
"""Models, by how their names begin, whose ends a framework counts as layers when it splits a pipeline
(Megatron-Bridge, recipes: `account_for_embedding_in_pipeline_split = True`, `account_for_loss_in_pipeline_split`)."""

SEGMENTED = "Megatron-Bridge"
"""Details of a runtime whose launcher fills racks with equal segments of nodes (Megatron-Bridge,
scripts/performance/utils/executors.py: `--segment`, the largest divisor of the nodes that a rack holds)."""

COMPILED = {"yes": {"elementwise": "fused"}, "no": {"elementwise": "eager"}, "": {}}
"""What the column `compiled` changes in the runtime; blank: nothing."""

LEFT_OUT = (
    Said("cuda_graph_impl=transformer_engine", "CUDA graphs of parts of a layer are priced as none"),
    Said("cpu_offloading", "the way of activations to the host and back is priced as hidden"),
    Said("muon", "the Muon optimizer is priced as Adam"),
    Said("packed", "packed sequences are priced as one sequence of full length"),
    Said("vboost", "higher clocks of the matrix units (vboost) in some runs are left out"),
    Said("async tp", "asynchronous tensor parallelism is priced as the plain one"),
    Said("asynctp", "asynchronous tensor parallelism is priced as the plain one"),
    Said("chunked ce", "a cross-entropy in chunks is priced as the runtime's own"),
    Said("flexattention", "FlexAttention is priced as the runtime's own attention"),
    Said("unfused adamw", "an unfused optimizer is priced as the fused one"),
    Said("simplefsdp aot_eager", "SimpleFSDP is priced as FSDP2"),
    Said("graph_trainer", "the memory policies of graph_trainer are priced as the plain recomputation"),
    Said("power limited", "the accelerators' lower power limit is not known"),
    Said("development server", "the server's missing or slower links are not known"),
)
"""What a row says and no prediction heeds; the row is scored all the same."""

OWN_SELECTION = {"", "per-op"}
"""Kinds of selective recomputation, as rows name them, that a runtime's own `selective` stands for; others are modules
with plus signs between, or nothing that is modelled."""
