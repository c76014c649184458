"""Demands of the Megatron family on a launch."""

from __future__ import annotations

from meshwright.layout.legality.demand import Demand
from meshwright.layout.plan import Plan, Recompute
from meshwright.layout.recompute_modules import RecomputeModules, names_of
from meshwright.specs.inputs import Inputs

BLACKWELL = 10
"""Compute capability from which kernels are ordered without a single connection (Megatron-LM, training/arguments.py:
`get_device_arch_version() < 10`)."""

LOW_PRECISION = {
    "fp8": "--fp8-format hybrid --fp8-recipe tensorwise",
    "fp8-delayed": "--fp8-format hybrid --fp8-recipe delayed",
    "fp8-blockwise": "--fp8-format hybrid --fp8-recipe blockwise",
    "mxfp8": "--fp8-format e4m3 --fp8-recipe mxfp8",
    "nvfp4": "--fp4-format e2m1 --fp4-recipe nvfp4",
}
"""What asks for each recipe that quantises, beside --bf16."""


def _single_connection(plan: Plan, inputs: Inputs) -> bool:
    capability = inputs.cluster.accelerator.compute_capability
    return (capability is None or capability < BLACKWELL) and plan.zero < 2 and (plan.tp > 1 or plan.cp > 1)


def _single_connection_text(plan: Plan, inputs: Inputs) -> str:
    accelerator = inputs.cluster.accelerator.id
    return f"CUDA_DEVICE_MAX_CONNECTIONS=1, as tp {plan.tp} x cp {plan.cp} on {accelerator} asks for"


