"""Brief: an answer on one screen of 40 lines; `--more` prints the whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import StringIO
from typing import NamedTuple

from rich.console import Console

from meshwright.answers.alternatives import knobs_section, neighbours, neighbours_section
from meshwright.answers.assumptions import assumptions
from meshwright.answers.document.blocks import Block, Lines
from meshwright.answers.document.terminal import terminal
from meshwright.answers.explain_table import explain_lines
from meshwright.answers.memo.words import listed
from meshwright.answers.plan_legend import legend_line
from meshwright.answers.plan_table import best_lines, front_section, ranking_table, search_counts
from meshwright.answers.screen import KIND_NAMES, headline
from meshwright.answers.step_parts import PART_NAMES
from meshwright.answers.varied_plan import variation_section
from meshwright.cost.estimate import Estimate
from meshwright.search.constraint_costs import ConstraintCost
from meshwright.search.find import SearchResult
from meshwright.search.sensitivity import Sensitivity, sensitivity
from meshwright.search.variation import Variation
from meshwright.specs.inputs import Inputs
from meshwright.units import format_gib, format_seconds

Blocks = tuple[Block, ...]
LINES, COLUMNS = 40, 80
"""Of one screen."""
NAMED = 0.04
"""Of the whole, from which a part is named."""
SHOWN = 3
"""Plans of a brief ranking."""
MOST_COSTS = 3
"""Constraints whose cost is told."""


class PlanLength(NamedTuple):
    """How much an answer of `plan` shows beside its best plan."""

    ranked: int = SHOWN
    """Plans of the ranking; of one alone there is none."""
    front: int = 8
    """Plans of the front."""
    legend: bool = True


class ExplainLength(NamedTuple):
    """How much an answer of `explain` shows beside its plan."""

    others: int = 2
    changes: int = 5
    legend: bool = True
    parts: bool = True
    """Where memory and time go."""


PLAN_LENGTHS = PlanLength(), *(PlanLength(*each, legend=False) for each in ((3, 8), (2, 8), (0, 8), (0, 6), (0, 3)))
EXPLAIN_LENGTHS = (
    ExplainLength(),
    *(ExplainLength(*each, legend=False) for each in ((2, 5), (1, 5), (0, 5), (0, 3))),
    *(ExplainLength(0, changes, legend=False, parts=False) for changes in (3, 0)),
)
"""The longest first."""


def on_one_screen(answers: Iterable[Blocks], before: Blocks = (), after: Blocks = ()) -> Blocks:
    """The first of ever shorter answers that stands on one screen with what is before and behind it; else the last."""
    whole: Blocks = ()
    for answer in answers:
        whole = (*before, *answer, *after)
        if lines_of(whole) <= LINES:
            break
    return whole


def lines_of(blocks: Blocks) -> int:
    """Lines that an answer takes on a screen of `COLUMNS`."""
    out = StringIO()
    Console(file=out, width=COLUMNS, markup=False, emoji=False, highlight=False).print(terminal(blocks))
    return out.getvalue().count("\n")


def plan_briefs(
    result: SearchResult, front: Sequence[Estimate] = (), costs: Sequence[ConstraintCost] = (), top: int | None = None
) -> Iterator[Blocks]:
    """Ever shorter answers: the best plan with its verdict, the ranking with the part that decided, and where memory
    and time go.

    front: the plans that no other beats in both time and memory; costs: what the constraints of the question cost; top:
    how many plans are shown at any length.
    """
    return (_plan_brief(result, front, costs, top or each.ranked, each) for each in PLAN_LENGTHS)


def _plan_brief(
    result: SearchResult,
    front: Sequence[Estimate],
    costs: Sequence[ConstraintCost],
    ranked: int,
    length: PlanLength,
) -> Blocks:
    best, inputs = result.best[0], result.inputs
    rest = len(result.best[ranked or 1 :]) + len(result.other_splits)
    untold = ["memory and time in full", *([f"{rest} more plan{'s' * (rest > 1)}"] if rest else [])]
    untold += ["what every constraint costs"] if len(costs) > MOST_COSTS else []
    told = sorted(costs, key=lambda each: -each.faster)[:MOST_COSTS] if len(costs) > MOST_COSTS else costs
    more = listed([*untold, f"all {len(assumptions(inputs))} assumptions"])
    return (
        _asked(inputs),
        best_lines(result, told),
        *([ranking_table(result.best[:ranked], best, most=1)] if ranked else []),
        *front_section(front, length.front),
        Lines(
            (
                *_parts(best),
                *_legend(best, length.legend),
                f"{search_counts(result)}. --more prints {more}.",
            )
        ),
    )


def explain_briefs(
    estimate: Estimate, inputs: Inputs, near: SearchResult | None = None, variation: Variation | None = None
) -> Iterator[Blocks]:
    """Ever shorter answers: the plan with its verdict, where memory and time go, the best other plans and the changes
    that gain most.

    near: the answer of a search, for the best other plans; variation: of a saved plan, which this one is.
    """
    priced = sensitivity(estimate, inputs)
    return (_explain_brief(estimate, inputs, near, variation, priced, each) for each in EXPLAIN_LENGTHS)


def _explain_brief(
    estimate: Estimate,
    inputs: Inputs,
    near: SearchResult | None,
    variation: Variation | None,
    priced: Sensitivity,
    length: ExplainLength,
) -> Blocks:
    others = near is not None and neighbours(near, estimate) and length.others
    parts = *(_parts(estimate) if length.parts else ()), *_legend(estimate, length.legend)
    return (
        _asked(inputs),
        explain_lines(estimate, inputs),
        *(variation_section(estimate, variation) if variation else ()),
        *([Lines(parts)] if parts else []),
        *(neighbours_section(estimate, near, shown=length.others, most=1) if others else ()),
        *knobs_section(estimate, priced, near, shown=length.changes),
        Lines(
            (
                "--more prints memory and time in full, stages, placement, other plans, every change and all "
                f"{len(assumptions(inputs))} assumptions.",
            )
        ),
    )


def _asked(inputs: Inputs) -> Lines:
    """The question, and what of its job nobody said."""
    assumed = "; ".join(inputs.job.assumptions)
    return Lines((*headline(inputs).lines, *([f"Assumed: {assumed}"] if assumed else [])))


def _parts(estimate: Estimate) -> tuple[str, str]:
    """Where the memory of the worst stage and the time of a step go."""
    memory, time = estimate.memory, estimate.time._asdict()
    compute = {KIND_NAMES[kind]: seconds for kind, seconds in estimate.compute._asdict().items()}
    rest = {PART_NAMES[name]: seconds for name, seconds in time.items() if name != "compute_s"}
    sizes = {name.replace("_", " "): float(size) for name, size in memory._asdict().items()}
    return (
        f"Memory of stage {estimate.worst_stage}, {format_gib(memory.device)}: {_shares(sizes, memory.device)}",
        f"Time of a step, {format_seconds(estimate.step_time_s)}: {_shares(compute | rest, estimate.step_time_s)}",
    )


def _legend(estimate: Estimate, whole: bool) -> tuple[str]:
    """How to read the plan's name, or which command says it."""
    return (legend_line(str(estimate.plan)) if whole else 'meshwright legend "NAME" says how to read a plan\'s name.',)


def _shares(parts: Mapping[str, float], whole: float) -> str:
    """The parts of a whole that are large enough to name, the largest first, and the rest."""
    named = {name: part / whole for name, part in parts.items() if part >= NAMED * whole}
    words = [f"{share:.0%} {name}" for name, share in sorted(named.items(), key=lambda each: -each[1])]
    rest = 1 - sum(named.values())
    return ", ".join([*words, f"{rest:.0%} other"] if rest >= 0.005 else words)
