"""The ranked plans of a search: the plan file, and a screen that a person reads in ten seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from meshwright.answers.basis.assumptions import assumptions
from meshwright.answers.basis.uncertainty import step_time_line
from meshwright.answers.context_length import beyond_positions
from meshwright.answers.document.blocks import Block, Heading, Lines, Paragraph, Table, Toned
from meshwright.answers.experts.routing import routing_lines
from meshwright.answers.launch.unlaunched import launched_instead, unlaunched, unlaunched_entry, unlaunched_lines
from meshwright.answers.plans.beyond import NOTHING, Beyond
from meshwright.answers.plans.constraint_lines import constraint_lines, constraints_entry
from meshwright.answers.plans.crossing import crosses_domains, nothing_fits_inside
from meshwright.answers.plans.switched_plan import switched_entry, switched_lines
from meshwright.answers.plans.switches import switch_entry, switch_lines
from meshwright.answers.plans.ties import best_tested_lines, proven_lines, tie_lines, ties_entry, unpublished_lines
from meshwright.answers.plans.unaligned import unaligned_entry, unaligned_lines, unaligned_sizes
from meshwright.answers.records import document_of
from meshwright.answers.screen import (
    SPEED_COLUMNS,
    assumption_list,
    headline,
    memory_table,
    speed_cells,
    time_table,
    verdict_cell,
    verdict_lines,
)
from meshwright.answers.step_parts import why_lost
from meshwright.answers.unfit.ways_to_fit import ways_entry, ways_lines
from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.fit import Verdict
from meshwright.search.find import SearchResult
from meshwright.search.published.untested import unpublished
from meshwright.specs.inputs import Inputs
from meshwright.units import format_gib, format_seconds

LEANER = 0.05
"""How much less memory, as a share, a plan needs to stand below another one on the front."""
LONG_SEQUENCE = 32768
UNTESTED = "untested: no published run has a plan of this kind"


def plan_document(result: SearchResult, beyond: Beyond = NOTHING, *, of_file: bool = False) -> dict[str, Any]:
    """The answer of a search as a plan file.

    of_file: an existing launch file is changed to the best plan, and none has to be written.
    """
    from meshwright.answers.plan_file import SCHEMA, plan_entry
    from meshwright.answers.plan_file_versions import WRITTEN_BY

    best, inputs = result.best[0], result.inputs
    unaligned = unaligned_entry(unaligned_sizes(best, inputs))

    def entries(estimates: Sequence[Estimate]) -> list[dict[str, Any]]:
        lost = (None if each.plan == best.plan else why_lost(each, best) for each in estimates)
        return [plan_entry(each, inputs) | {"lost": words} for each, words in zip(estimates, lost, strict=True)]

    return document_of(
        schema=SCHEMA,
        written_by=WRITTEN_BY,
        inputs=inputs,
        **({} if result.complete else {"complete": False}),
        considered=result.considered,
        legal=result.legal,
        fitting=result.fitting,
        ties=ties_entry(result),
        plans=entries(result.best),
        other_splits=entries(result.other_splits),
        **({"pareto": entries(beyond.front)} if beyond.front else {}),
        **({"unaligned": unaligned} if unaligned else {}),
        **unlaunched_entry(None if of_file else unlaunched(best.plan, inputs)),
        **constraints_entry(result, beyond.costs),
        **switch_entry(best, inputs),
        **switched_entry(beyond.switched),
        **ways_entry(beyond.ways),
        assumptions=assumptions(inputs),
    )


def plan_screen(result: SearchResult, beyond: Beyond = NOTHING, *, of_file: bool = False) -> tuple[Block, ...]:
    """Inputs, the best plan with its verdict, the runners-up, memory and time of the best, and the assumptions.

    of_file: as for `plan_document`.
    """
    best, inputs = result.best[0], result.inputs
    return (
        *plan_summary(result, beyond, of_file=of_file),
        *other_splits_section(result),
        *risky_lines(result),
        *front_section(beyond.front),
        memory_table(best, inputs),
        time_table(best),
        search_lines(result),
        *assumption_list(assumptions(result.inputs)),
    )


def plan_summary(result: SearchResult, beyond: Beyond, *, of_file: bool = False) -> tuple[Block, ...]:
    """Inputs, the best plan with its verdict, and the ranking. of_file: as for `plan_document`."""
    ranking = ranking_table(result.best, result.best[0], result.inputs)
    lines = best_lines(result, beyond, of_file=of_file)
    return headline(result.inputs), lines, *ways_lines(beyond.ways), ranking


def best_lines(result: SearchResult, beyond: Beyond, with_settings: bool = True, *, of_file: bool = False) -> Lines:
    """The best plan with its verdict, and why it is recommended.

    with_settings: and what launches set for what is faster, and what the published run that is named had; of_file: as
    for `plan_document`.
    """
    best, inputs, switched = result.best[0], result.inputs, beyond.switched
    title = "Best plan" if best.verdict == Verdict.SAFE else "No plan fits safely; the least risky"
    lines = (
        f"{title}: **{best.plan}**",
        *verdict_lines(best, inputs),
        *routing_lines(best, inputs),
        step_time_line(best, inputs),
        *tie_lines(result),
        *proven_lines(result, with_settings),
        *warnings(result, of_file=of_file),
        *constraint_lines(result, beyond.costs),
        *switch_lines(best, inputs, switched.with_options if switched else (), with_settings),
        *switched_lines(switched, best, with_settings),
    )
    return Lines(lines)


def warnings(result: SearchResult, *, of_file: bool = False) -> list[str]:
    """What a reader must know before acting: that the best plan cannot be launched, sizes that slow it, layouts that
    were not searched; of_file: as for `plan_document`.
    """
    inputs, tp, domain = result.inputs, result.best[0].plan.tp, result.inputs.cluster.levels[0]
    lines = []
    if not result.complete:
        looked = f"{result.considered:,} of {result.size:,} plans were considered"
        lines.append(f"The search was stopped early: {looked}; this is the best of them.")
    if inputs.job.sequence_length > LONG_SEQUENCE and not inputs.runtime.plans.context_exchanges:
        lines.append(f"Not searched: context parallelism, which {inputs.runtime.id} does not have.")
    if crosses_domains(result):
        why = "nothing fits within one" if nothing_fits_inside(result) else "every layer waits for slower links"
        lines.append(f"tp {tp} crosses {domain.name} domains of {domain.size}. This is rare; {why}.")
    lines += beyond_positions(inputs)
    warned = [Toned(f"**{line}**", "warning") for line in lines]
    unproven = [Toned(f"**{line}**", "warning") for line in unpublished_lines(result.best[0], inputs)]
    unaligned = unaligned_lines(unaligned_sizes(result.best[0], inputs))
    launch = () if of_file else (*unlaunched_lines(unlaunched(result.best[0].plan, inputs)), *launched_instead(result))
    return [*launch, *unproven, *best_tested_lines(result), *unaligned, *warned]


def ranking_table(
    ranked: Sequence[Estimate],
    best: Estimate,
    inputs: Inputs,
    against: str = "against the best",
    first: int = 1,
    most: int | None = None,
) -> Table:
    """Plans, best first, and why each lost to the best, or to another one that `against` names; first: the number of
    the first row, as `--rank` takes it; most: the parts of the step that are named.
    """
    rows = tuple(
        (
            str(number),
            str(estimate.plan),
            *speed_cells(estimate),
            _marks(estimate, inputs) + (why_lost(estimate, best, most) if estimate is not best else "the best"),
        )
        for number, estimate in enumerate(ranked, first)
    )
    return Table(("#", "plan", *SPEED_COLUMNS, against), rows, "rlrrrl", note=_untested_note(ranked, inputs))


def ranking_lines(ranked: Sequence[Estimate], best: Estimate, inputs: Inputs) -> Lines:
    """The same plans but for the best one, each in a line with the part of the step that decided."""
    lines = [
        f"{number}  {each.plan}: {format_seconds(each.step_time_s)}, {format_gib(each.memory.device)}, "
        f"{_marks(each, inputs)}{why_lost(each, best, most=1)}"
        for number, each in enumerate(ranked, 1)
        if each is not best
    ]
    note = _untested_note(ranked, inputs)
    return Lines((*lines, *([note] if note else [])))


def _untested_note(ranked: Sequence[Estimate], inputs: Inputs) -> str:
    return UNTESTED if any(unpublished(each.plan, inputs) for each in ranked) else ""


def _marks(estimate: Estimate, inputs: Inputs) -> str:
    """That a plan is not safe, and that no published run is of its kind."""
    marks = [str(estimate.verdict)] if estimate.verdict != Verdict.SAFE else []
    marks += ["untested"] if unpublished(estimate.plan, inputs) else []
    return f"{', '.join(marks)}; " if marks else ""


def search_lines(result: SearchResult) -> Lines:
    """How many plans were considered, refused, too large and fitting."""
    lines, refused = [result.counts], ", ".join(f"{rule} {n:,}" for rule, n in result.refused.items() if n)
    if result.unpriced:
        exceeding = "weights, gradients and optimizer states, or all that their last forward pass holds, exceed memory"
        lines.append(f"Not priced: {result.unpriced:,} legal plans whose {exceeding}")
    if refused:
        lines.append(f"Refused, by rule (a plan may break several): {refused}")
    return Lines(tuple(lines))


def other_splits_section(result: SearchResult) -> list[Block]:
    """The best plan of every other (tp, cp, pp, dp); nothing where there is none."""
    if not result.other_splits:
        return []
    return [
        Heading("The best plan of each other split", 3),
        ranking_table(result.other_splits, result.best[0], result.inputs, first=len(result.best) + 1),
    ]


def front_section(front: Sequence[Estimate], most: int | None = None) -> list[Block]:
    """The plans that no other beats in both time and memory, less those that are hardly leaner than the one above; at
    most so many, the fastest.
    """
    if not front:
        return []
    shown = clearly_leaner(front)[:most]
    rows = tuple((str(each.plan), *speed_cells(each), verdict_cell(each.verdict)) for each in shown)
    note = f"{len(shown)} of {len(front)}, each using {LEANER:.0%} less memory than the one above; --json has all"
    columns = ("plan", *SPEED_COLUMNS, "verdict")
    return [
        Heading("Time against memory: plans that no other beats in both", 3),
        Table(columns, rows, "lrrrw", note=note),
    ]


def clearly_leaner(front: Sequence[Estimate]) -> list[Estimate]:
    """Of plans, the fastest first, those that each take `LEANER` less memory than the one before."""
    shown = [*front[:1]]
    for estimate in front:
        if estimate.memory.device <= (1 - LEANER) * shown[-1].memory.device:
            shown.append(estimate)
    return shown


def risky_lines(result: SearchResult, ranked: int = 0) -> list[Block]:
    """The faster plan that is not recommended because it may run out of memory; nothing where there is none, or where
    it is among so many ranked ones that are shown.
    """
    risky = result.faster_at_risk
    if risky is None or any(each.plan == risky.plan for each in result.best[:ranked]):
        return []
    return [Paragraph(Toned(f"Not recommended: {risky.plan} is {why_lost(risky, result.best[0])}", "warning"))]
