"""Brief: an answer on one screen of 40 lines; `--more` prints the whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from io import StringIO
from typing import NamedTuple

from rich.console import Console

from meshwright.answers.basis.assumptions import assumptions
from meshwright.answers.document.blocks import Block, Lines, Table
from meshwright.answers.document.terminal import terminal
from meshwright.answers.plans.beyond import NOTHING, Beyond
from meshwright.answers.plans.legend import legend_line
from meshwright.answers.plans.table import best_lines, front_section, ranking_lines, ranking_table, risky_lines
from meshwright.answers.screen import KIND_NAMES, headline, recomputed_words
from meshwright.answers.step_parts import PART_NAMES
from meshwright.answers.unfit.ways_to_fit import first_of_each_kind, ways_lines
from meshwright.cost.estimate import Estimate
from meshwright.errors import listed
from meshwright.search.find import SearchResult
from meshwright.specs.inputs import Inputs
from meshwright.units import format_gib, format_seconds

Blocks = tuple[Block, ...]
LINES, COLUMNS = 40, 80
"""Of one screen."""
NAMED, NAMED_BRIEFLY = 0.04, 0.08
"""Of the whole, from which a part is named; in the shorter answers."""
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
    every_way: bool = True
    """Of what would fit safely; else the first of each kind."""
    most_ways: int | None = None
    """How many of these; None: all."""
    table: bool = True
    """The ranking as a table; else a line for each plan but the best."""
    settings: bool = True
    """What launches set, and small parts of the step."""


PLAN_LENGTHS = (
    PlanLength(),
    PlanLength(legend=False),
    PlanLength(legend=False, table=False),
    *(
        PlanLength(*each, legend=False, table=False, settings=False)
        for each in ((3, 8), (2, 8), (0, 8), (0, 6), (0, 3))
    ),
    *(
        PlanLength(ranked=0, front=3, legend=False, every_way=False, most_ways=most, settings=False)
        for most in (None, 2, 1)
    ),
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


def note_lines(note: str) -> Blocks:
    """A line before an answer; nothing without one."""
    return (Lines((note,)),) if note else ()


def lines_of(blocks: Blocks) -> int:
    """Lines that an answer takes on a screen of `COLUMNS`."""
    out = StringIO()
    Console(file=out, width=COLUMNS, markup=False, emoji=False, highlight=False).print(terminal(blocks), crop=False)
    return out.getvalue().count("\n")


def plan_briefs(
    result: SearchResult, beyond: Beyond = NOTHING, top: int | None = None, *, of_file: bool = False
) -> Iterator[Blocks]:
    """Ever shorter answers: the best plan with its verdict, the ranking with the part that decided, and where memory
    and time go.

    top: how many plans are shown at any length; of_file: as for `plan_document`.
    """
    costs, ways = beyond.costs, beyond.ways
    told = sorted(costs, key=lambda each: -each.faster)[:MOST_COSTS] if len(costs) > MOST_COSTS else costs

    @cache
    def first(settings: bool) -> Lines:
        return best_lines(result, beyond._replace(costs=told), settings, of_file=of_file)

    untold = ["what every constraint costs"] if len(costs) > len(told) else []
    for each in PLAN_LENGTHS:
        shown = ways if each.every_way or ways is None else first_of_each_kind(ways)[: each.most_ways]
        rest = ["every way to fit"] if len(shown or ()) < len(ways or ()) else []
        rest += ["what launches set"] if first(each.settings) != first(True) else []
        length = each._replace(ranked=top, table=True) if top else each
        best = asked_lines(result.inputs), first(each.settings)
        yield *best, *ways_lines(shown), *_plan_brief(result, beyond.front, untold + rest, length)


def _plan_brief(
    result: SearchResult,
    front: Sequence[Estimate],
    untold: Sequence[str],
    length: PlanLength,
) -> Blocks:
    best, inputs, ranked = result.best[0], result.inputs, length.ranked
    rest = len(result.best[ranked or 1 :]) + len(result.other_splits)
    plans = [f"{rest} more plan{'s' * (rest > 1)}"] if rest else []
    more = listed(["memory and time in full", *plans, *untold, f"all {len(assumptions(inputs))} assumptions"])
    return (
        *([_ranking(result, ranked, length.table)] if ranked else []),
        *risky_lines(result, ranked),
        *front_section(front, length.front),
        Lines(
            (
                *part_lines(best, briefly=not length.settings),
                *legend_lines(best, length.legend),
                f"{result.counts}. --more prints {more}.",
            )
        ),
    )


def _ranking(result: SearchResult, ranked: int, table: bool) -> Table | Lines:
    """The first plans, as a table or a line for each but the best one."""
    shown, best, inputs = result.best[:ranked], result.best[0], result.inputs
    return ranking_table(shown, best, inputs, most=1) if table else ranking_lines(shown, best, inputs)


def asked_lines(inputs: Inputs) -> Lines:
    """The question, and what of its job nobody said."""
    assumed = "; ".join(inputs.job.assumptions)
    return Lines((*headline(inputs).lines, *([f"Assumed: {assumed}"] if assumed else [])))


def part_lines(estimate: Estimate, *, briefly: bool = False) -> tuple[str, str]:
    """Where the memory of the worst stage and the time of a step go; briefly: as the shorter answers have it."""
    memory, time = estimate.memory, estimate.time._asdict()
    least, recomputed = (NAMED_BRIEFLY, "") if briefly else (NAMED, recomputed_words(estimate))
    compute = {KIND_NAMES[kind]: seconds for kind, seconds in estimate.compute._asdict().items()}
    rest = {PART_NAMES[name]: seconds for name, seconds in time.items() if name != "compute_s"}
    sizes = {name.replace("_", " "): float(size) for name, size in memory._asdict().items()}
    step = f"{format_seconds(estimate.step_time_s)}{recomputed}"
    return (
        f"Memory of stage {estimate.worst_stage}, {format_gib(memory.device)}: {_shares(sizes, memory.device, least)}",
        f"Step time, {step}: {_shares(compute | rest, estimate.step_time_s, least)}",
    )


def legend_lines(estimate: Estimate, whole: bool) -> tuple[str]:
    """How to read the plan's name, or which command says it."""
    return (legend_line(str(estimate.plan)) if whole else 'meshwright legend "NAME" explains a plan\'s name.',)


def _shares(parts: Mapping[str, float], whole: float, least: float) -> str:
    """The parts of a whole that are large enough to name, the largest first, and the rest."""
    named = {name: part / whole for name, part in parts.items() if part >= least * whole}
    words = [f"{share:.0%} {name}" for name, share in sorted(named.items(), key=lambda each: -each[1])]
    rest = 1 - sum(named.values())
    return ", ".join([*words, f"{rest:.0%} other"] if rest >= 0.005 else words)
