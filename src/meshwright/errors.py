"""Everything that Meshwright raises for its users.

MeshwrightError
 ├── InvalidInput (also a ValueError)      exit code 2
 │    ├── InvalidSpec        a file or a value breaks its own rules; lists every fault
 │    ├── UnknownName        a name that no catalogue holds; names the nearest
 │    ├── NotModelled        understood, but outside what is priced; says what
 │    ├── IllegalPlan        a plan that the runtime refuses; lists every broken rule
 │    └── CannotVerify       PyTorch is missing, of another version, or could not run the plan; says what to do
 ├── NothingFits                            exit code 3
 └── Stopped                                exit code 130
"""

from __future__ import annotations

import copyreg
import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NO_ANSWER = "interrupted: this question is not complete, and has no answer yet"
"""What an interrupt leaves where nothing was searched yet."""
INTERRUPTED = 130
"""The exit code of what was stopped, as shells count a process that SIGINT ended."""
LONGEST = 60
"""Characters of a value that a message repeats; the rest is dots."""
MOST_KNOWN, FIRST_KNOWN = 40, 5
"""Known names that a message lists whole, and how many it lists of more."""


def unforeseen(error: BaseException) -> str:
    """An error that is none of these, with the file and the line that it came from.

    >>> unforeseen(ValueError("no number"))
    'ValueError: no number'
    """
    from pathlib import Path
    from traceback import extract_tb

    last = extract_tb(error.__traceback__)[-1:]
    where = "".join(f" in {Path(each.filename).name}, line {each.lineno}" for each in last)
    return f"{type(error).__name__}{where}: {error}"


def listed(names: Iterable[object], last: str = "and") -> str:
    """Words in a row; last: what stands before the last of them.

    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    words = [*map(str, names)]
    return f" {last} ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def any_of(names: Iterable[object]) -> str:
    """Choices in a sentence.

    >>> any_of(["bf16", "fp16", "fp8"])
    'bf16, fp16 or fp8'
    """
    return listed(names, "or")


def quoted(value: object) -> str:
    """A value as Python writes it, cut where it is long.

    >>> quoted("h100"), quoted("9" * 99)[-5:]
    ("'h100'", "999…'")
    """
    if isinstance(value, str):
        return repr(value if len(value) <= LONGEST else f"{value[:LONGEST]}…")
    if isinstance(value, int) and value.bit_length() > 4 * LONGEST:
        return f"an integer of {value.bit_length()} bits"
    written = repr(value)
    return written if len(written) <= LONGEST else f"{written[:LONGEST]}…"


class MeshwrightError(Exception):
    """Root of every error that Meshwright raises for its users."""

    def __reduce__(self) -> tuple[Any, ...]:
        """As it is, so that it comes back from another process with its message and all that it holds."""
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class InvalidInput(MeshwrightError, ValueError):
    """The question itself is wrong: the message names the value, the rule and the nearest thing that works."""


@dataclass(frozen=True)
class Fault:
    """One broken rule: where it stands (a path such as `levels[1].bandwidth`) and what is wrong there."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" if self.where else self.what


class InvalidSpec(InvalidInput):
    """A specification breaks its own rules; `faults` holds all of them at once, `hint` what works instead of all."""

    def __init__(self, subject: str, faults: Sequence[Fault], hint: str = "") -> None:
        self.subject, self.hint = subject, hint
        self.faults = tuple(faults)
        listed = "".join(f"\n  - {fault}" for fault in self.faults)
        super().__init__(f"{subject} is not valid:{listed}" + (f"\n{hint}" if hint else ""))


class UnknownName(InvalidInput):
    """A name that no catalogue holds, with the nearest ones that exist; alike: how near, from 0 to 1."""

    def __init__(
        self, kind: str, name: str, known: Iterable[str], aliases: Mapping[str, str] | None = None, alike: float = 0.4
    ) -> None:
        self.kind, self.name = kind, name
        self.known = tuple(sorted(known))
        spelled = {one: one for one in self.known} | (dict(aliases) if aliases else {})
        close = difflib.get_close_matches(name.lower()[:LONGEST], sorted(spelled), n=6, cutoff=alike)
        near = list(dict.fromkeys(spelled[one] for one in close))[:3]
        super().__init__(f"unknown {kind} {quoted(name)}; {self._hint(near)}")

    def _hint(self, near: Sequence[str]) -> str:
        """The nearest names, else all, or some where they are many."""
        if near:
            return f"nearest: {', '.join(near)}"
        if not self.known:
            return "none is known"
        more = len(self.known) - MOST_KNOWN
        listed = self.known if more <= 0 else (*self.known[:FIRST_KNOWN], f"and {len(self.known) - FIRST_KNOWN} more")
        return f"known: {', '.join(listed)}" + (", which meshwright catalog lists" if more > 0 else "")


class NotModelled(InvalidInput):
    """Understood, but outside of what is priced today."""


class IllegalPlan(InvalidInput):
    """A plan that the runtime refuses; `faults` holds every broken rule with its nearest legal change."""

    def __init__(self, subject: str, faults: Sequence[Fault], hint: str = "") -> None:
        self.subject, self.hint = subject, hint
        self.faults = tuple(faults)
        listed = "".join(f"\n  - {fault}" for fault in self.faults)
        super().__init__(f"{subject} is not legal:{listed}" + (f"\n{hint}" if hint else ""))


class CannotVerify(InvalidInput):
    """A plan could not be run on PyTorch; the message says why and what to install or change."""


class NothingFits(MeshwrightError):
    """Legal plans exist, but none fits in memory; the message says what would, and `document` is that as JSON."""

    def __init__(self, message: str, document: Mapping[str, Any] | None = None) -> None:
        self.document = {"error": message, **(document or {})}
        super().__init__(message)


class Stopped(MeshwrightError):
    """A search was stopped before it had a plan that fits; the message says how far it came."""
