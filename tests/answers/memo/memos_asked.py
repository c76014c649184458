"""The memos of `examples/memos`: each is searched once in a process, for its text, its JSON and its figures."""

from __future__ import annotations

import shlex
from contextlib import chdir
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import memos
from commands import Answer, asked
from meshwright.answers.document.blocks import Document
from meshwright.answers.memo.memo import Memo, memo
from meshwright.answers.memo.output import memo_document
from meshwright.answers.public.memo import MemoAnswer, memo_of
from meshwright.search.find import find
from meshwright.specs.inputs import Inputs
from once import Once

ROOT = Path(__file__).parents[3]


NAMES = tuple(memos.QUESTIONS)
FITTING = tuple(name for name in NAMES if name != "cannot-fit")


class Asked(NamedTuple):
    """A memo: as it is printed, as it is printed with --json, and what both are written from."""

    printed: Answer
    json: Answer
    answer: MemoAnswer
    figures: tuple[Memo, ...]
    """One, or none where nothing fits."""


@cache
def _asked(name: str) -> Asked:
    words, searched, answered, figured = shlex.split(memos.QUESTIONS[name]), Once(find), Once(memo_of), Once(memo)
    with (
        chdir(ROOT),
        mock.patch("meshwright.search.find.find", searched),
        mock.patch("meshwright.answers.public.memo.memo_of", answered),
        mock.patch("meshwright.answers.public.memo.figures_of", figured),
    ):
        printed, json = (asked("memo", *words, *more) for more in ((), ("--json",)))
    return Asked(printed, json, answered.answers[0], tuple(figured.answers))


def printed(name: str) -> Answer:
    """What the command prints."""
    return _asked(name).printed


@cache
def figures(name: str) -> dict[str, Any]:
    """The figures of a question, read from JSON."""
    document: dict[str, Any] = _asked(name).json.document
    return document


def recommended(name: str) -> Memo:
    """The figures before they are written."""
    (known,) = _asked(name).figures
    return known


@cache
def document(name: str) -> Document:
    """The memo of a question, which does not tell of options that were left to their defaults where a plan fits."""
    if name in FITTING:
        return memo_document(replace(recommended(name), assumed=()))
    return _asked(name).answer.page


def given(document: dict[str, Any]) -> Inputs:
    """The question of a memo."""
    return Inputs(**document["inputs"])
