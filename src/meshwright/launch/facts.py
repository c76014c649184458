"""Facts: what the conditions and templates of launch settings may name of a plan and its question."""

from __future__ import annotations

from dataclasses import fields

from meshwright.cost.batch_overlap import overlaps_micro_batches
from meshwright.cost.comms.tensor import hidden_share
from meshwright.cost.compute.experts import dispatches_fused
from meshwright.cost.optimizer_states import optimizer_bytes
from meshwright.cost.shard import vocabulary_rows
from meshwright.layout.groups import context_split, expert_data_ranks
from meshwright.layout.plan import Plan
from meshwright.layout.plans import leaves_split
from meshwright.layout.splits import layers_of_chunks
from meshwright.specs.behaviours import (
    ACTIVATION_FUSION,
    GROUPED_EXPERTS,
    LIGER,
    PERMUTE_FUSION,
    ROPE_FUSION,
    position_of,
)
from meshwright.specs.choices import CONTEXT_EXCHANGE_NAMES, RECOMPUTE_NAMES, Recompute
from meshwright.specs.cluster import AMPERE
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import Model
from meshwright.specs.precision import FP32_BYTES
from meshwright.specs.recompute_modules import RecomputeModules

HOPPER = 9.0
"""From which on accelerators write to several others at once (CUDA multicast), and run `FLEX_FLASH`."""
FLEX_FLASH = "flex_flash"
"""FlexAttention by FlashAttention-4. Source: torch 2.13 _inductor/kernel/flex/flex_flash_attention.py, which imports
flash_attn.cute; torchtitan 0.3.0 models/common/config_utils.py, get_attention_config."""
MANY_EXPERTS = 32
"""From which on Megatron-core warns of a router in half precision (transformer_config.py L3119-3127)."""
CATALOGUED = (
    *("max_position_embeddings", "rope", "scoring_func", "norm_topk_prob", "topk_method", "routed_scaling_factor"),
    *("router_aux_loss_coef", "aux_loss_alpha", "seq_aux"),
)
"""How the names begin of values that entries of the catalogue have too."""
LIGER_IN_PLACE = "in_place"
"""The position of the switch for Liger with its loss that keeps logits."""
Facts = dict[str, object]


def facts_of(plan: Plan, inputs: Inputs) -> Facts:
    """Everything that a setting may name: the fields of the plan, and what follows from it and from its question."""
    named = {field.name: getattr(plan, field.name) for field in fields(Plan)}
    layers = {**_pipeline(plan), **_layers(plan, inputs)}
    return {
        **named,
        **_degrees(plan, inputs),
        **layers,
        **_recomputation(plan),
        **_model(plan, inputs),
        **_numbers(plan, inputs),
    }


def holds(condition: str, facts: Facts) -> bool:
    """Whether a condition of a setting holds: a fact is true or not nought; `not` before it, that it is.

    >>> holds("not pipeline", {"pipeline": False})
    True
    """
    name = condition.removeprefix("not ")
    return bool(facts[name]) == (name == condition)


def was_read(model: Model) -> bool:
    """Whether a model has the values of a config.json, and not only those of the catalogue."""
    return any(not key.startswith(CATALOGUED) for key in model.config_values)


def shares_states(plan: Plan, inputs: Inputs) -> bool:
    """Whether several ranks hold the same weights, of experts or of the rest, so that ZeRO can divide their states."""
    return plan.dp * plan.cp > 1 or (inputs.model.is_moe and int(expert_data_ranks(plan)) > 1)


def dispatcher_of(plan: Plan, inputs: Inputs) -> str:
    """The dispatcher that the launch sets: an all-to-all where a fused one has no other ranks to send to."""
    dispatcher = inputs.dispatcher
    return "all_to_all" if dispatcher == "fused" and not dispatches_fused(plan, inputs) else dispatcher


