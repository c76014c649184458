"""Demands about switches that no plan holds, and that a launch of it must leave as they are."""

from __future__ import annotations

from meshwright.layout.legality.demand import Demand
from meshwright.layout.plan import RECOMPUTE_NAMES, Plan, Recompute
from meshwright.specs.inputs import Inputs


def _kept_or_staged(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    return plan.pp > 1 or plan.recompute != Recompute.NONE


def _activation_offloading_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    recompute = RECOMPUTE_NAMES[plan.recompute]
    return f"no --cpu-offloading: it needs pp 1 and no recomputation, which are pp {plan.pp} and {recompute} here"


def _replicated_inputs(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    return plan.recompute == Recompute.FULL and (plan.sp or plan.tp == 1)


def _saved_activations_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    why = f"sp of tp {plan.tp} has split them already" if plan.sp else "tp 1 has nobody to share them"
    return f"no --distribute-saved-activations: {why}"


def _always(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    return True


def _weight_shards_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    return (
        f"--tensor-parallel-num-weight-shards 1: it is one more factor of the world, which tp {plan.tp} x "
        f"cp {plan.cp} x pp {plan.pp} x dp {plan.dp} fill"
    )


def _latent(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    return any(kind.attention.latent for kind in inputs.model.layer_kinds)


def _latent_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    return f"--multi-latent-attention without --group-query-attention: {inputs.model.name} has latent attention"


def _fused_loss(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    return inputs.runtime.kernels.cross_entropy == "fused"


def _fused_loss_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    return (
        "--cross-entropy-loss-fusion with --cross-entropy-fusion-impl native: the arguments refuse te, which "
        "Megatron-Bridge takes"
    )


def _below_three(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    return plan.zero < 3


def _partial_offloading_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    return (
        f"no zero_optimization.offload_optimizer.ratio below 1: only stage 3 offloads a part, this is zero {plan.zero}"
    )


def _half_states(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    return inputs.recipe.half == "bf16"


def _half_states_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    return (
        f"no bf16.bf16_optimizer_states without bf16_master_weights_and_grads: with {inputs.job.precision} both are "
        "left out here"
    )


def _delayed_scaling(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    return inputs.recipe.scales_from_earlier_steps


def _end_layers_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    return f"no --first-last-layers-bf16: {inputs.job.precision} quantises all {inputs.model.num_layers} layers"


def _sequence_lengths_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    length = inputs.job.sequence_length
    return f"with Megatron-Bridge, dataset.sequence_length {length} like model.seq_length: it refuses two numbers"


def _context_parallel(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    return plan.cp > 1


def _one_split_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    return f"no parallelism_config_sp_size beside parallelism_config_cp_size {plan.cp}: one of both splits a sequence"


DEMANDS = (
    Demand("activation_offloading", _kept_or_staged, _activation_offloading_text),
    Demand("saved_activations", _replicated_inputs, _saved_activations_text),
    Demand("weight_shards", _always, _weight_shards_text),
    Demand("latent_attention", _latent, _latent_text),
    Demand("fused_cross_entropy", _fused_loss, _fused_loss_text),
    Demand("partial_offloading", _below_three, _partial_offloading_text),
    Demand("half_optimizer_states", _half_states, _half_states_text),
    Demand("quantised_end_layers", _delayed_scaling, _end_layers_text),
    Demand("sequence_lengths", _always, _sequence_lengths_text),
    Demand("one_sequence_split", _context_parallel, _one_split_text),
)
