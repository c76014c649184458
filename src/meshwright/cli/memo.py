"""The command that writes the recommendation memo."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from meshwright.cli.groups import given, grouped
from meshwright.cli.options import AsJson, Price, TimeLimit, positive
from meshwright.cli.searched import SearchOptions, searched
from meshwright.cli.show import end_where, show
from meshwright.errors import InvalidInput

if TYPE_CHECKING:
    from meshwright.answers.document.blocks import Document
    from meshwright.answers.launch.baseline import Baseline
    from meshwright.search.find import SearchResult
    from meshwright.specs.inputs import Inputs


@grouped
def memo(
    context: typer.Context,
    asked: SearchOptions,
    baseline_gpus: Annotated[
        int | None,
        typer.Option(parser=positive, metavar="COUNT", help="accelerators where scaling starts; default: one node"),
    ] = None,
    price: Price = None,
    out: Annotated[
        list[Path] | None,
        typer.Option("--out", metavar="FILE", help=".md, .html or .pdf; repeatable; default: print Markdown"),
    ] = None,
    time_limit: TimeLimit = None,
    as_json: AsJson = False,
) -> None:
    """Write a recommendation memo: which plan, why, and what could go wrong; exit code 3 if nothing fits."""
    from meshwright.answers.compare.training import prices_of
    from meshwright.answers.document.inline import visible
    from meshwright.answers.memo.write import memo_files, write_memo
    from meshwright.answers.progress.progress import stoppable_progress
    from meshwright.answers.public.memo import LOOKED_AT, memo_of
    from meshwright.search.find import find

    if asked.framework.runtime == "all":
        raise InvalidInput("a memo recommends a plan for one runtime; plan --runtime all compares them")
    paths = memo_files(out or [])
    inputs, existing = searched(context, asked)
    prices = prices_of(price or [], {asked.subject.cluster or inputs.cluster.name: inputs.cluster})
    written = None
    with stoppable_progress(time_limit) as progress:
        result = find(inputs, top=LOOKED_AT, progress=progress)
        price_of_one, unsaid = next(iter(prices.values()), None), _defaults(context, inputs, existing)
        if result.complete:
            written = progress.at_once(
                lambda: memo_of(result, unsaid, price_of_one, baseline_gpus, existing, progress.show)
            )
    if written is None:
        _show_unwritten(result, as_json)
        end_where(stopped=True)
        return
    for path in write_memo(written.page, paths):
        print(visible(str(path)), file=sys.stderr if as_json else sys.stdout)
    if as_json:
        show(written.to_dict(), as_json)
    elif not paths:
        _print(written.page)
    if not written.fits:
        raise typer.Exit(3)


def _show_unwritten(result: SearchResult, as_json: bool) -> None:
    """The best plans so far, in place of a memo that was stopped: nobody signs half of one, and no file is written."""
    from meshwright.answers.brief import on_one_screen, plan_briefs
    from meshwright.answers.plans.table import plan_document

    if result.best:
        show(plan_document(result) | {"complete": False} if as_json else on_one_screen(plan_briefs(result)), as_json)
    elif as_json:
        show({"complete": False}, as_json)
    print("meshwright: no memo is written", file=sys.stderr)


def _defaults(context: typer.Context, inputs: Inputs, existing: Baseline | None) -> tuple[str, ...]:
    """What nobody said, in words; a launch file says precision and runtime."""
    if existing:
        return ()
    values = {"precision": inputs.job.precision, "runtime": inputs.runtime.id}
    unsaid = values.keys() - {*given(context, values)}
    return tuple(f"{name} {value}: the default" for name, value in values.items() if name in unsaid)


def _print(document: Document) -> None:
    """The memo as Markdown, with tables in place of its pictures."""
    from meshwright.answers.document.markdown import without_pictures

    print(without_pictures(document).rstrip())
