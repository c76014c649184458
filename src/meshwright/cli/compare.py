"""The command `compare`: clusters side by side, or plans."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from meshwright.cli import completion
from meshwright.cli.compare_files import LaunchFilesOptions, launched_plans, with_the_best
from meshwright.cli.groups import (
    ConstraintOptions,
    JobOptions,
    RuntimeOptions,
    SubjectOptions,
    grouped,
    inputs_of,
    option_names,
    refuse_given,
)
from meshwright.cli.launch_file import ABOUT_A_FILE, BESIDE_A_FILE, OF_A_FILE
from meshwright.cli.options import AsJson, ModelIfAny, TextOnly, TimeLimit, Workers, ratio
from meshwright.cli.show import end_where, show
from meshwright.errors import InvalidInput

if TYPE_CHECKING:
    from meshwright.answers.compare.clusters import Wishes
    from meshwright.answers.compare.named import FilePlan
    from meshwright.specs.cluster import Cluster
    from meshwright.specs.inputs import Inputs

OF_SEARCHES = "{} limits which plans a search may choose, and these plans are named; leave out one or the other"
OF_CLUSTERS = ("price", "deadline_days", "one_plan")
"""Options that say nothing about plans on one cluster."""
IN_A_PLAN_FILE = ("words", "model", "cluster", *option_names(JobOptions), *option_names(RuntimeOptions), "text_only")
"""Options that a plan file answers."""


class Shown(NamedTuple):
    """How an answer is shown, and seconds after which it is shown whatever is missing."""

    as_json: bool
    time_limit: float | None


@grouped
def compare(
    context: typer.Context,
    *,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL CLUSTER...]",
            autocompletion=completion.subject,
            help="the model and the clusters; the same as --model and --cluster",
        ),
    ] = None,
    model: ModelIfAny = None,
    cluster: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CLUSTER",
            autocompletion=completion.clusters,
            help="as in plan: two or more clusters, or one on which to compare plans",
        ),
    ] = None,
    job: JobOptions,
    price: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PRICE", help="price of one accelerator-hour, such as h100=2.9 or CLUSTER=2.9; repeatable"
        ),
    ] = None,
    deadline_days: Annotated[
        float | None, typer.Option(parser=ratio, metavar="DAYS", help="deadline for training on all --tokens")
    ] = None,
    one_plan: Annotated[
        bool, typer.Option("--one-plan", help="also find the one layout that works best on all clusters")
    ] = False,
    plan: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME:]FIELD=VALUE,...",
            help="a plan to compare, such as A:tp=4,pp=2,precision=fp8, or as its name is printed; repeatable",
        ),
    ] = None,
    plan_file: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE[:RANK]", help="a plan file, and the number of the plan in it; repeatable"),
    ] = None,
    launch: LaunchFilesOptions,
    framework: RuntimeOptions,
    allowed: ConstraintOptions,
    text_only: TextOnly = False,
    time_limit: TimeLimit = None,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Compare the best plans of several clusters, or several plans on one cluster."""
    named, shown = bool(plan or plan_file or launch.from_files), Shown(as_json, time_limit)
    model, clusters = _by_words(words or [], model, cluster or [])
    if named:
        why = "{} compares clusters, not plans; leave it out, or --plan, --plan-file and --from"
        refuse_given(context, OF_CLUSTERS, why)
        if plan or plan_file:
            refuse_given(context, option_names(ConstraintOptions), OF_SEARCHES)
    if launch.from_files:
        refuse_given(context, ("words",), BESIDE_A_FILE)
        launched = launched_plans(context, launch, model, clusters, framework.runtime)
        _show_plans(None, plan or [], plan_file or [], shown, launched, allowed)
        return
    refuse_given(context, OF_A_FILE, ABOUT_A_FILE)
    if plan_file:
        why = "{} cannot be combined with a plan file, which holds the whole question; leave it out"
        refuse_given(context, IN_A_PLAN_FILE, why)
        _show_plans(None, plan or [], plan_file, shown)
        return
    _require_clusters(named, model, clusters)
    if model is None:
        raise InvalidInput(
            f"compare needs a model, before the clusters or by --model: meshwright compare llama-3.1-70b "
            f"{' '.join(clusters)}{' --plan ...' * named}; or plan files: meshwright compare --plan-file A.json"
        )

    by_text = _different(clusters)
    accelerators = math.lcm(*(each.num_gpus for each in by_text.values()))

    def asked(where: str) -> Inputs:
        subject = SubjectOptions(model=model, cluster=where, text_only=text_only)
        return inputs_of(subject, job, framework, allowed=allowed, accelerators=accelerators)

    if named:
        _show_plans(asked(clusters[0]), plan or [], [], shown)
        return
    wishes = _wishes(price or [], deadline_days, one_plan, job.tokens, by_text)
    _show_clusters([(each, partial(asked, text)) for text, each in by_text.items()], wishes, workers, shown)


