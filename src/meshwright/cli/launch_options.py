"""Options with which commands write launch files, and the writing."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from meshwright.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meshwright.layout.plan import Plan
    from meshwright.search.find import SearchResult
    from meshwright.specs.inputs import Inputs


@dataclass(frozen=True, kw_only=True)
class LaunchOptions:
    """For which framework launch files are written, and over what."""

    PANEL: ClassVar[str] = "Launch files"
    framework: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="FRAMEWORK",
            help="framework to write files for; default: the plan's runtime",
        ),
    ] = None
    nearest: Annotated[
        bool,
        typer.Option(
            "--nearest",
            help="use the nearest plan that the framework supports; it is named and priced again",
        ),
    ] = False
    overwrite: Annotated[bool, typer.Option("--overwrite", help="replace files if the folder already exists")] = False


@dataclass(frozen=True, kw_only=True)
class RankedLaunchOptions:
    """Launch files of one plan of a ranking."""

    PANEL: ClassVar[str] = "Launch files"
    launch: Annotated[
        Path | None,
        typer.Option("--launch", metavar="DIR", help="also write the files that launch the best plan"),
    ] = None
    rank: Annotated[
        int | None,
        typer.Option(min=1, help="launch the plan with this number; default: 1"),
    ] = None
    files: LaunchOptions


def require_launch(asked: RankedLaunchOptions, runtime: str | None) -> None:
    """Raise `InvalidInput` before a search where its plan could not be launched: options that say nothing without
    --launch, a folder that is there, a runtime that the files are not for. runtime: None where there are several.
    """
    files = asked.files
    if asked.launch is None:
        given = {"--rank": asked.rank, "--to": files.framework, "--nearest": files.nearest}
        given["--overwrite"] = files.overwrite
        if said := [name for name, value in given.items() if value]:
            raise InvalidInput(f"{said[0]} is about launch files; add --launch DIR")
        return
    from meshwright.answers.launch.files import framework_of
    from meshwright.answers.launch.folder import require_free
    from meshwright.launch.export import require_written
    from meshwright.launch.table import table_named

    if runtime is None:
        raise InvalidInput("--launch writes files for one runtime; name it instead of all")
    if files.framework is None:
        framework_of(runtime)
    elif not files.nearest:
        require_written(table_named(files.framework), runtime)
    require_free(asked.launch, "--launch", overwrite=files.overwrite)


def write_ranked(result: SearchResult, asked: RankedLaunchOptions) -> None:
    """Write what launches the plan that was asked for, and name its files on standard error."""
    if asked.launch is None:
        return
    plans = [each.plan for each in (*result.best, *result.other_splits)]
    rank = asked.rank or 1
    if rank > len(plans):
        raise InvalidInput(f"{len(plans)} plans are shown; --rank {rank} is too large; use 1 to {len(plans)}, or --top")
    for line in written_lines(plans[rank - 1], result.inputs, asked.launch, asked.files, "--launch"):
        print(line, file=sys.stderr)


def written_lines(plan: Plan, inputs: Inputs, out: Path, files: LaunchOptions, option: str = "--out") -> Sequence[str]:
    """What was written, line by line, as a terminal shows it."""
    from meshwright.answers.document.inline import visible
    from meshwright.answers.launch.files import framework_of, launch_files
    from meshwright.answers.launch.folder import write_folder
    from meshwright.answers.launch.release import release_lines
    from meshwright.answers.screen import fit_words
    from meshwright.units import format_seconds

    framework = files.framework or framework_of(inputs.runtime.id)
    written = launch_files(plan, inputs, framework, nearest=files.nearest)
    folder = write_folder(written.files, out, option, overwrite=files.overwrite)
    table, moved = written.launch.table, written.launch.inputs
    replaced = [f"replaced: {each}" for each in written.replaced]
    named = f"{table.framework} ({table.release}), {written.launch.plan}"
    seconds, fits = format_seconds(written.estimate.step_time_s), fit_words(written.estimate, moved).replace("**", "")
    paths = (visible(str(folder / name)) for name in written.files)
    release = release_lines(table, moved.runtime)
    predicted = f"predicted: {seconds} a step; {fits}"
    return [*written.warnings, named, *replaced, predicted, *release, *written.hosts, *paths]