def _degrees(plan: Plan, inputs: Inputs) -> Facts:
    return {
        "context_exchange": CONTEXT_EXCHANGE_NAMES[plan.context_exchange],
        "context_parallel": plan.cp > 1,
        "data_parallel": shares_states(plan, inputs),
        "distributed_optimizer": plan.zero > 0 or not shares_states(plan, inputs),
        "expert_degree_differs": plan.etp != plan.tp,
        "expert_parallel": plan.ep > 1,
        "fully_sharded": plan.zero > 1,
        "replicates_shards": plan.dp_replicate > 1,
        "split_layers": plan.tp > 1 or plan.cp > 1,
        "spreads_experts": plan.ep * plan.etp > 1,
        "tensor_parallel": plan.tp > 1,
        "weights_sharded": plan.zero == 3,
    }


def _pipeline(plan: Plan) -> Facts:
    names_ends = plan.first_stage_layers + plan.last_stage_layers > 0
    names = plan.schedule.record.framework_names
    return {
        "chunks": plan.pp * plan.vpp,
        "interleaved": plan.vpp > 1,
        "leaves_split": bool(leaves_split(plan)),
        "names_ends": names_ends,
        "names_nanotron_engine": names.get("nanotron", "afab") != "afab",
        "names_torch_schedule": names.get("torch", "1F1B") != "1F1B",
        "pipeline": plan.pp > 1,
        "several_chunks_unnamed": plan.vpp > 2 and not plan.chunk_layers,
        "two_stages": plan.pp == 2,
    }


