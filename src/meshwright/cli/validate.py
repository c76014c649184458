"""The command that scores predictions against measured runs."""

from __future__ import annotations

import os
from itertools import combinations
from pathlib import Path
from typing import Annotated

import typer

from meshwright.cli.options import AsJson, TimeLimit, Workers
from meshwright.cli.show import end_where, show
from meshwright.errors import InvalidInput


def validate(
    runs: Annotated[
        Path | None, typer.Option(metavar="FILE.csv", help="your own measured runs; default: the published runs")
    ] = None,
    where: Annotated[
        str | None, typer.Option(metavar="CONDITION", help="score only these rows, such as \"dataset == 'llmfoundry'\"")
    ] = None,
    rows: Annotated[Path | None, typer.Option(metavar="OUT.csv", help="write one line per configuration")] = None,
    plot: Annotated[Path | None, typer.Option(metavar="OUT.svg", help="plot predicted against measured")] = None,
    without: Annotated[
        bool, typer.Option("--left-out", help="predict each source with constants fitted to the others (takes minutes)")
    ] = False,
    time_limit: TimeLimit = None,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Predict published training runs, or your own, and print the errors."""
    from meshwright.answers.files import writable, write_whole
    from meshwright.answers.progress.progress import stoppable_progress
    from meshwright.search.executors import executor_of
    from meshwright.validation.score.configurations_csv import configurations_csv
    from meshwright.validation.score.picture import score_picture
    from meshwright.validation.score.validate import validate as scored

    table, picture = (writable(path, f"--{name}") if path else None for name, path in (("rows", rows), ("plot", plot)))
    _require_different({"--runs": Path(os.path.realpath(runs)) if runs else None, "--rows": table, "--plot": picture})
    with stoppable_progress(time_limit, "Predicting runs") as progress, executor_of(workers) as executor:
        answer = scored(runs, where=where, left_out=without, progress=progress, executor=executor)
    if progress.stopped:
        show(answer.to_dict() | {"complete": False} if as_json else answer.blocks(), as_json)
        end_where(stopped=True)
    if table:
        write_whole(table, configurations_csv(answer.outcomes))
    if picture:
        write_whole(picture, score_picture(answer.outcomes))
    show(answer.to_dict() if as_json else answer.blocks(), as_json)


def _require_different(files: dict[str, Path | None]) -> None:
    """Raise `InvalidInput` where one file would be written over another."""
    named = [(option, path) for option, path in files.items() if path]
    for (one, path), (other, written) in combinations(named, 2):
        if path == written:
            raise InvalidInput(f"{one} and {other} are both {str(path)!r}; name another file to write")
