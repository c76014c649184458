"""The command that asks many questions at once."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from meshwright.cli.options import AsJson, TimeLimit, Workers
from meshwright.cli.show import end_where, show

if TYPE_CHECKING:
    from meshwright.answers.sweep.run import SweepSize


def sweep(
    file: Annotated[str, typer.Argument(metavar="SWEEP.toml", help="models, clusters, jobs, knobs and limits")],
    out: Annotated[str, typer.Option(metavar="DIR", help="folder for the tables; an unfinished sweep there resumes")],
    all_plans: Annotated[
        bool, typer.Option("--all-plans", help="also write every legal plan of each question with its price")
    ] = False,
    workers: Workers = None,
    dask: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Dask scheduler, such as tcp://host:8786, or local")
    ] = None,
    time_limit: TimeLimit = None,
    as_json: AsJson = False,
) -> None:
    """Find the best plan for every question in a file; a stopped sweep resumes where it ended."""
    from meshwright.answers.progress.progress import stoppable_progress
    from meshwright.answers.sweep.run import sweep as run

    with stoppable_progress(time_limit) as progress:
        result = run(file, out, all_plans=all_plans, workers=workers, dask=dask, progress=progress, started=_say_size)
    show(result.to_dict() if as_json else result.blocks(), as_json)
    end_where(progress.stopped)


def _say_size(size: SweepSize) -> None:
    """The size of a sweep on standard error, before its work starts."""
    asked = size.questions - size.refused - size.answered
    parts = [f"{size.questions:,} questions"]
    parts += [f"{size.refused:,} refused"] if size.refused else []
    parts += [f"{size.answered:,} answered before"] if size.answered else []
    print(f"{', '.join(parts)}; {size.plans:,} plans to price for {asked:,}", file=sys.stderr, flush=True)
