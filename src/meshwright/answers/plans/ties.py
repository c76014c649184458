"""Ties: how many plans are as good as the fastest, and why the recommended one was chosen among them."""

from __future__ import annotations

import shlex
from typing import Any

from meshwright.answers.pace import pace, pace_of
from meshwright.answers.records import priced_plan
from meshwright.answers.step_parts import main_cause
from meshwright.answers.words import plural
from meshwright.cost.estimate import Estimate
from meshwright.errors import listed
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.search.find import SearchResult
from meshwright.search.published.layouts import (
    FastestRun,
    fastest_run_of,
    has_published_layout,
    is_known_to_work,
    is_split_in_another_precision,
)
from meshwright.search.published.untested import Unpublished, beaten_kinds, is_unbeaten, unpublished
from meshwright.search.ranking.rank import rank_time_s
from meshwright.search.ranking.ties import AXES, complexity, share_of_ties, tied_within
from meshwright.specs.inputs import Inputs
from meshwright.units import GIB, format_gib, format_seconds

AS_OF_JOB = "is split as the fastest published run of this job"
AS_PUBLISHED = "is split as a published run of {model}"
AS_UNTIMED = "is split as a published recipe of the model"
IN_ANOTHER_PRECISION = "is split as a published run in another precision"
IN_FEWER_CHUNKS = "is split as a published run, but for fewer chunks"
MOST_OPTIONS = 6
"""Of a published run, to be listed."""
_TABLE = "{"
"""In a value that no person types."""


def ties_entry(result: SearchResult) -> dict[str, Any]:
    """How many plans cannot be told from the fastest, up to which share of its step, which one is the fastest, and the
    best that is split as a published run.
    """
    fastest = result.fastest or result.best[0]
    proven = {"proven": priced_plan(result.proven)} if result.proven else {}
    return {"share": tied_share(result), "plans": result.equal, "fastest": priced_plan(fastest), **proven}


def tie_lines(result: SearchResult) -> list[str]:
    """That the recommended plan is one of several equal ones, why it was chosen, and what the fastest one is."""
    best, fastest = result.best[0], result.fastest
    if fastest is None or result.equal == 1:
        return []
    share = tied_share(result)
    within = f"{result.equal:,} plans are within {share:.1%} of the fastest, closer than predictions can tell"
    if fastest.plan == best.plan:
        return [f"{within}. This one is the fastest of them."]
    why = reasons(best, fastest, result.inputs)
    text = preferred_words(result) or f"{within}. This one {why}."
    slower = best.step_time_s > fastest.step_time_s
    return [text, f"Predicted fastest: {fastest.plan}, {pace(fastest, best)}."] if slower else [text]


def preferred_words(result: SearchResult) -> str:
    """That the recommended plan is preferred to a faster one that predictions can tell from it, or to one that no
    published run is like, or only beaten ones, and why; nothing where it is neither (`search.ranking.ties.tied_rows`).
    """
    best, inputs = result.best[0], result.inputs
    if tied_share(result) <= share_of_ties(inputs):
        return ""
    run = " because plans like it have been run" if _run_before(best, result.fastest or best, inputs) else ""
    why = reasons(best, result.fastest or best, inputs)
    faster = pace_of(1 / (1 + tied_share(result)) - 1)
    share = f"To take its place another plan must be predicted to be over {faster}."
    return f"Preferred{run}: this plan {why}. {share}"


def fastest_lines(result: SearchResult) -> list[str]:
    """That the recommended plan is not the predicted fastest, which one is, and why it is not recommended."""
    best, fastest = result.best[0], result.fastest
    if fastest is None or best.step_time_s <= fastest.step_time_s:
        return []
    faster = f"This is not the predicted fastest: {fastest.plan} is {pace(fastest, best)}"
    if preferred := preferred_words(result):
        return [f"{faster}. {preferred}"]
    return [f"{faster}, closer than predictions can tell. This one {reasons(best, fastest, result.inputs)}."]


