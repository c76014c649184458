"""The best plan of each runtime side by side, and fully sharded plans against 3D ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any

from meshwright.answers.compare.dropped import drops_tokens, mark_of, mark_words
from meshwright.answers.compare.prediction import prediction_words
from meshwright.answers.compare.without_plan import nothing_fits_lines, refused_lines
from meshwright.answers.document.blocks import Block, Lines, Paragraph, Table
from meshwright.answers.launch.unlaunched import MARK, unlaunched
from meshwright.answers.launch.unlaunched import mark_words as unlaunched_words
from meshwright.answers.pace import pace
from meshwright.answers.plans.constraint_lines import idle_of_each
from meshwright.answers.plans.table import plan_document
from meshwright.answers.plans.ties import preferred_words, reasons
from meshwright.answers.records import document_of, fields_of
from meshwright.answers.screen import (
    SPEED_COLUMNS,
    headline,
    job_words,
    replacements,
    speed_cells,
    verdict_cell,
    without_plan,
)
from meshwright.answers.unfit.nothing_fits import error_document, nothing_fits_or_stopped
from meshwright.cost.memory.fit import Verdict
from meshwright.errors import InvalidInput, InvalidSpec, MeshwrightError, NothingFits, Stopped
from meshwright.search import fan_out
from meshwright.search.find import Progress, SearchResult, find
from meshwright.search.many_searches.crossover import Contender, Crossover, crossover
from meshwright.search.plan_space.space import size
from meshwright.search.published.untested import unpublished
from meshwright.search.ranking.rivals import Family, Rivals
from meshwright.search.ranking.ties import share_of_ties
from meshwright.specs import catalog
from meshwright.specs.behaviours import beside_adapters, with_behaviours
from meshwright.specs.constraints import Constraints
from meshwright.specs.inputs import Inputs
from meshwright.specs.runtime import read_runtime
from meshwright.specs.scale import network_levels
from meshwright.units import format_bandwidth, format_gib, format_seconds

ONE_RUNTIME = "meshwright plan --runtime NAME shows the full answer for one runtime."
Answers = dict[str, SearchResult | MeshwrightError]
"""Per runtime, the result of its search, or why it has no plan."""


def answers_of_each(
    inputs: Inputs,
    top: int,
    behaviours: Sequence[str] = (),
    progress: Progress | None = None,
    constraints: Constraints | None = None,
    executor: Executor | None = None,
) -> Answers:
    """Search once for every runtime of the catalogue. Plans that their framework can launch come first, of those safe
    ones, then the fastest; runtimes without a plan last.

    behaviours: replaced in each, as `with_behaviours` takes them; progress, executor: as in `fan_out.answers`;
    constraints: on the plans of each, of which those that name what a runtime does not have refuse it.
    Raises `NothingFits` when no runtime has a plan that fits, `InvalidInput` when every one refuses the question.
    """
    names = catalog.names("runtimes")
    asked = {name: _question(inputs, name, behaviours, constraints) for name in names}
    questions = {name: each for name, each in asked.items() if isinstance(each, Inputs)}
    # The largest first, so that none of them is begun when the others are done.
    largest_first = sorted(questions, key=lambda name: -size(questions[name]))
    searched = fan_out.answers(partial(_answer, top), [questions[name] for name in largest_first], executor, progress)
    refused = {name: each for name, each in asked.items() if isinstance(each, MeshwrightError)}
    answered: Answers = {**refused, **dict(zip(largest_first, searched, strict=True))}
    answers = {name: answered[name] for name in names}
    if not any(isinstance(answer, SearchResult) for answer in answers.values()):
        invalid = [answer.faults for answer in answers.values() if isinstance(answer, InvalidSpec)]
        if len(invalid) == len(answers) and len(set(invalid)) == 1:
            raise InvalidSpec("the question for every runtime", invalid[0])
        message = "no runtime has a plan:" + "".join(f"\n  - {line}" for line in refused_lines(_refusals(answers)))
        if any(isinstance(each, Stopped) for each in answers.values()):
            raise Stopped(message)
        if not any(isinstance(each, NothingFits) for each in answers.values()):
            raise InvalidInput(message)
        refusals = {name: error_document(each) for name, each in _refusals(answers).items()}
        raise NothingFits(_nothing_fits_words(inputs, answers), {"runtimes": refusals})
    return dict(sorted(answers.items(), key=lambda answer: _preference(answer[1])))


def _refusals(answers: Answers) -> dict[str, MeshwrightError]:
    """The runtimes that have no plan."""
    return {name: each for name, each in answers.items() if isinstance(each, MeshwrightError)}


def _nothing_fits_words(inputs: Inputs, answers: Answers) -> str:
    """What the plans of every runtime need, and what would fit."""
    cluster = inputs.cluster
    head = (
        f"no runtime has a plan of {inputs.model.name} that fits on {cluster.name}, whose {cluster.accelerator.id} has "
        f"{format_gib(cluster.accelerator.visible_memory_bytes)}:"
    )
    lines = "".join(f"\n  {line}" for line in nothing_fits_lines(_refusals(answers)))
    return f"{head}\n{lines}\n\n{ONE_RUNTIME}"


def _question(
    inputs: Inputs, name: str, behaviours: Sequence[str], constraints: Constraints | None
) -> Inputs | MeshwrightError:
    """The question of one runtime, or why it makes none."""
    try:
        runtime = beside_adapters(with_behaviours(read_runtime(name), behaviours), inputs.job)
        return inputs.replace(runtime=runtime, constraints=constraints or inputs.constraints)
    except MeshwrightError as refusal:
        return refusal


def _answer(top: int, inputs: Inputs, progress: Progress | None) -> SearchResult | MeshwrightError:
    """The answer of one runtime, or why it has none."""
    try:
        rivals = Rivals() if network_levels(inputs.cluster) else None
        result = find(inputs, top=top, progress=progress, rivals=rivals)
        return result if result.best else nothing_fits_or_stopped(result, progress, most=1, of_all=True)
    except MeshwrightError as refusal:
        return refusal


def crossover_of(answers: Answers) -> Crossover | None:
    """Fully sharded plans against 3D ones; None for a cluster without links between nodes.

    The runtimes whose best plan is as safe as that of the first, and launched if that is, take part.
    """
    results = _results(answers).values()
    first = min(map(_standing, results))
    return crossover([each for each in results if _standing(each) == first])


def runtimes_document(answers: Answers, crossing: Crossover | None) -> dict[str, Any]:
    """Per runtime its plan file, or the reason why it has no plan; those that drop tokens; then one family of plans
    against the other.
    """
    runtimes = {
        runtime: plan_document(answer) if isinstance(answer, SearchResult) else {"refused": str(answer)}
        for runtime, answer in answers.items()
    }
    return document_of(
        schema="meshwright.runtimes/1",
        runtimes=runtimes,
        drops_tokens=[runtime for runtime, each in _results(answers).items() if drops_tokens(each.inputs)],
        crossover=crossover_entry(crossing) if crossing else None,
    )


def runtimes_screen(answers: Answers, crossing: Crossover | None) -> tuple[Block, ...]:
    """One row for each runtime: its best plan, how fast and large it is, its verdict; then both families of plans."""
    results = _results(answers)
    rows = tuple(_row(each) for each in results.values())
    inputs = next(iter(results.values())).inputs
    question = (*headline(inputs).lines[:-1], job_words(inputs), *_replaced(inputs))
    return (
        Lines(question),
        Table(("runtime", "best plan", *SPEED_COLUMNS, "verdict"), rows, "llrrrw", note=_note(results)),
        *([Lines(idle)] if (idle := idle_of_each(results)) else []),
        *without_plan(refused_lines(_refusals(answers))),
        *([Lines((*crossover_lines(crossing), *_recommended_lines(results, crossing)))] if crossing else []),
        Paragraph(ONE_RUNTIME),
    )


def _replaced(inputs: Inputs) -> list[str]:
    """What the question replaced, which is the same in every runtime."""
    changes = ", ".join(replacements(inputs))
    return [f"Replaced in every runtime: {changes}"] if changes else []


def _results(answers: Answers) -> dict[str, SearchResult]:
    """The runtimes that have a plan."""
    return {runtime: answer for runtime, answer in answers.items() if isinstance(answer, SearchResult)}


def _row(result: SearchResult) -> tuple[str, ...]:
    best, inputs = result.best[0], result.inputs
    name = inputs.runtime.id + mark_of(inputs) + MARK * _unlaunched(result)
    return name, str(best.plan), *speed_cells(best), verdict_cell(best.verdict)


def _note(results: dict[str, SearchResult]) -> str:
    """What the marks mean, where there are any, and that no plan is safe, where none is."""
    safe = any(each.best[0].verdict == Verdict.SAFE for each in results.values())
    risk = "" if safe else "No runtime has a plan that fits safely: each of these may run out of memory."
    trained = {name: each.inputs.mtp_layers for name, each in results.items()}
    marks = mark_words(each.inputs for each in results.values()), unlaunched_words(map(_unlaunched, results.values()))
    return " ".join(filter(None, (*marks, prediction_words(trained), risk)))


def _unlaunched(result: SearchResult) -> bool:
    return unlaunched(result.best[0].plan, result.inputs) is not None


def _standing(result: SearchResult) -> tuple[bool, int]:
    """Whether the framework cannot launch the best plan, and its verdict."""
    return _unlaunched(result), result.best[0].verdict


def _preference(answer: SearchResult | MeshwrightError) -> tuple[bool, int, float]:
    """By what answers are ranked: the standing of the best plan, then its step time; without a plan the last."""
    if not isinstance(answer, SearchResult):
        return True, Verdict.OUT_OF_MEMORY, math.inf
    return *_standing(answer), answer.best[0].step_time_s


def crossover_lines(crossing: Crossover) -> list[str]:
    """Which family is faster at the cluster's own bandwidth between nodes, and at which bandwidth the other one is."""
    fastest, other = crossing.fastest, crossing.other
    at = f"At {format_bandwidth(crossing.bandwidth)} per GPU between nodes, **{fastest.family}** is predicted fastest: "
    if other:
        best = f"{_named(fastest)}; the best {other.family} plan is {_named(other)}."
        return [at + best, _change_line(crossing, other)]
    missing = next(family for family in Family if family != fastest.family)
    return [f"{at}{_named(fastest)}. No {missing} plan fits as safely, however fast the links."]


