"""The command `launch`: a plan as the files that start it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from meshwright.cli.groups import grouped
from meshwright.cli.launch_options import LaunchOptions, written_lines
from meshwright.cli.one_plan import OnePlanOptions, one_plan, require_default_legal


@grouped
def launch(
    context: typer.Context,
    asked: OnePlanOptions,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="folder to write; it must not exist yet")],
    files: LaunchOptions,
) -> None:
    """Write the files that launch one plan: configuration, start script and Slurm batch file."""
    one = one_plan(context, asked)
    if not files.nearest:
        require_default_legal(one)
    lines = written_lines(one.plan, one.inputs, out, files)
    for line in [one.note, *lines] if one.note else lines:
        print(line)
