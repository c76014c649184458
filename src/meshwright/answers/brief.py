"""Brief: an answer on one screen of 40 lines; `--more` prints the whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from meshwright.answers.alternatives import knobs_section, neighbours_section
from meshwright.answers.assumptions import assumptions
from meshwright.answers.document.blocks import Block, Lines
from meshwright.answers.explain_table import explain_lines
from meshwright.answers.plan_legend import legend_line
from meshwright.answers.plan_table import best_lines, front_section, ranking_table, search_counts
from meshwright.answers.screen import KIND_NAMES, headline
from meshwright.answers.step_parts import PART_NAMES
from meshwright.cost.estimate import Estimate
from meshwright.search.constraint_costs import ConstraintCost
from meshwright.search.find import SearchResult
from meshwright.search.sensitivity import sensitivity
from meshwright.specs.inputs import Inputs
from meshwright.units import format_gib, format_seconds

NAMED = 0.04
"""Of the whole, from which a part is named."""
SHOWN = 3
"""Plans of a brief ranking."""
OTHERS, CHANGES = 2, 5
"""Other plans and changes of a brief explanation."""


def plan_brief(
    result: SearchResult, front: Sequence[Estimate] = (), costs: Sequence[ConstraintCost] = (), shown: int = SHOWN
) -> tuple[Block, ...]:
    """The best plan with its verdict, the ranking with the part that decided, and where memory and time go.

    front: the plans that no other beats in both time and memory; costs: what the constraints of the question cost;
    shown: how many plans.
    """
    best, inputs = result.best[0], result.inputs
    rest = len(result.best[shown:]) + len(result.other_splits)
    more = f"--more prints memory and time in full{f', {rest} more plans' if rest else ''}"
    return (
        _asked(inputs),
        best_lines(result, costs),
        ranking_table(result.best[:shown], best, most=1),
        *front_section(front),
        _parts(best, f"{search_counts(result)}. {more} and all {len(assumptions(inputs))} assumptions."),
    )


def explain_brief(estimate: Estimate, inputs: Inputs, near: SearchResult | None = None) -> tuple[Block, ...]:
    """The plan with its verdict, where memory and time go, the best other plans and the changes that gain most.

    near: the answer of a search, for the best other plans.
    """
    rest = f"stages, placement, every change and all {len(assumptions(inputs))} assumptions"
    return (
        _asked(inputs),
        explain_lines(estimate, inputs),
        _parts(estimate),
        *neighbours_section(estimate, near, shown=OTHERS, most=1),
        *knobs_section(estimate, sensitivity(estimate, inputs), near, shown=CHANGES),
        Lines((f"--more prints memory and time in full, {rest}.",)),
    )


def _asked(inputs: Inputs) -> Lines:
    """The question, and what of its job nobody said."""
    assumed = "; ".join(inputs.job.assumptions)
    return Lines((*headline(inputs).lines, *([f"Assumed: {assumed}"] if assumed else [])))


def _parts(estimate: Estimate, *more: str) -> Lines:
    """Where the memory of the worst stage and the time of a step go, and how to read the plan's name; more: lines."""
    memory, time = estimate.memory, estimate.time._asdict()
    compute = {KIND_NAMES[kind]: seconds for kind, seconds in estimate.compute._asdict().items()}
    rest = {PART_NAMES[name]: seconds for name, seconds in time.items() if name != "compute_s"}
    sizes = {name.replace("_", " "): float(size) for name, size in memory._asdict().items()}
    return Lines(
        (
            f"Memory of stage {estimate.worst_stage}, {format_gib(memory.device)}: {_shares(sizes, memory.device)}",
            f"Time of a step, {format_seconds(estimate.step_time_s)}: {_shares(compute | rest, estimate.step_time_s)}",
            legend_line(str(estimate.plan)),
            *more,
        )
    )


def _shares(parts: Mapping[str, float], whole: float) -> str:
    """The parts of a whole that are large enough to name, the largest first, and the rest."""
    named = {name: part / whole for name, part in parts.items() if part >= NAMED * whole}
    words = [f"{share:.0%} {name}" for name, share in sorted(named.items(), key=lambda each: -each[1])]
    rest = 1 - sum(named.values())
    return ", ".join([*words, f"{rest:.0%} other"] if rest >= 0.005 else words)
