"""The command `plan`: the best plans for a model on a cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from meshwright.cli.groups import (
    ConstraintOptions,
    constraints_of,
    grouped,
    refuse_given,
)
from meshwright.cli.launch_options import RankedLaunchOptions, require_launch, write_ranked
from meshwright.cli.options import AsJson, Cite, Measured, More, Price, TimeLimit, Workers, positive
from meshwright.cli.searched import SearchOptions, searched
from meshwright.cli.show import end_where, show, show_cited
from meshwright.errors import InvalidInput
from meshwright.specs.defaults import DEFAULT_RUNTIME

if TYPE_CHECKING:
    from pathlib import Path

    from meshwright.answers.document.blocks import Block
    from meshwright.answers.launch.baseline import Baseline
    from meshwright.search.find import SearchResult


SEARCHED = 5
"""Plans that are ranked where nobody says how many."""


@grouped
def plan(
    context: typer.Context,
    asked: SearchOptions,
    launched: RankedLaunchOptions,
    measured: Measured = None,
    top: Annotated[
        int | None,
        typer.Option(parser=positive, metavar="COUNT", help="how many plans to show; default: 3 (5 with --more)"),
    ] = None,
    price: Price = None,
    pareto: Annotated[
        bool, typer.Option("--pareto", help="also list plans that no other beats in both time and memory")
    ] = False,
    more: More = False,
    cite: Cite = False,
    time_limit: TimeLimit = None,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Find the best plans for a model on a cluster."""
    from meshwright.answers.brief import on_one_screen, plan_briefs
    from meshwright.answers.plans.beyond import beyond
    from meshwright.answers.plans.table import plan_document, plan_screen
    from meshwright.answers.progress.progress import stoppable_progress
    from meshwright.search.find import find

    if asked.framework.runtime == "all":
        require_launch(launched, None)
        _plan_of_each(context, asked, measured, top or SEARCHED, pareto or cite, time_limit, workers, as_json)
        return
    refuse_given(context, ("workers",), "{} is for --runtime all; leave it out, or use --runtime all")
    inputs, baseline = searched(context, asked, measured)
    require_launch(launched, inputs.runtime.id)
    with stoppable_progress(time_limit) as progress:
        result = find(inputs, top=top or SEARCHED, progress=progress)
        if not result.best:
            from meshwright.answers.unfit.nothing_fits import nothing_fits_or_stopped

            raise nothing_fits_or_stopped(result, progress)
        others = beyond(result, progress, front=pareto)
    beside, of_file = _beside(result, baseline, price or [], asked.subject.cluster), baseline is not None
    if as_json:
        answer: Any = plan_document(result, others, of_file=of_file) | beside.entry
    elif more or cite:
        answer = on_one_screen([plan_screen(result, others, of_file=of_file)], beside.before, beside.after)
    else:
        answers = plan_briefs(result, others, top, of_file=of_file)
        answer = on_one_screen(answers, beside.before, beside.after)
    if cite:
        plans = [estimate.plan for estimate in (*result.best, *result.other_splits, *others.front)]
        show_cited(answer, plans, inputs, as_json)
    else:
        show(answer, as_json)
    write_ranked(result, launched)
    end_where(progress.stopped)


class _Beside(NamedTuple):
    """What an answer of `plan` holds beside its plans: for JSON, and the sections before and behind them."""

    entry: dict[str, Any]
    before: tuple[Block, ...]
    after: tuple[Block, ...]


def _beside(result: SearchResult, baseline: Baseline | None, prices: list[str], cluster: str | None) -> _Beside:
    """The plan of a launch file, with the change to the best plan, and what a training costs, where they are asked."""
    entry, line = _price(result, prices, cluster) if prices else ({}, ())
    if baseline is None:
        return _Beside(entry, (), line)
    from meshwright.answers.document.blocks import Lines
    from meshwright.answers.launch.baseline import baseline_entry, baseline_lines
    from meshwright.answers.launch.existing import launch_file_entry, launch_file_screen
    from meshwright.answers.launch.patch import launch_patch_entry, launch_patch_section, patch_to_best

    best, launch = result.best[0], baseline.launch
    change = patch_to_best(baseline, best)
    entry |= launch_file_entry(launch) | baseline_entry(baseline, best) | launch_patch_entry(change)
    before = *launch_file_screen(launch), Lines(tuple(baseline_lines(baseline, best)))
    return _Beside(entry, before, (*launch_patch_section(launch, change), *line))


def _price(result: SearchResult, prices: list[str], cluster: str | None) -> tuple[dict[str, Any], tuple[Block, ...]]:
    """What all tokens cost with the best plan; of a job without a number, `told_tokens`."""
    from meshwright.answers.compare.training import prices_of, training_entry, training_line, training_on
    from meshwright.answers.document.blocks import Lines
    from meshwright.answers.words import told_tokens

    inputs = result.inputs
    price = prices_of(prices, {cluster or inputs.cluster.name: inputs.cluster})[inputs.cluster.name]
    tokens = told_tokens(inputs.job)
    training = training_on(tokens, result.best[0], inputs, price)
    line = Lines((training_line(training, tokens, price),))
    return {"training": training_entry(training, tokens, price)}, (line,)


def _plan_of_each(
    context: typer.Context,
    asked: SearchOptions,
    measured: Path | None,
    top: int,
    more: bool,
    time_limit: float | None,
    workers: int | None,
    as_json: bool,
) -> None:
    """The best plans of every runtime; more: options about one runtime are given."""
    if more:
        raise InvalidInput("--pareto and --cite work for one runtime; name it instead of all")
    if asked.launch.from_file is not None:
        raise InvalidInput("a launch file belongs to one framework; leave out --runtime all or --from")
    from meshwright.answers.compare.runtimes import answers_of_each, crossover_of, runtimes_document, runtimes_screen
    from meshwright.answers.progress.progress import stoppable_progress
    from meshwright.search.executors import executor_of
    from meshwright.specs.adapters import runtimes_with_adapters

    behaviours, allowed = asked.framework.of_questions["behaviours"] or [], constraints_of(asked.allowed)
    usual = runtimes_with_adapters()[0] if asked.job.lora_rank else DEFAULT_RUNTIME
    one = replace(asked.framework, runtime=usual, behaviours=None, dispatcher=None)
    inputs, _ = searched(context, replace(asked, framework=one, allowed=ConstraintOptions()), measured)
    with stoppable_progress(time_limit) as progress, executor_of(workers) as executor:
        answers = answers_of_each(inputs, top, behaviours, progress, allowed, executor)
        crossing = None if progress.stopped else crossover_of(answers)
    show(runtimes_document(answers, crossing) if as_json else runtimes_screen(answers, crossing), as_json)
    end_where(progress.stopped)
