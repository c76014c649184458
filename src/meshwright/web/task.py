"""Task: what one process is asked to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from meshwright.specs.inputs import Inputs
from meshwright.web.question import Question

FileKind = Literal["memo.html", "memo.pdf", "plan.json", "launch.zip"]
"""What can be taken away."""
Kind = Literal["page"] | FileKind


@dataclass(frozen=True, kw_only=True)
class Task:
    """A question and what is made of its answer."""

    kind: Kind
    question: Question
    inputs: Inputs
    """The question, read."""
    question_before: Question | None = None
    """The question that this one changes."""
    before: Inputs | None = None
    """The same, read."""


class Waiting(NamedTuple):
    """The search has not begun."""

    ahead: int
    """Searches that end before it begins, a count."""


class Working(NamedTuple):
    """The search goes on."""

    done: int
    """Plans considered so far, a count."""
    total: int


class Answered(NamedTuple):
    """The search is over, and this is its answer."""

    content: bytes
    fits: bool = True
    """Whether any plan does."""


class Refused(NamedTuple):
    """The search is over without an answer."""

    words: str


Event = Waiting | Working | Answered | Refused
