"""An existing launch file, given by options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from meshwright.errors import InvalidInput, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from meshwright.launch.imports.question import LaunchQuestion

OF_A_FILE = ("file_framework", "set_")
"""Options that only a launch file gives a meaning."""
ABOUT_A_FILE = "{} is about a launch file; name the file with --from FILE"
BESIDE_A_FILE = "{} cannot be combined with --from; leave it out"
WORDS_BESIDE_A_FILE = "{} cannot be combined with --from; name them as options: --model MODEL --cluster CLUSTER"

ANSWERS = {
    "seq_len": "job.sequence_length",
    "global_batch": "job.global_batch",
    "global_batch_tokens": "job.global_batch",
    "micro_batch": "plan.micro_batch",
    "zero": "plan.zero",
}
"""Options that answer what a launch file may leave open, with their fields."""

Framework = Annotated[
    str | None,
    typer.Option("--framework", help="the file's framework; default: detected from its settings"),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="a value missing from the file: a variable, a numbered argument or a setting; repeatable",
    ),
]


@dataclass(frozen=True, kw_only=True)
class LaunchFileOptions:
    """A launch file, and what it leaves open."""

    PANEL: ClassVar[str] = "An existing launch file"
    from_file: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="a framework's script or configuration, or a folder written by launch; it is read, never run",
        ),
    ] = None
    file_framework: Framework = None
    set_: Set = None


def read_question(
    options: LaunchFileOptions,
    model: str | None,
    cluster: str | None,
    runtime: str | None,
    answers: Mapping[str, Any] | None = None,
) -> LaunchQuestion:
    """The question that the file holds, with what is given beside it. answers: options by their names, of which those
    in `ANSWERS` say what the file leaves open.
    """
    from meshwright.launch.imports.question import Given, question_of_file

    values = {}
    for text in options.set_ or []:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InvalidInput(f"--set takes NAME=VALUE, such as --set NNODES=4, not {quoted(text)}")
        values[name] = value
    said, framework = _fields_of(answers or {}), options.file_framework
    given = Given(cluster=cluster, model=model, runtime=runtime, framework=framework, values=values, answers=said)
    return question_of_file(options.from_file or Path(), given)


def _fields_of(answers: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that options say; a batch in tokens where the length of a sequence is among them."""
    from meshwright.specs.job import batch_of_tokens

    said, tokens = dict(answers), answers.get("global_batch_tokens")
    if tokens and "global_batch" in said:
        raise InvalidInput("give either --global-batch in sequences or --global-batch-tokens; both are given")
    said["global_batch_tokens"] = batch_of_tokens(tokens, said["seq_len"])[0] if tokens and "seq_len" in said else None
    return {ANSWERS[name]: value for name, value in said.items() if name in ANSWERS and value is not None}
