"""Output: the memo as a document and as JSON."""

from __future__ import annotations

from typing import Any

from meshwright.answers.basis.assumptions import assumptions
from meshwright.answers.document.blocks import Document
from meshwright.answers.experts.degrees import expert_degrees
from meshwright.answers.experts.parts import expert_parts
from meshwright.answers.launch.baseline import baseline_entry
from meshwright.answers.launch.existing import launch_file_entry
from meshwright.answers.memo.budget import Budgets
from meshwright.answers.memo.memo import Memo
from meshwright.answers.memo.micro_batching import MicroBatching, idle_share
from meshwright.answers.memo.mitigation import Mitigation
from meshwright.answers.memo.other_questions import OtherQuestion
from meshwright.answers.memo.scaling import Point
from meshwright.answers.memo.sections.communication import communication_section
from meshwright.answers.memo.sections.decision import cost_of, decision
from meshwright.answers.memo.sections.limits import limits_section
from meshwright.answers.memo.sections.memory import memory_section
from meshwright.answers.memo.sections.pipeline import pipeline_section
from meshwright.answers.memo.sections.plan import plan_section, premises_section, reason_lost
from meshwright.answers.memo.sections.precision import precision_section
from meshwright.answers.plan_file import plan_entry
from meshwright.answers.plans.constraint_lines import constraints_entry
from meshwright.answers.plans.switched_plan import switched_entry
from meshwright.answers.records import document_of, fields_of, priced_plan
from meshwright.answers.screen import constraint_words, runtime_words
from meshwright.answers.unfit.ways_to_fit import ways_entry
from meshwright.answers.words import job_details, rack_words, sequences
from meshwright.specs.inputs import Inputs
from meshwright.specs.weights import active_parameter_count, parameter_count
from meshwright.units import format_count

SCHEMA = "meshwright.memo/1"


def memo_document(memo: Memo) -> Document:
    """The whole memo: the page to sign, and the appendix."""
    blocks = (
        *decision(memo),
        *plan_section(memo),
        *memory_section(memo),
        *communication_section(memo),
        *pipeline_section(memo),
        *limits_section(memo),
        *precision_section(memo),
        *premises_section(memo),
    )
    inputs = memo.inputs
    title = f"How to train {inputs.model.name} on {inputs.cluster.num_gpus} {inputs.cluster.accelerator.id}"
    return Document(title, subtitle(inputs), blocks)


def subtitle(inputs: Inputs) -> str:
    """The question in one line."""
    model, cluster, job = inputs.model, inputs.cluster, inputs.job
    active = f", {format_count(active_parameter_count(model))} active" if model.is_moe else ""
    return (
        f"{format_count(parameter_count(model))} parameters{active}; {cluster.num_nodes} x {cluster.gpus_per_node} "
        f"accelerators{rack_words(cluster)}; {sequences(job.global_batch)} of {job.sequence_length} tokens a step; "
        f"{job.precision}{job_details(inputs)}; {runtime_words(inputs)}{constraint_words(inputs)}"
    )


def memo_entry(memo: Memo) -> dict[str, Any]:
    """Every figure that the memo's text and pictures are written from; seconds and bytes."""
    best, inputs, bottleneck = memo.best, memo.inputs, memo.bottleneck
    others = (*memo.search.other_splits, *memo.search.best[1:])
    return document_of(
        schema=SCHEMA,
        inputs=inputs,
        fits=True,
        recommendation=plan_entry(best, inputs),
        runners_up=[plan_entry(each, inputs) | {"lost": reason_lost(each, memo)} for each in others],
        budgets=budgets_entry(memo.budgets, inputs),
        **constraints_entry(memo.search, memo.constraint_costs),
        **switched_entry(memo.switched),
        **ways_entry(None if memo.is_safe else memo.ways),
        exchanges=memo.exchanges,
        expert_parts=expert_parts(best, inputs),
        expert_degrees=expert_degrees(best, inputs),
        scaling={
            "baseline": memo.scaling.baseline,
            "fewest_safe": _point(memo.smaller) if memo.smaller else None,
            "speed_up": memo.speed_up if memo.smaller else None,
            "unfit": memo.scaling.unfit,
            "strong": map(_point, memo.scaling.strong),
            "weak": map(_point, memo.scaling.weak),
        },
        micro_batching=_micro_batching(memo.micro_batching) if memo.micro_batching else None,
        bottleneck=fields_of(bottleneck.chosen, "part", "name")
        | fields_of(bottleneck, "seconds", "grows")
        | {
            "reference_gpus": bottleneck.reference.gpus if bottleneck.reference else None,
            "overheads": [fields_of(each, "part", "share_before", "share_after") for each in bottleneck.overheads],
        },
        mitigation=_mitigation(memo.mitigation) if memo.mitigation else None,
        training=cost_of(memo),
        other_questions=[_question(each) for each in memo.other_questions],
        assumptions=(*memo.assumed, *assumptions(inputs)),
        **(launch_file_entry(memo.existing.launch) | baseline_entry(memo.existing, best) if memo.existing else {}),
    )


def budgets_entry(budgets: Budgets, inputs: Inputs) -> dict[str, Any]:
    """Every layout of the budget as JSON."""
    return {name: plan_entry(each, inputs) if each else None for name, each in vars(budgets).items()}


def _mitigation(each: Mitigation) -> dict[str, Any]:
    switch = fields_of(each.switch, "knob", "change", "option", "flag", "gain")
    part = fields_of(each, "part", "part_before_s", "part_after_s")
    return switch | part | fields_of(each.switch.estimate, "plan", "step_time_s")


def _question(each: OtherQuestion) -> dict[str, Any]:
    plans = {"best": each.best, "recommended_layout": each.same}
    return {"change": each.change} | {name: priced_plan(plan) if plan else None for name, plan in plans.items()}


def _point(point: Point) -> dict[str, Any]:
    return {
        "gpus": point.gpus,
        "global_batch": point.inputs.job.global_batch,
        **priced_plan(point.estimate),
        "tokens_per_s": point.tokens_per_s,
        "time": point.estimate.time,
    }


def _micro_batching(pipeline: MicroBatching) -> dict[str, Any]:
    columns = ("micro_batches", "global_batch", "equal_stages", "bubble", "mfu")
    return fields_of(pipeline, "stages", "naive_busy") | {
        "bubbles": [fields_of(each, *columns) for each in pipeline.bubbles],
        "drawn": {
            "micro_batches": pipeline.drawn,
            "idle": idle_share(pipeline.chosen),
        },
    }