def _show_plans(
    inputs: Inputs | None,
    lines: list[str],
    files: list[str],
    shown: Shown,
    launched: Sequence[FilePlan] = (),
    allowed: ConstraintOptions | None = None,
) -> None:
    """inputs: of the options; None where files hold the question; launched: plans of launch files, of which one by
    itself stands beside the best plan that is allowed.
    """
    from meshwright.answers.compare.named import named_plans, of_one_question, plan_of_file
    from meshwright.answers.compare.plans import compare_plans
    from meshwright.answers.compare.plans_table import plans_document, plans_screen
    from meshwright.answers.progress.progress import stoppable_progress

    plans: list[FilePlan] = []
    if inputs is None:
        inputs, plans = of_one_question([*launched, *map(plan_of_file, files)])
    with stoppable_progress(shown.time_limit) as progress:
        if allowed is not None and len(plans) + len(lines) == 1:
            plans.append(with_the_best(inputs, allowed, progress))
        comparison = compare_plans(named_plans(lines, inputs, plans), inputs, progress)
    _show(plans_document(comparison) if shown.as_json else plans_screen(comparison), shown, progress.stopped)


def _show_clusters(
    asked: list[tuple[Cluster, Callable[[], Inputs]]], wishes: Wishes, workers: int | None, shown: Shown
) -> None:
    from meshwright.answers.compare.clusters import compare_clusters, questions_of
    from meshwright.answers.compare.clusters_table import clusters_document, clusters_screen
    from meshwright.answers.progress.progress import stoppable_progress
    from meshwright.search.executors import executor_of

    questions = questions_of(asked)
    with stoppable_progress(shown.time_limit) as progress, executor_of(workers) as executor:
        comparison = compare_clusters(questions, wishes, progress, executor)
    _show(clusters_document(comparison) if shown.as_json else clusters_screen(comparison), shown, progress.stopped)


def _show(answer: Any, shown: Shown, stopped: bool) -> None:
    show(answer | {"complete": False} if stopped and shown.as_json else answer, shown.as_json)
    end_where(stopped)


def _require_clusters(named: bool, model: str | None, clusters: list[str]) -> None:
    """Two clusters or more, or one with plans to compare on it."""
    if named and len(clusters) > 1:
        raise InvalidInput(
            f"plans are compared on one cluster, and {len(clusters)} are given: keep one, or leave out "
            "--plan; --one-plan then finds the layout that serves all of them"
        )
    if named and not clusters:
        raise InvalidInput("plans are compared on a cluster, and none is given: add --cluster, as --cluster 8x8:h100")
    if not named and len(clusters) < 2:
        given = f"one cluster is given, {clusters[0]}" if clusters else "no cluster is given"
        example = f"meshwright compare {model or 'llama-3.1-70b'} {clusters[0] if clusters else '8x8:h100'}"
        raise InvalidInput(
            f"compare sets two things or more side by side, and {given}: name two clusters, as in {example} 8x8:b200, "
            f"or plans of one, as in {example} --plan tp=8 --plan tp=4; or plan files: meshwright compare --plan-file "
            "A.json"
        )


def _by_words(words: list[str], model: str | None, clusters: list[str]) -> tuple[str | None, list[str]]:
    """The model and the clusters: of words without an option the first names the model if no option does."""
    if model is None and words:
        model, words = words[0], words[1:]
    return model, [*clusters, *words]


def _different(clusters: list[str]) -> dict[str, Cluster]:
    """The clusters by the text that asks for them, which may ask for none twice."""
    from meshwright.specs.reading.cluster import read_cluster

    by_text: dict[str, Cluster] = {}
    for text in clusters:
        cluster = read_cluster(text)
        twin = next((before for before, each in by_text.items() if each.name == cluster.name), None)
        if twin:
            same = "are the same cluster" if by_text[twin] == cluster else f"are both called {cluster.name}"
            raise InvalidInput(f"--cluster {twin} and --cluster {text} {same}; leave out one, or name it apart")
        by_text[text] = cluster
    return by_text


def _wishes(
    price: list[str], deadline_days: float | None, one_plan: bool, tokens: str | None, clusters: dict[str, Cluster]
) -> Wishes:
    from meshwright.answers.compare.clusters import Wishes
    from meshwright.answers.compare.training import prices_of

    for name, present in (("--price", bool(price)), ("--deadline-days", deadline_days is not None)):
        if present and tokens is None:
            raise InvalidInput(f"{name} is about a whole training, and no --tokens are given; add them, as --tokens 1T")
    if deadline_days is not None and not 0 < deadline_days < math.inf:
        raise InvalidInput(f"--deadline-days is {deadline_days:g}; it must be more than 0, as 60")
    return Wishes(prices_of(price, clusters), deadline_days, one_plan)
