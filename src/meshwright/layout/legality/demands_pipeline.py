"""Demands of the Megatron family on how a launch spells a pipeline."""

from __future__ import annotations

from meshwright.layout.layout_string import layout_string
from meshwright.layout.legality.demand import Demand
from meshwright.layout.plan import Plan
from meshwright.layout.splits import outer_fewer
from meshwright.specs.inputs import Inputs


def _spelled_chunks(plan: Plan, inputs: Inputs) -> bool:
    """Whether only a layout string says how the layers lie."""
    ends = plan.embedding_as_layer + plan.head_as_layer + plan.first_stage_layers + plan.last_stage_layers
    uneven = inputs.model.num_layers % (plan.pp * plan.vpp) != 0 or inputs.mtp_layers > 0
    return (plan.pp > 1 and not ends and uneven) or bool(plan.chunk_layers)


def _layout_text(plan: Plan, inputs: Inputs) -> str:
    layers, chunks, predicted = inputs.model.num_layers, plan.pp * plan.vpp, inputs.mtp_layers
    sizes = plan.chunk_layers or tuple(outer_fewer(layers, chunks, predicted).tolist())
    why = f"as the last of {chunks} chunks holds {predicted} of multi-token prediction"
    why = why if predicted else f"as {layers} layers do not divide by {chunks} chunks"
    why = f"the plan's {chunks} chunks" if plan.chunk_layers else why
    return f"--pipeline-model-parallel-layout '{layout_string(sizes, predicted)}', {why}"


def _counted_ends(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    return plan.embedding_as_layer or plan.head_as_layer


def _counted_ends_text(plan: Plan, inputs: Inputs) -> str:
    both = {"embedding": plan.embedding_as_layer, "loss": plan.head_as_layer}
    flags = " and ".join(f"--account-for-{end}-in-pipeline-split" for end, counts in both.items() if counts)
    counted = inputs.model.num_layers + plan.embedding_as_layer + plan.head_as_layer
    return f"{flags}: {counted} layers for pp {plan.pp} x vpp {plan.vpp}"


def _end_stages(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    return plan.first_stage_layers + plan.last_stage_layers > 0


def _end_stages_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    both = {"first": plan.first_stage_layers, "last": plan.last_stage_layers}
    flags = " ".join(f"--decoder-{end}-pipeline-num-layers {layers}" for end, layers in both.items() if layers)
    chunks = f" with --num-virtual-stages-per-pipeline-rank {plan.vpp}, not --num-layers-per-virtual-pipeline-stage"
    return flags + (chunks if plan.vpp > 1 else f", which leaves the other stages of pp {plan.pp} alike")


def _group(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    return plan.microbatch_group > 0


def _group_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    group = plan.microbatch_group
    return f"--microbatch-group-size-per-virtual-pipeline-stage {group}: left out, it is pp {plan.pp}"


def _interleaving_overlap(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    return plan.vpp > 1 and plan.pp == 2


def _interleaving_overlap_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    return f"no --no-overlap-p2p-communication: without the overlap, vpp {plan.vpp} needs more than pp {plan.pp}"


def _pipeline_precision(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    return plan.pp > 1


def _pipeline_precision_text(plan: Plan, inputs: Inputs) -> str:
    return f"with Megatron-Bridge, model.pipeline_dtype {inputs.recipe.half}: pp {plan.pp} has no default"


DEMANDS = (
    Demand("pipeline_layout", _spelled_chunks, _layout_text),
    Demand("counted_ends", _counted_ends, _counted_ends_text),
    Demand("end_stage_layers", _end_stages, _end_stages_text),
    Demand("microbatch_group", _group, _group_text),
    Demand("interleaving_overlap", _interleaving_overlap, _interleaving_overlap_text),
    Demand("pipeline_precision", _pipeline_precision, _pipeline_precision_text),
)
