"""The explain screen: one plan, whether it fits, where its memory and time go, and what would change it."""

from __future__ import annotations

from meshwright.answers.assumptions import assumptions
from meshwright.answers.context_report import context_report, context_section
from meshwright.answers.document.blocks import Block, Lines, Paragraph, Toned
from meshwright.answers.experts import expert_report, experts_section
from meshwright.answers.knobs_table import knobs_section
from meshwright.answers.neighbours import neighbours_section
from meshwright.answers.placement import placement_section
from meshwright.answers.screen import assumption_list, headline, memory_table, verdict_lines
from meshwright.answers.stage_table import stage_table
from meshwright.answers.uncertainty import margin_line, step_time_line
from meshwright.answers.waterfall import waterfall_table
from meshwright.cost.estimate import Estimate
from meshwright.layout.legality import rules_of
from meshwright.search.find import SearchResult
from meshwright.search.sensitivity import sensitivity
from meshwright.specs.inputs import Inputs


def explain_screen(estimate: Estimate, inputs: Inputs, near: SearchResult | None = None) -> tuple[Block, ...]:
    """The question, the plan with its verdict, its stages and memory, its time from the peak down, its placement, its
    exchanges, the best other plans, every single change, and the assumptions.

    near: the answer of a search, for the best other plans.
    """
    experts, context = expert_report(estimate, inputs), context_report(estimate, inputs)
    return (
        headline(inputs),
        Lines(
            (
                f"Plan: **{estimate.plan}**",
                *verdict_lines(estimate, inputs),
                step_time_line(estimate, inputs),
                margin_line(estimate, inputs),
            )
        ),
        *stage_table(estimate),
        memory_table(estimate, inputs),
        waterfall_table(estimate, inputs),
        *placement_section(estimate, inputs),
        *(experts_section(experts, estimate.plan, inputs) if experts else ()),
        *(context_section(context, estimate.plan, inputs) if context else ()),
        *neighbours_section(estimate, near),
        *knobs_section(estimate, sensitivity(estimate, inputs)),
        _rules(inputs),
        *assumption_list(assumptions(inputs)),
    )


def _rules(inputs: Inputs) -> Paragraph:
    count, runtime = len(rules_of(inputs)), inputs.runtime.id
    kept = f"The plan keeps all {count} rules of {runtime}; meshwright check shows each with its source."
    return Paragraph(Toned(kept, "good"))