def _layers(plan: Plan, inputs: Inputs) -> Facts:
    layers, chunks, predicted = inputs.model.num_layers, plan.pp * plan.vpp, inputs.mtp_layers
    cut = layers % chunks != 0 or predicted > 0
    counted = layers + plan.embedding_as_layer + plan.head_as_layer
    per_stage = -(-counted // chunks)
    return {
        "counted_layers": counted,
        "cut_by_layers_per_stage": -(-counted // per_stage) == chunks,
        "layers": layers,
        "layers_per_stage": per_stage,
        "model_mtp_layers": inputs.model.mtp_layers,
        "mtp_layers": predicted,
        "names_chunks": bool(plan.chunk_layers) or (plan.pp > 1 and bool(leaves_split(plan)) and cut),
        "several_mtp_layers": predicted > 1,
        "stage_layers": ", ".join(map(str, layers_of_chunks(inputs, plan))),
        "uneven_chunks": layers % chunks != 0,
    }


def _recomputation(plan: Plan) -> Facts:
    full, selective = plan.recompute == Recompute.FULL, plan.recompute == Recompute.SELECTIVE
    return {
        "recompute": RECOMPUTE_NAMES[plan.recompute],
        "recompute_full": full,
        "recompute_selective": selective,
        "recomputed": plan.recompute != Recompute.NONE,
        "recomputes_beyond_attention": plan.recompute_modules != RecomputeModules.CORE_ATTENTION,
        "recomputes_exchanges": full or (selective and RecomputeModules.EXPERTS in plan.recompute_modules),
    }


def _model(plan: Plan, inputs: Inputs) -> Facts:
    model, split = inputs.model, context_split(plan, inputs)
    attention = model.layer_kinds[0].attention
    sequence = inputs.job.sequence_length
    windows = [kind.attention.window_over(sequence) is not None for kind in model.layer_kinds]
    multiple, rows = inputs.runtime.storage.vocabulary_multiple, vocabulary_rows(plan, inputs)
    own_size = attention.heads * attention.head_dim != model.hidden_size and not attention.latent
    latent = any(kind.attention.latent for kind in model.layer_kinds)
    mixed = len({kind.is_moe for kind in model.layer_kinds}) > 1
    return {
        "builds_kinds_of_layers": latent or mixed,
        "context_heads": split.heads,
        "context_ring": split.ring,
        "expert_groups": any(each.groups > 1 for each in model.mixtures),
        "experts": model.is_moe,
        "grouped_queries": attention.kv_heads != attention.heads,
        "heads": attention.heads,
        "hidden_size": model.hidden_size,
        "idle_windows": model.over(sequence) != model,
        "latent_attention": latent,
        "learned_positions": model.learned_positions,
        "model": model.name,
        "own_head_size": own_size,
        "padded_vocabulary": -(-model.vocab_size // (multiple * plan.tp)) * multiple * plan.tp,
        "read_from_config": was_read(model),
        "shared_expert": any(each.shared_ffn_size for each in model.mixtures),
        "shared_gate": any(each.shared_gate for each in model.mixtures),
        "splits_logits": plan.tp > 1 and int(rows.logits) < model.vocab_size,
        "some_windows": any(windows) and not all(windows),
        "windows": any(windows),
        "pads_vocabulary": model.vocab_size % (multiple * plan.tp) != 0,
        "vocabulary": model.vocab_size,
        "vocabulary_multiple": multiple,
    }


def _numbers(plan: Plan, inputs: Inputs) -> Facts:
    accelerator, job, runtime, recipe = inputs.cluster.accelerator, inputs.job, inputs.runtime, inputs.recipe
    ordered, split = accelerator.needs_one_queue, plan.tp > 1 or plan.cp > 1
    overlapped = any(overlaps_micro_batches(plan, inputs, kind) for kind in inputs.model.layer_kinds)
    hybrid = accelerator.domain_spans_nodes or runtime.communication.fused_kernels == "hybrid_ep"
    return {
        "accelerator": accelerator.id,
        "adapters": inputs.freezes_weights,
        "asks_for_gradients": job.gradients is not None,
        "attention_backend": _attention_backend(plan, inputs),
        "chunked_cross_entropy": inputs.runtime.entropy.sequence_pieces > 1,
        "compiles_loss": runtime.kernels.cross_entropy.endswith("compiled"),
        "compiles_model": runtime.kernels.elementwise == "fused",
        "never": False,
        "before_ampere": (accelerator.compute_capability or AMPERE) < AMPERE,
        "without_peer_access": not accelerator.peer_access,
        "on_rocm": accelerator.vendor == "AMD",
        "before_hopper": (accelerator.compute_capability or HOPPER) < HOPPER,
        "bf16": recipe.half == "bf16",
        "dispatcher": dispatcher_of(plan, inputs),
        "unfused_activation": _has_gate(inputs) and position_of(runtime, ACTIVATION_FUSION) == "off",
        "fused_activation": _fuses_gate(inputs),
        "unfused_rope": not inputs.model.learned_positions and position_of(runtime, ROPE_FUSION) == "off",
        "groups_experts": inputs.model.is_moe and position_of(runtime, GROUPED_EXPERTS) != "off",
        "fuses_permute": inputs.model.is_moe and position_of(runtime, PERMUTE_FUSION) != "off",
        "fuses_experts": inputs.model.is_moe and runtime.kernels.expert_products == "fused",
        "exchanges_by_hybrid_ep": hybrid and dispatcher_of(plan, inputs) == "fused" and plan.ep > 1,
        "expert_capacity": inputs.model.is_moe and inputs.expert_capacity is not None,
        "experts_per_domain": min(plan.ep, inputs.cluster.levels[0].size),
        "flex_backend": "hybridep" if hybrid else "deepep",
        "fused_chunk_tokens": runtime.communication.fused_chunk_tokens,
        "fused_multiprocessors": runtime.communication.fused_multiprocessors,
        "fused_cross_entropy": runtime.kernels.cross_entropy == "fused",
        "native_cross_entropy": runtime.kernels.cross_entropy == "native",
        "global_batch": job.global_batch,
        "gathers_quantised": job.precision in runtime.sharding.quantised_weight_gathers,
        "graphed": _graphed(inputs),
        "graphs_of_iteration": runtime.host.graphs == "iteration",
        "graphs_of_layers": runtime.host.graphs in ("router", "parts"),
        "gradient_bucket": runtime.sharding.gradient_bucket,
        "gradients_in_fp32": inputs.gradient_bytes == 4,
        "expands_segments": runtime.memory.fragmentation_likely == 0,
        "deepspeed_engine": runtime.family == "deepspeed",
        "deterministic": runtime.kernels.deterministic != "off",
        "gpus_per_domain": inputs.cluster.levels[0].size,
        "half": recipe.half,
        "hybrid_kernels": hybrid,
        "joins_nodes": int(accelerator.domain_spans_nodes),
        "overlaps_tensor_parallel": bool(hidden_share(plan, inputs) > 0),
        "moment_bytes": runtime.storage.moment_bytes,
        "newest_attention": inputs.attention_kernel == "newest",
        "narrow_optimizer_states": inputs.keeps_remainders or runtime.storage.moment_bytes < FP32_BYTES,
        "liger_kernels": position_of(runtime, LIGER) in ("on", LIGER_IN_PLACE),
        "liger_loss_in_place": position_of(runtime, LIGER) == LIGER_IN_PLACE,
        "offloads_layers": runtime.activations.offloaded_layers > 0,
        "offloads_modules": bool(runtime.activations.offloaded_modules),
        "offloads_states": inputs.runtime.storage.offloads_states,
        "optimizer_bytes": f"{float(optimizer_bytes(plan, inputs)):g}",
        "orders_kernels_by_connection": ordered,
        "overlaps_data_parallel": runtime.overlap.data_parallel > 0,
        "overlaps_experts": overlapped,
        "overlaps_experts_by_connection": overlapped and ordered and split,
        "packs_documents": job.attended_length < job.sequence_length,
        "plain_scores": not inputs.model.modifies_scores,
        "precision": job.precision,
        "quantises": recipe.quantises,
        "quantises_split_bias": recipe.quantises and plan.tp > 1 and _has_output_bias(inputs),
        "double_buffered": plan.zero == 3 and runtime.sharding.double_buffered,
        "unfused_accumulation": runtime.kernels.gradient_accumulation == "unfused",
        "routes_in_fp32": _routes_in_fp32(plan, inputs),
        "scales_from_earlier_steps": recipe.scales_from_earlier_steps,
        "sequence_length": job.sequence_length,
        "stores_quantised": inputs.stores_quantised,
        "tokens_per_rank": plan.micro_batch * job.sequence_length // plan.cp,
    }


def _routes_in_fp32(plan: Plan, inputs: Inputs) -> bool:
    """Whether Megatron-core asks for scores of experts in fp32: of many, or because its dispatcher sends no others."""
    many = any(each.count >= MANY_EXPERTS for each in inputs.model.mixtures)
    return many or (inputs.model.is_moe and dispatcher_of(plan, inputs) == "fused")


def _graphed(inputs: Inputs) -> str:
    """What of a layer CUDA graphs issue, where they issue parts: attention of a dense model alone."""
    attention = inputs.runtime.host.graphs == "parts"
    return ("attention_and_router" if attention else "router") if inputs.model.is_moe else "attention"


def _has_gate(inputs: Inputs) -> bool:
    return any(kind.feed_forward.gated for kind in inputs.model.layer_kinds)


def _fuses_gate(inputs: Inputs) -> bool:
    on = position_of(inputs.runtime, ACTIVATION_FUSION) == "on"
    return on and _has_gate(inputs) and not inputs.model.gates_with_gelu


def _has_output_bias(inputs: Inputs) -> bool:
    return any(kind.attention.output_bias for kind in inputs.model.layer_kinds)


def _attention_backend(plan: Plan, inputs: Inputs) -> str:
    """The one of torchtitan that runs what is priced: varlen takes the newest kernels and no context parallelism, which
    flex_flash takes on Hopper and Blackwell alone.
    """
    if inputs.attention_kernel != "newest":
        return "flex"
    if plan.cp == 1:
        return "varlen"
    return FLEX_FLASH if (inputs.cluster.accelerator.compute_capability or AMPERE) >= HOPPER else "flex"
