"""The command `launch`: a plan as the files that start it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from meshwright.cli.groups import grouped
from meshwright.cli.launch_options import LaunchOptions, written_lines
from meshwright.cli.one_plan import OnePlanOptions, inputs_and_plan


@grouped
def launch(
    context: typer.Context,
    asked: OnePlanOptions,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="folder to write; it must not exist yet")],
    files: LaunchOptions,
) -> None:
    """Write the files that launch one plan: configuration, start script and Slurm batch file."""
    inputs, plan = inputs_and_plan(context, asked, legal=not files.nearest)
    for line in written_lines(plan, inputs, out, files):
        print(line)