def _recommended_lines(results: dict[str, SearchResult], crossing: Crossover) -> list[str]:
    """Why the table has another plan of the runtime that is predicted fastest; nothing where it has that one."""
    fastest, inputs = crossing.fastest.estimate, crossing.fastest.inputs
    result = results[inputs.runtime.id]
    best = result.best[0]
    if fastest.step_time_s >= best.step_time_s:
        return []
    tied = "" if preferred_words(result) else ", closer than predictions can tell"
    lost = f"it is {pace(best, fastest)} than the fastest{tied}"
    return [
        f"The table has the plan that meshwright plan recommends for {inputs.runtime.id}, {best.plan}: {lost}, but "
        f"{reasons(best, fastest, inputs)}."
    ]


def crossover_entry(crossing: Crossover) -> dict[str, Any]:
    """The same as JSON: bandwidths per accelerator, one direction, in bytes/s; plans with their step time."""
    change = crossing.change
    ends = {name: _contender(getattr(change, name)) for name in ("overtaking", "overtaken")} if change else {}
    return fields_of(crossing, "bandwidth", "lowest_bandwidth", "highest_bandwidth") | {
        "fastest": _contender(crossing.fastest),
        "other": _contender(crossing.other) if crossing.other else None,
        "told_apart": told_apart(crossing.fastest, crossing.other) if crossing.other else None,
        "change": fields_of(change, "factor", "bandwidth") | ends if change else None,
    }


