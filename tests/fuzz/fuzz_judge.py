"""What holds of every answer, whatever was asked."""

from __future__ import annotations

import contextlib
import io
import json
import math
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from fuzz_questions import Question
from typer.main import get_command

from commands import Answer, Hang, asked
from meshwright import cli
from meshwright.cli import groups
from meshwright.errors import INTERRUPTED, CannotVerify
from meshwright.pytorch.processes import process
from meshwright.specs.reading import accelerator

CODES: dict[object, str] = {
    INTERRUPTED: "stopped at --time-limit",
    0: "answered",
    1: "not written or not as predicted",
    2: "refused",
    3: "nothing fits",
}
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]")
ABSURD = re.compile(r"(?<![\w./'-])-?(?:nan|inf)(?![\w./'-])")
AMOUNT = re.compile(r"(^|_)(s|bytes|flops|mfu|usage)$")
DIFFERENCE = re.compile(r"difference|saved|gain|error|lost|more|less|change|free|_off|delta|margin|from_")


@cache
def _once() -> tuple[Any, ...]:
    """In place of what a process needs once and would take most of the time here: the command line, its commands and
    the types of their options, which typer asks for anew with every question, and the kernels of the catalogue.
    """
    return (
        mock.patch.object(cli, "app", get_command(cli.app)),
        mock.patch.object(cli, "command", cache(cli.command)),
        mock.patch.object(groups, "get_type_hints", cache(groups.get_type_hints)),
        mock.patch.object(accelerator, "read_kernels", cache(accelerator.read_kernels)),
    )


def _no_pytorch(*_: Any, **__: Any) -> Any:
    """In place of processes that train, which take seconds and have tests of their own."""
    raise CannotVerify("PyTorch is not run here")


@contextlib.contextmanager
def _asked_in(folder: Path, question: Question) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for each in (*_once(), mock.patch.object(process, "answers_of", _no_pytorch)):
            stack.enter_context(each)
        stack.enter_context(contextlib.chdir(folder))
        stack.enter_context(_standard_input(question))
        yield


class Judged(NamedTuple):
    """How a question was answered, and what is wrong with that."""

    kind: str
    faults: list[str]


def judged(question: Question, folder: Path) -> Judged:
    """The judgement on the answer to a question that is asked in a folder of its own."""
    for name, data in question.files.items():
        (folder / name).write_bytes(data)
    with _asked_in(folder, question):
        try:
            answer = asked(*question.words)
        except Hang as hang:
            return Judged("hangs", [str(hang)])
        except MemoryError as error:
            return Judged("out of memory", [f"memory: {error}"])
    kind = CODES.get(answer.code, f"exit code {answer.code}")
    return Judged(kind, [*_faults(answer, question), *_left_over(folder)])


@contextlib.contextmanager
def _standard_input(question: Question) -> Iterator[None]:
    data = next(iter(question.files.values()), b"")
    with mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(data))):
        yield


def _faults(answer: Answer, question: Question) -> Iterator[str]:
    if answer.code not in CODES or (answer.code == INTERRUPTED and "--time-limit" not in question.words):
        yield f"exit code {answer.code}: {answer.err[-600:]}"
        return
    if found := CONTROLS.search(answer.out + answer.err):
        yield f"control character {found[0]!r}"
    if answer.code in (0, 3) and "--json" in question.words and answer.out:
        yield from _absurd(answer)
    elif answer.code == 0 and ABSURD.search(answer.out) and not ABSURD.search(_given(question)):
        yield f"absurd: {ABSURD.findall(answer.out)}"
    if answer.code == 2 and not answer.err.strip() and question.command != "check":
        yield "refused without a word"


def _given(question: Question) -> str:
    return " ".join(question.words) + " ".join(data.decode("utf-8", "replace") for data in question.files.values())


def _absurd(answer: Answer) -> Iterator[str]:
    try:
        document = json.loads(answer.out, parse_constant=lambda word: f"{word}!")
    except ValueError as error:
        yield f"no JSON: {error}"
        return
    yield from _wrong_numbers(document, "")


def _wrong_numbers(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _wrong_numbers(each, f"{path}.{key}")
    elif isinstance(value, list):
        for each in value:
            yield from _wrong_numbers(each, path)
    elif isinstance(value, float | int) and not isinstance(value, bool):
        amount = AMOUNT.search(path) and not DIFFERENCE.search(path)
        if not abs(value) < math.inf or (amount and value < 0):
            yield f"{path} is {value}"


def _left_over(folder: Path) -> Iterator[str]:
    left = [path.name for path in folder.rglob("*") if path.name.endswith(".tmp") or path.name == "MARK"]
    if left:
        yield f"left behind: {left}"


def same_again(question: Question, folder: Path) -> bool:
    """Whether a question is answered twice with the same bytes; with a limit of time, and of `verify`, which tells its
    time, nobody says so.
    """
    if "--time-limit" in question.words or question.command == "verify":
        return True
    answers = []
    for _ in range(2):
        with _asked_in(folder, question):
            answers.append(asked(*question.words))
    return answers[0] == answers[1]
