"""The command that scores predictions against measured runs."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Annotated

import typer

from meshwright.cli.options import AsJson
from meshwright.cli.show import show
from meshwright.errors import InvalidInput


def validate(
    runs: Annotated[
        Path | None, typer.Option(metavar="FILE.csv", help="a table of measured runs; else the published ones")
    ] = None,
    where: Annotated[
        str | None, typer.Option(metavar="CONDITION", help="score these rows alone: \"dataset == 'llmfoundry'\"")
    ] = None,
    rows: Annotated[Path | None, typer.Option(metavar="OUT.csv", help="write one line per configuration")] = None,
    plot: Annotated[Path | None, typer.Option(metavar="OUT.svg", help="draw predicted against measured")] = None,
    without: Annotated[
        bool, typer.Option("--left-out", help="predict each source with constants fitted to all others (takes minutes)")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Predict training runs that others measured, and print how far off that is."""
    from meshwright.answers.files import writable, write_whole
    from meshwright.answers.records import json_of
    from meshwright.validation.fit.fitting import leave_one_source_out, leave_one_source_out_coverage
    from meshwright.validation.rows.configurations import configurations
    from meshwright.validation.rows.table import PUBLISHED, read_rows
    from meshwright.validation.score.configurations_csv import configurations_csv
    from meshwright.validation.score.outcomes import outcomes_of
    from meshwright.validation.score.picture import score_picture
    from meshwright.validation.score.score import score_of
    from meshwright.validation.score.screen import score_screen
    from meshwright.validation.score.where import row_filter

    table, picture = (writable(path, f"--{name}") if path else None for name, path in (("rows", rows), ("plot", plot)))
    _require_different({"--runs": runs.resolve() if runs else None, "--rows": table, "--plot": picture})
    asked = row_filter(where) if where is not None else lambda _: True
    selected = [row for row in read_rows(runs or PUBLISHED) if asked(row)]
    outcomes = outcomes_of(configurations(selected))
    intervals = None
    if without:
        published = outcomes if runs is None and where is None else outcomes_of(configurations(read_rows()))
        judged = leave_one_source_out(published, published)
        outcomes = judged if outcomes is published else leave_one_source_out(outcomes, published)
        intervals = leave_one_source_out_coverage(outcomes, judged)
    if table:
        write_whole(table, configurations_csv(outcomes))
    if picture:
        write_whole(picture, score_picture(outcomes))
    score = score_of(outcomes, intervals)
    show(json_of(score) if as_json else score_screen(score), as_json)


def _require_different(files: dict[str, Path | None]) -> None:
    """Raise `InvalidInput` where one file would be written over another."""
    named = [(option, path) for option, path in files.items() if path]
    for (one, path), (other, written) in combinations(named, 2):
        if path == written:
            raise InvalidInput(f"{one} and {other} are both {str(path)!r}; name another file to write")
