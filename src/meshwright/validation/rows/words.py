"""What a row leaves unsaid and its source, or the framework that ran it, does say: every table with its sources."""

from __future__ import annotations

from collections.abc import Mapping
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
    shared_expert: bool = False
    """Every token visits one expert more, as wide as the others."""


class StandIn(NamedTuple):
    """What a framework that the catalogue has not is priced as."""

    runtime: str
    changes: Mapping[str, Any] = {}
    """Behaviours that it has otherwise."""
    without: tuple[str, ...] = ()
    """Rules that it does not have."""
    told: str = ""


class Said(NamedTuple):
    """Words of a row's notes, details or source, and what they mean."""

    word: str
    """In lower case."""
    meaning: str
    unless: tuple[str, ...] = ()
    """Words, in lower case, of rows that it does not hold for."""
    columns: tuple[tuple[str, str], ...] = ()
    """Columns, and what they hold in the rows that it holds for."""


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

FRAMEWORKS = {
    "llm-foundry": "llm-foundry",
    "Megatron-Bridge": "megatron-bridge",
    "sail-sg zero-bubble": "zero-bubble",
}
"""Runtimes of the catalogue that a row names in words, beside the library that its column `runtime` gives."""

LIKE = {
    "galvatron": StandIn(
        "torchtitan",
        {
            "gradient_bytes": 2,
            "ends_apart": True,
            "ends_as_layers": (False,),
            "receives_ahead": False,
            "exchange_pools": False,
        },
        ("microbatches_fill_stages",),
        "with gradients reduced in bf16 and both ends as units of their own (Hetu-Galvatron, core/runtime/parallel.py)",
    ),
    "paddle": StandIn("megatron-core"),
    "pytorch-eager": StandIn("pytorch-ddp"),
}
"""Frameworks that the catalogue has not."""

FAMILY = {
    **dict.fromkeys(
        ("megatron-core", "megatron-lm", "megatron-deepspeed", "internevo", "nanotron", "galvatron"), "Megatron"
    ),
    **dict.fromkeys(("pytorch-fsdp1", "torchtitan"), "FSDP"),
}
"""Frameworks, as the column `runtime` calls them, that work alike and are scored together; any other is `other`."""

RECIPES = {"fp8": "fp8-delayed", "fp8 (TE amp_fp8; MP Mode DEFAULT)": "fp8-delayed"}
"""Recipes that a row's precision details stand for, where `precision` is no recipe's name: fp8 without another word is
assumed to be Transformer Engine's delayed scaling (NeMo-Framework-Launcher, gpt3/175b_performance.yaml:
`fp8_amax_history_len: 1024`; for Composer assumed alike)."""

COMPILED_LOSS = "the cross-entropy is compiled with the model (torchtitan PR 642; off from PR 755 to PR 1033)"
ENDS_APART = "embedding and head are units of their own, the last layer is resharded (torchtitan PR 1094, 2025-08)"
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
        "nemotron4-340b",
        "the optimizer keeps its moments in bf16 (NeMo-Framework-Launcher, nemotron/nemotron_340b.yaml: `dtype: bf16`)",
    ): {"moment_bytes": 2},
    Said("hybridep", "tokens travel by one fused kernel (HybridEP)"): {"dispatcher": "fused"},
    Said("deepep", "tokens travel by one fused kernel (DeepEP)"): {"dispatcher": "fused"},
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
}
"""What a row's notes say of the job beyond its columns."""

ENDS_AS_LAYERS = {"Llama3.1-405B": "Megatron-Bridge", "Qwen3-235B": "Megatron-Bridge"}
"""Models, by how their names begin, whose ends a framework counts as layers when it splits a pipeline
(Megatron-Bridge, recipes: `account_for_embedding_in_pipeline_split = True`, `account_for_loss_in_pipeline_split`)."""

SEGMENTED = "Megatron-Bridge"
"""Details of a runtime whose launcher fills racks with equal segments of nodes (Megatron-Bridge,
scripts/performance/utils/executors.py: `--segment`, the largest divisor of the nodes that a rack holds)."""

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
    Said("power limited", "the accelerators' lower power limit is not known"),
    Said("development server", "the server's missing or slower links are not known"),
)
"""What a row says and no prediction heeds; the row is scored all the same."""

PART_OF_THE_LAYERS = {"every-other-layer", "fraction-of-layers"}
"""Kinds of selective recomputation that take some layers whole; a fraction that is not printed is taken as a half."""

OWN_SELECTION = {"", "per-op"}
"""Kinds of selective recomputation, as rows name them, that a runtime's own `selective` stands for; others are modules
with plus signs between, or nothing that is modelled."""