def _sequence_connection(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    return plan.sp


def _sequence_connection_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    return f"CUDA_DEVICE_MAX_CONNECTIONS=1, as sp with tp {plan.tp} asks for"


def _fully_sharded(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    return plan.zero > 1


def _several_connections_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    return f"CUDA_DEVICE_MAX_CONNECTIONS unset or above 1, as zero {plan.zero} gathers weights beside its compute"


def _fully_sharded_options_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    return (
        f"for zero {plan.zero} through torch FSDP2: --no-gradient-accumulation-fusion and no "
        "--use-distributed-optimizer; through Megatron-FSDP: ckpt_format fsdp_dtensor and no --use-tp-pp-dp-mapping"
    )


def _plain_engine_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    return f"--no-pipeline-parallel: the pipeline engine refuses zero {plan.zero} even with pp 1"


def _replicated(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    return plan.zero < 2 and plan.dp * plan.cp > 1


def _gather_overlap_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    if plan.zero:
        return (
            f"--use-distributed-optimizer (zero {plan.zero}); --overlap-param-gather needs it and --overlap-grad-reduce"
        )
    return f"no --overlap-param-gather: zero {plan.zero} has no distributed optimizer that would gather"


def _tensor_overlap(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    return plan.tp > 1 and not plan.sp


def _tensor_overlap_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    return f"no --tp-comm-overlap: it needs sp, which this plan of tp {plan.tp} leaves out"


def _exchange_overlap(plan: Plan, inputs: Inputs) -> bool:
    return plan.ep > 1 and ((plan.pp > 1 and plan.vpp == 1) or bool(_repeated_exchange(plan)) or inputs.mtp_layers > 1)


def _exchange_overlap_text(plan: Plan, inputs: Inputs) -> str:
    reasons = [f"pp {plan.pp} would need vpp 2 or more"] if plan.pp > 1 and plan.vpp == 1 else []
    repeated = _repeated_exchange(plan)
    reasons += [f"it does not go with {repeated}"] if repeated else []
    reasons += [f"it goes with 1 mtp layer, not {inputs.mtp_layers}"] if inputs.mtp_layers > 1 else []
    return f"no --overlap-moe-expert-parallel-comm for ep {plan.ep}: {' and '.join(reasons)}"


def _repeated_exchange(plan: Plan) -> str:
    """The recomputation that repeats the exchanges of experts; empty where there is none."""
    if plan.recompute == Recompute.FULL:
        return "full recomputation"
    selective = plan.recompute == Recompute.SELECTIVE and RecomputeModules.EXPERTS in plan.recompute_modules
    return "recomputation of moe" if selective else ""


def _padded_vocabulary(plan: Plan, inputs: Inputs) -> bool:
    return inputs.model.vocab_size % (inputs.runtime.storage.vocabulary_multiple * plan.tp) != 0


def _padded_vocabulary_text(plan: Plan, inputs: Inputs) -> str:
    size, multiple = inputs.model.vocab_size, inputs.runtime.storage.vocabulary_multiple
    padded = -(-size // (multiple * plan.tp)) * multiple * plan.tp
    return f"a vocabulary padded from {size} to {padded}, a multiple of {multiple} x tp {plan.tp}"


def _expert_tensor_degree(plan: Plan, inputs: Inputs) -> bool:
    return inputs.model.is_moe and plan.etp != plan.tp


def _expert_tensor_degree_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    return f"--expert-tensor-parallel-size {plan.etp}: left out, it becomes tp {plan.tp}"


def _mtp_layers(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    return inputs.mtp_layers > 0 or inputs.model.mtp_layers > 0


def _mtp_layers_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    layers = inputs.mtp_layers
    if not layers:
        return f"no --mtp-num-layers: the {inputs.model.mtp_layers} of {inputs.model.name} are not trained"
    return f"--mtp-num-layers {layers}, on the stage of the head"


def _head_size(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    attention = inputs.model.layer_kinds[0].attention
    return attention.heads * attention.head_dim != inputs.model.hidden_size and not attention.latent


def _head_size_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    attention = inputs.model.layer_kinds[0].attention
    return (
        f"--kv-channels {attention.head_dim}: left out, it becomes hidden size {inputs.model.hidden_size} / "
        f"{attention.heads} heads"
    )


def _recompute_method(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    return plan.recompute != Recompute.NONE


def _recompute_method_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    if plan.recompute_layers:
        return f"--recompute-granularity full --recompute-method block --recompute-num-layers {plan.recompute_layers}"
    if plan.recompute == Recompute.FULL:
        return "--recompute-method and --recompute-num-layers beside --recompute-granularity full: it needs both"
    return "neither --recompute-method nor --recompute-num-layers beside --recompute-granularity selective"


def _recompute_modules(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    return plan.recompute == Recompute.SELECTIVE and plan.recompute_modules != RecomputeModules.CORE_ATTENTION


def _recompute_modules_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    return f"--recompute-modules {' '.join(names_of(plan.recompute_modules))}: left out, it is core_attn alone"


def _low_precision(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    return inputs.recipe.quantises


def _low_precision_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    name = inputs.job.precision
    return f"--{inputs.recipe.half} {LOW_PRECISION[name]}, as the job asks for {name}"


DEMANDS = (
    Demand("single_connection", _single_connection, _single_connection_text),
    Demand("single_connection_of_sequence", _sequence_connection, _sequence_connection_text),
    Demand("several_connections", _fully_sharded, _several_connections_text),
    Demand("fully_sharded_options", _fully_sharded, _fully_sharded_options_text),
    Demand("plain_engine", _fully_sharded, _plain_engine_text),
    Demand("parameter_gather_overlap", _replicated, _gather_overlap_text),
    Demand("tensor_overlap", _tensor_overlap, _tensor_overlap_text),
    Demand("expert_exchange_overlap", _exchange_overlap, _exchange_overlap_text),
    Demand("padded_vocabulary", _padded_vocabulary, _padded_vocabulary_text),
    Demand("expert_tensor_degree", _expert_tensor_degree, _expert_tensor_degree_text),
    Demand("mtp_layers", _mtp_layers, _mtp_layers_text),
    Demand("head_size", _head_size, _head_size_text),
    Demand("recompute_method", _recompute_method, _recompute_method_text),
    Demand("recompute_modules", _recompute_modules, _recompute_modules_text),
    Demand("low_precision", _low_precision, _low_precision_text),
)
