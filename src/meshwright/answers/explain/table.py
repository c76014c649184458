"""Explain: one plan, whether it fits, where its memory and time go, and what would change it; JSON and screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from meshwright.answers.basis.assumptions import assumptions
from meshwright.answers.basis.uncertainty import confidence_entry, margin_line, step_time_line
from meshwright.answers.document.blocks import Block, Lines, Paragraph, Toned
from meshwright.answers.experts.degrees import expert_degrees
from meshwright.answers.experts.exchanges import expert_report, experts_section
from meshwright.answers.experts.parts import expert_parts
from meshwright.answers.experts.routing import routing_lines
from meshwright.answers.experts.tables import expert_tables
from meshwright.answers.explain.alternatives import alternatives_entry, knobs_section, neighbours_section
from meshwright.answers.explain.context import context_report, context_section
from meshwright.answers.explain.placement import placement_section
from meshwright.answers.explain.stages import stage_table
from meshwright.answers.explain.varied_plan import variation_entry, variation_section
from meshwright.answers.launch.unlaunched import unlaunched, unlaunched_entry, unlaunched_lines
from meshwright.answers.links import axes
from meshwright.answers.plan_file import SCHEMA, memory_entry, plan_entry
from meshwright.answers.plan_file_versions import WRITTEN_BY
from meshwright.answers.plans.constraint_lines import idle_behaviours
from meshwright.answers.plans.ties import unpublished_lines
from meshwright.answers.plans.unaligned import unaligned_entry, unaligned_lines, unaligned_sizes
from meshwright.answers.records import document_of, fields_of
from meshwright.answers.screen import assumption_list, headline, memory_table, verdict_lines
from meshwright.answers.step_parts import from_peak, waterfall_table
from meshwright.answers.unfit.rescue import rescue
from meshwright.cost.estimate import Estimate
from meshwright.cost.messages import step_messages
from meshwright.cost.step import estimate_plans
from meshwright.layout.legality import rules_of
from meshwright.layout.plans import Plans
from meshwright.search.changes.sensitivity import sensitivity
from meshwright.search.changes.variation import Variation
from meshwright.search.find import SearchResult
from meshwright.specs.inputs import Inputs


def explain_document(
    estimate: Estimate,
    inputs: Inputs,
    near: SearchResult | None = None,
    variation: Variation | None = None,
    *,
    complete: bool = True,
    of_file: bool = False,
) -> dict[str, Any]:
    """One explained plan as a plan file, with all that its screen shows.

    near: the answer of a search, for the best other plans; variation: of a saved plan, which this one is; complete:
    else without other plans and changes; of_file: an existing launch file starts it, and none has to be written.
    """
    parts = {
        "stages": [{**vars(stage), "memory": memory_entry(stage.memory)} for stage in estimate.stages],
        "confidence": confidence_entry(estimate, inputs),
        "from_peak": from_peak(estimate, inputs),
        "placement": axes(estimate, inputs),
        "messages": messages_entry(estimate, inputs),
        **(alternatives_entry(estimate, inputs, near) if complete else {}),
    }
    if experts := expert_report(estimate, inputs):
        parts["experts"] = experts
        parts["expert_parts"] = expert_parts(estimate, inputs)
        parts["expert_degrees"] = expert_degrees(estimate, inputs)
    if context := context_report(estimate, inputs):
        parts["context"] = context
    unaligned = unaligned_entry(unaligned_sizes(estimate, inputs))
    return document_of(
        schema=SCHEMA,
        written_by=WRITTEN_BY,
        inputs=inputs,
        **({} if complete else {"complete": False}),
        considered=1,
        legal=1,
        fitting=int(estimate.verdict.fits),
        plans=[plan_entry(estimate, inputs) | parts],
        **({"unaligned": unaligned} if unaligned else {}),
        **unlaunched_entry(None if of_file else unlaunched(estimate.plan, inputs)),
        **({"variation": variation_entry(estimate, variation)} if variation else {}),
        assumptions=assumptions(inputs),
    )


def messages_entry(estimate: Estimate, inputs: Inputs) -> list[dict[str, Any]]:
    """Every kind of collective and message of one rank in a step, as its price reads them."""
    priced = estimate_plans(Plans.of([estimate.plan]), inputs, keep_all_stages=True)
    return [
        fields_of(row, "axis", "unit", "operation", "content", "phase")
        | {"ranks": int(row.group.ranks), "buffer_bytes": row.bytes, "raw_s": row.seconds}
        | fields_of(row, "sent_bytes", "times", "exposed_s")
        for row in step_messages(priced)
        if row.times > 0
    ]


def explain_screen(
    estimate: Estimate,
    inputs: Inputs,
    near: SearchResult | None = None,
    variation: Variation | None = None,
    *,
    of_file: bool = False,
) -> tuple[Block, ...]:
    """The question, the plan with its verdict, its stages and memory, its time from the peak down, its placement, its
    exchanges, the best other plans, every single change, and the assumptions.

    near: the answer of a search, for the best other plans; variation: of a saved plan, which this one is; of_file: as
    for `explain_document`.
    """
    experts, context = expert_report(estimate, inputs), context_report(estimate, inputs)
    priced = sensitivity(estimate, inputs)
    return (
        headline(inputs),
        explain_lines(estimate, inputs, (margin_line(estimate, inputs),), of_file=of_file),
        *(variation_section(estimate, variation) if variation else ()),
        *stage_table(estimate),
        memory_table(estimate, inputs),
        waterfall_table(estimate, inputs),
        *placement_section(estimate, inputs),
        *(experts_section(experts, estimate.plan, inputs) if experts else ()),
        *expert_tables(estimate, inputs),
        *(context_section(context, estimate.plan, inputs) if context else ()),
        *neighbours_section(estimate, near),
        *knobs_section(estimate, inputs, priced, rescue(estimate, priced, near)),
        _rules(inputs),
        *assumption_list(assumptions(inputs)),
    )


def explain_lines(estimate: Estimate, inputs: Inputs, more: Sequence[str] = (), *, of_file: bool = False) -> Lines:
    """The plan with its verdict, its speed and how sure that is; more: lines that a whole answer adds; of_file: as for
    `explain_document`.
    """
    return Lines(
        (
            f"Plan: **{estimate.plan}**",
            *verdict_lines(estimate, inputs),
            *routing_lines(estimate, inputs),
            step_time_line(estimate, inputs),
            *unlaunched_lines(None if of_file else unlaunched(estimate.plan, inputs)),
            *(Toned(f"**{line}**", "warning") for line in unpublished_lines(estimate, inputs)),
            *more,
            *idle_behaviours(inputs),
            *unaligned_lines(unaligned_sizes(estimate, inputs)),
        )
    )


def _rules(inputs: Inputs) -> Paragraph:
    count, runtime = len(rules_of(inputs)), inputs.runtime.id
    text = f"The plan passes all {count} rules of {runtime}; meshwright check shows each with its source."
    return Paragraph(Toned(text, "good"))