def proven_lines(result: SearchResult, with_settings: bool = True) -> list[str]:
    """The best plan that is split as a published run, where the recommended one is not; what that run took, where it
    is. with_settings: and its memory, and the plan and options to ask about that run with.
    """
    words, ran = proven_words(result), _ran(result)
    line = f"Published alternative: {words}" if words else ""
    if ran:
        same = ran.global_batch == result.inputs.job.global_batch
        model = _name(ran, result.inputs)
        of_job = "The fastest published run of this job" + (f" (with {model})" if model == ran.model else "")
        whose = of_job if same else f"A published run of {model}"
        line = line or f"{whose} was split so and {_took(ran, result.inputs)}"
        line += _less(ran, result) + (_held(ran) + _how_to_ask(ran, result) if with_settings else "")
    return [f"{line}.".replace("`", "")] if line else []


def published_run_words(result: SearchResult) -> str:
    """The plan and options of that run; nothing where there is none."""
    ran = _ran(result)
    return f"The published run {ran.name}: {_settings(ran)}." if ran else ""


def proven_words(result: SearchResult, with_cause: bool = True) -> str:
    """The same as a clause, with the plan as code; nothing where the recommended one is split so. with_cause: and the
    part of the step that makes it slower.
    """
    best, proven = result.best[0], _alternative(result)
    if proven is None:
        return ""
    cause = main_cause(proven, best, result.inputs) if with_cause else ""
    slower = f"predicted {pace(proven, best)}" + (f" ({cause})" if cause else "")
    risk = f" and {proven.verdict} ({proven.fit.probability:.0%} to fit)"
    risky = risk if proven.verdict > best.verdict else ""
    ran = _ran(result)
    measured = f"; that run {_took(ran, result.inputs)}" if ran else ""
    return f"`{proven.plan}` {_as_published(proven.plan, result.inputs)}, and {slower}{risky}{measured}"


def _as_published(plan: Plan, inputs: Inputs) -> str:
    """What a plan that is known to work is split as."""
    if not has_published_layout(Plans.of([plan]), inputs).item():
        return IN_ANOTHER_PRECISION if is_split_in_another_precision(plan, inputs) else IN_FEWER_CHUNKS
    ran = fastest_run_of(plan, inputs)
    if ran is None:
        return AS_UNTIMED
    return AS_OF_JOB if ran.global_batch == inputs.job.global_batch else AS_PUBLISHED.format(model=_name(ran, inputs))


def _alternative(result: SearchResult) -> Estimate | None:
    """The best plan that is split as a published run, where the recommended one is not."""
    published = has_published_layout(Plans.of([result.best[0].plan]), result.inputs).item()
    return None if published else result.proven


def _ran(result: SearchResult) -> FastestRun | None:
    """The fastest published run of the job that was split as that, or else as the recommended plan."""
    return fastest_run_of((_alternative(result) or result.best[0]).plan, result.inputs)


def _name(ran: FastestRun, inputs: Inputs) -> str:
    """What a run called its model, where that is not the name of the question's."""
    own, other = ("".join(filter(str.isalnum, name.lower())) for name in (inputs.model.name, ran.model))
    return "the model" if own == other else ran.model


def _less(ran: FastestRun, result: SearchResult) -> str:
    """That a run of this job took less than the best plan would."""
    same = ran.global_batch == result.inputs.job.global_batch
    return ", less than the best plan here" if same and ran.step_time_s < result.best[0].step_time_s else ""


def _held(ran: FastestRun) -> str:
    """What memory a run held, where that is known."""
    if ran.memory is None:
        return ""
    measured, predicted = (format_gib(size * GIB) for size in (ran.memory.gib, ran.memory.predicted_gib))
    return f". It held {measured} of {ran.memory.kind} memory (predicted {predicted})"


def _how_to_ask(ran: FastestRun, result: SearchResult) -> str:
    """What to ask about a run with."""
    settings = _settings(ran, (_alternative(result) or result.best[0]).plan)
    return f". To price that run: {settings}" if settings else ""


def _took(ran: FastestRun, inputs: Inputs) -> str:
    """What a run took, and for how many sequences, where not as many."""
    sequences = "" if ran.global_batch == inputs.job.global_batch else f" for {ran.global_batch:,} sequences"
    predicted = f"with its settings predicted {format_seconds(ran.predicted_s)}; " if ran.predicted_s else ""
    return f"took {format_seconds(ran.step_time_s)}{sequences} ({predicted}{ran.name})"