def _contender(contender: Contender) -> dict[str, Any]:
    runtime = {"family": contender.family, "runtime": contender.inputs.runtime.id}
    return runtime | fields_of(contender.estimate, "plan", "step_time_s", "verdict")


def told_apart(fastest: Contender, other: Contender) -> bool:
    """Whether predictions can tell which of the two is faster: by the share at which plans of one question tie."""
    published = not any(unpublished(each.estimate.plan, each.inputs) for each in (fastest, other))
    return other.estimate.step_time_s > fastest.estimate.step_time_s * (1 + share_of_ties(fastest.inputs, published))


def _change_line(crossing: Crossover, other: Contender) -> str:
    change = crossing.change
    if not told_apart(crossing.fastest, other):
        apart = other.estimate.step_time_s / crossing.fastest.estimate.step_time_s - 1
        return f"They are {apart:.1%} apart, closer than predictions can tell, so that either may be the faster one."
    if change is None:
        ends = " to ".join(map(_rounded, (crossing.lowest_bandwidth, crossing.highest_bandwidth)))
        return f"No bandwidth from {ends} changes that."
    side = "Above" if change.factor > 1 else "Below"
    alike = ", for all links between nodes" if len(network_levels(other.inputs.cluster)) > 1 else ""
    text = (
        f"{side} **about {_rounded(change.bandwidth)}** ({change.factor:.2f} times{alike}) **{other.family}** would be "
        "faster"
    )
    return f"{text}." if _alike(change.overtaking, other) else f"{text}: {_named(change.overtaking)}."


def _alike(one: Contender, other: Contender) -> bool:
    return one.inputs.runtime == other.inputs.runtime and one.estimate.plan == other.estimate.plan


def _named(contender: Contender) -> str:
    estimate = contender.estimate
    marks = [] if estimate.verdict == Verdict.SAFE else [str(estimate.verdict)]
    marks += ["drops tokens"] if drops_tokens(contender.inputs) else []
    said = f" ({', '.join(marks)})" if marks else ""
    return f"{contender.inputs.runtime.id} with {estimate.plan}, {format_seconds(estimate.step_time_s)}{said}"


def _rounded(bandwidth: float) -> str:
    """Three digits, what the search is good for."""
    return format_bandwidth(float(f"{bandwidth:.3g}"))
