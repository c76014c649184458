"""The 4D analyzer beside the planner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from meshwright.cost.estimate import Estimate, StageEstimate
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import Model
from meshwright.specs.weights import parameter_count, parameters_by_part
from meshwright.textbook.comparison.rows import (
    ComparisonRow,
    PlannerComparison,
    compared,
    data_parallel_bytes,
    gigabytes,
    priced,
    time_note,
)
from meshwright.units import GIGA

NO_AXIS = (
    "sp {sp} has no axis of its own in the planner: its sequence parallelism shares the ranks of tp, and ranks that "
    "split the sequence beyond that are context parallel (cp {sp}), which also divides the layers' matrix products"
)


def compare_analysis(
    model: Model, cluster: str, config: Mapping[str, Any], parallel: Mapping[str, int], answer: dict[str, Any]
) -> PlannerComparison:
    """Where the planner differs from the 4D analyzer, by how much and why.

    model, cluster: what the planner prices; config, parallel: what the analyzer was given; answer: what it said.
    Gradients are summed over dp sp in the planner; sp is taken as its cp. Raises `InvalidInput` for a wrong cluster.
    """

    def compare(estimate: Estimate, inputs: Inputs) -> PlannerComparison:
        return PlannerComparison(rows=_rows(estimate, inputs, answer), notes=_notes(estimate, parallel["sp"], answer))

    degrees = {"tp": parallel["tp"], "pp": parallel["pp"], "cp": parallel["sp"], "dp": parallel["dp"]}
    batches = (config["seq_len"], config["micro_batch_size"], config["num_micro_batches"])
    comparison = priced(model, cluster, degrees, batches, compare)
    if comparison.refused and parallel["sp"] > 1:
        return PlannerComparison(refused=comparison.refused, notes=(NO_AXIS.format(sp=parallel["sp"]),))
    return comparison


def _rows(estimate: Estimate, inputs: Inputs, answer: dict[str, Any]) -> tuple[ComparisonRow, ...]:
    plan, memory = estimate.plan, estimate.memory
    stage = estimate.stages[estimate.worst_stage]
    grad, shards = inputs.gradient_bytes, f" / {plan.dp * plan.cp}" if plan.zero else ""
    extra = (memory.device - memory.states - memory.activations) / GIGA
    ends = f"; stage {stage.stage} holds {_ends(stage)}, which the closed form spreads over the stages"
    ends = ends if plan.pp > 1 else ""
    return (
        compared(
            quantity="parameters",
            unit="",
            closed_form=answer["total_params"],
            planner=parameter_count(inputs.model),
            why=_why_parameters(inputs.model),
        ),
        gigabytes(
            "states per GPU",
            answer["param_memory_per_gpu_gb"],
            memory.states,
            f"{2 + grad} + 12{shards} bytes a parameter instead of 16{ends}",
        ),
        gigabytes(
            "activations per GPU",
            answer["activation_memory_per_gpu_gb"],
            memory.activations,
            f"{stage.live_micro_batches} micro-batches alive on stage {stage.stage} instead of 1; "
            "the tensors that each module saves instead of 10 A a layer",
        ),
        gigabytes(
            "total per GPU",
            answer["total_memory_per_gpu_gb"],
            memory.device,
            f"both differences, and {extra:.3g} GB of logits, temporaries, workspaces, fragmentation, context and "
            "communicators that the closed form has none of",
        ),
        gigabytes(
            "gradient traffic, per step",
            answer["dp_comm_gb"],
            data_parallel_bytes(estimate),
            f"{grad}-byte gradients instead of fp16" + (", then 2-byte parameters (ZeRO-1)" if plan.zero else ""),
        ),
        compared(
            quantity="bubble",
            unit="of the step",
            closed_form=answer["bubble_ratio"],
            planner=float(estimate.time.bubble_s) / estimate.step_time_s,
            why="the planner's step also holds exposed communication, the optimizer and the host, "
            "and its stages differ",
        ),
    )


def _notes(estimate: Estimate, sp: int, answer: dict[str, Any]) -> tuple[str, ...]:
    fits = "fits" if answer["fits_in_memory"] else "does not fit"
    verdict = f"the closed form {fits}; the planner's verdict on the worst stage is {estimate.verdict}"
    volumes = "tensor and pipeline volumes have no counterpart here: the planner prices their time"
    return (verdict, volumes, time_note(estimate), *([NO_AXIS.format(sp=sp)] if sp > 1 else []))


def _why_parameters(model: Model) -> str:
    parts = parameters_by_part(model)
    vocabulary = sum(parts.get(part, 0) for part in ("embedding", "positions", "head"))
    layer = (parameter_count(model) - vocabulary - parts["norms"]) / model.num_layers / model.hidden_size**2
    tied = "; embedding and head are one matrix" if model.tied_embeddings else ""
    return f"this model's layer has {layer:.4g} H^2 instead of 12 H^2, and norms{tied}"


def _ends(stage: StageEstimate) -> str:
    ends = [name for name, there in (("the embedding", stage.embedding), ("the head", stage.head)) if there]
    return " and ".join(ends) or "neither embedding nor head"