def _settings(ran: FastestRun, named: Plan | None = None) -> str:
    """The plan and options to ask about a run with, behaviours by number where nobody would type them all; named: the
    plan that the reader has just read, left out.
    """
    shown, behaviours = ran.options, [each for each in ran.options if each.startswith("--with ")]
    more = ""
    if len(shown) > MOST_OPTIONS or any(_TABLE in each for each in behaviours):
        shown = tuple(each for each in shown if each not in behaviours)
        more = plural(len(behaviours), "behaviour") + " of its own"
    listed_options = f"`{' '.join(map(_as_typed, shown))}`" if shown else ""
    options = " and ".join(filter(None, (listed_options, more)))
    if str(named) == str(ran.plan):
        return options
    return f"`{ran.plan}`" + (f" and {options}" if options else "")


def _as_typed(option: str) -> str:
    """An option as a shell takes it: its value in quotes where that has blanks or braces."""
    name, _, value = option.partition(" ")
    return f"{name} {shlex.quote(value)}" if value else name


def tied_share(result: SearchResult) -> float:
    """The share of the fastest plan's step up to which predictions cannot tell the recommended one from it."""
    best, inputs = result.best[0], result.inputs
    fastest = result.fastest or best
    unbeaten = bool(is_unbeaten(Plans.of([fastest.plan]), inputs).item())
    return tied_within(float(rank_time_s(best) / rank_time_s(fastest)) - 1, unbeaten, inputs)


def most_published(each: Unpublished) -> str:
    """How far published runs go, in brackets; nothing where there is none."""
    return "" if each.most == "none" else f" (the most: {each.most})"


def unpublished_lines(estimate: Estimate, inputs: Inputs) -> list[str]:
    """What a plan has that no published run has."""
    return [
        f"Untested: no published run has {each.what}{most_published(each)}."
        for each in unpublished(estimate.plan, inputs)
    ]


def best_tested_lines(result: SearchResult) -> list[str]:
    """The best plan of a kind that was run, where the recommended one is not of such a kind."""
    best, tested = result.best[0], result.tested
    if tested is None or not unpublished(best.plan, result.inputs):
        return []
    risk = "" if tested.verdict == best.verdict else f", {tested.verdict}"
    return [f"The best tested plan is {tested.plan}: {format_seconds(tested.step_time_s)}, {pace(tested, best)}{risk}."]


def _run_before(best: Estimate, fastest: Estimate, inputs: Inputs) -> bool:
    """Whether runs were like a plan that are not like another one."""
    known, other = is_known_to_work(Plans.of([best.plan, fastest.plan]), inputs)
    return bool(known and not other) or bool(unpublished(fastest.plan, inputs) and not unpublished(best.plan, inputs))


def reasons(best: Estimate, fastest: Estimate, inputs: Inputs) -> str:
    """What is simpler, safer or else faster about the recommended plan than about another one."""
    one, other = best.plan, fastest.plan
    given = []
    if unpublished(other, inputs) and not unpublished(one, inputs):
        given.append("stays within what published runs have used")
    elif beaten := [each for each in beaten_kinds(other, inputs) if each not in beaten_kinds(one, inputs)]:
        given.append(f"avoids {beaten[0]} (slower in published runs)")
    known = is_known_to_work(Plans.of([one, other]), inputs)
    if known[0] and not known[1]:
        given.append(_as_published(one, inputs))
    surely, before = (f"{each.fit.probability:.0%}" for each in (best, fastest))
    if best.fit.probability > fastest.fit.probability and surely != before:
        given.append(f"is more likely to fit ({surely} vs {before})")
    if sum(getattr(one, name) > 1 for name in AXES) < sum(getattr(other, name) > 1 for name in AXES):
        given.append("uses fewer kinds of parallelism")
    if other.chunk_layers and not one.chunk_layers:
        given.append("does not set the layers of each chunk by hand")
    if one.vpp < other.vpp:
        given.append(f"has vpp {one.vpp}, not {other.vpp}")
    points = complexity(Plans.of([one, other]), inputs)
    if not given and points[0] < points[1]:
        given.append("needs fewer settings")
    if not given and best.memory.device < fastest.memory.device:
        given.append(f"leaves {format_gib(fastest.memory.device - best.memory.device)} more memory free")
    if not given and best.step_time_s < fastest.step_time_s:
        given.append("is predicted to be faster")
    return listed(given) if given else "has the best balance of speed, simplicity and free memory"
