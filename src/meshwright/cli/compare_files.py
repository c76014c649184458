"""Plans of existing launch files for `compare`: beside others, or beside the best plan of a search."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from meshwright.cli.groups import (
    ConstraintOptions,
    JobOptions,
    RuntimeOptions,
    constraints_of,
    option_names,
    refuse_given,
)
from meshwright.cli.launch_file import BESIDE_A_FILE, Framework, LaunchFileOptions, Set, read_question
from meshwright.errors import InvalidInput

if TYPE_CHECKING:
    from meshwright.answers.compare.named import FilePlan
    from meshwright.layout.plan import Plan
    from meshwright.search.stop import Progress
    from meshwright.specs.inputs import Inputs

IN_THE_FILE = ({*option_names(JobOptions), *option_names(RuntimeOptions)} - {"runtime"}) | {"text_only"}
"""Options that a launch file answers."""


@dataclass(frozen=True, kw_only=True)
class LaunchFilesOptions:
    """Launch files, and what they leave open."""

    PANEL: ClassVar[str] = "An existing launch file"
    from_files: Annotated[
        list[Path] | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="a launch file; a single one is compared with the best plan; repeatable",
        ),
    ] = None
    file_framework: Framework = None
    set_: Set = None


def launched_plans(
    context: typer.Context, asked: LaunchFilesOptions, model: str | None, clusters: list[str], runtime: str | None
) -> list[FilePlan]:
    """Of each launch file its question and plan."""
    refuse_given(context, IN_THE_FILE, BESIDE_A_FILE)
    if len(clusters) > 1:
        raise InvalidInput("launch files are compared on one cluster; keep one --cluster")
    cluster = next(iter(clusters), None)
    read = []
    for path in asked.from_files or []:
        options = LaunchFileOptions(from_file=path, file_framework=asked.file_framework, set_=asked.set_)
        question = read_question(options, model, cluster, runtime)
        read.append((str(path), question.inputs, question.plan))
    return read


def with_the_best(inputs: Inputs, allowed: ConstraintOptions, progress: Progress) -> tuple[str, Inputs, Plan]:
    """The best plan of the same question, as `compare` takes plans of files; raises `NothingFits` without one."""
    from meshwright.answers.unfit.nothing_fits import nothing_fits_or_stopped
    from meshwright.search.find import find

    result = find(inputs.replace(constraints=constraints_of(allowed)), top=1, progress=progress)
    if not result.best:
        raise nothing_fits_or_stopped(result, progress)
    return "the best plan of a search", inputs, result.best[0].plan
