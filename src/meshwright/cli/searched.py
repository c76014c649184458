"""What a search is asked: by options, or by an existing launch file, whose plan is then the one to beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import typer

from meshwright.cli.groups import (
    ConstraintOptions,
    JobOptions,
    RuntimeOptions,
    SubjectOptions,
    constraints_of,
    inputs_of,
    refuse_given,
    require_subject,
)
from meshwright.cli.launch_file import ABOUT_A_FILE, BESIDE_A_FILE, OF_A_FILE, WORDS_BESIDE_A_FILE, LaunchFileOptions

if TYPE_CHECKING:
    from pathlib import Path

    from meshwright.answers.launch.baseline import Baseline
    from meshwright.specs.inputs import Inputs


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """A question for a search, or a launch file that holds it."""

    subject: SubjectOptions
    job: JobOptions
    framework: RuntimeOptions
    launch: LaunchFileOptions
    allowed: ConstraintOptions


class Searched(NamedTuple):
    """What a search is asked."""

    inputs: Inputs
    baseline: Baseline | None
    """The plan of a launch file."""


def searched(context: typer.Context, asked: SearchOptions, measured: Path | None = None) -> Searched:
    """The question of the options, or of a launch file with what options change of it.

    measured: runs of the site. Raises `InvalidInput` where a question lacks model, cluster or length.
    """
    if asked.launch.from_file is not None:
        return _of_a_file(context, asked)
    refuse_given(context, OF_A_FILE, ABOUT_A_FILE)
    subject = asked.subject.named(context.info_name)
    require_subject(subject, f"meshwright {context.info_name}", "a launch file: {} --from FILE --cluster ...")
    return Searched(inputs_of(subject, asked.job, asked.framework, measured, asked.allowed), None)


def _of_a_file(context: typer.Context, asked: SearchOptions) -> Searched:
    from meshwright.answers.launch.baseline import baseline_of
    from meshwright.cli.one_plan import from_launch_file

    refuse_given(context, ("words",), WORDS_BESIDE_A_FILE)
    refuse_given(context, ("network", "text_only", "measured"), BESIDE_A_FILE)
    options = vars(asked.job) | vars(asked.framework)
    launch, one = from_launch_file(context, asked.launch, asked.subject, options)
    inputs = one.inputs.replace(constraints=constraints_of(asked.allowed))
    return Searched(inputs, baseline_of(launch, one.plan, inputs))
