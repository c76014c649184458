"""Nothing started: why a script starts no program with options, as far as it was followed."""

from __future__ import annotations

import re
from collections.abc import Iterable

from meshwright.errors import quoted
from meshwright.launch.readers.limits import line_of, named_lines
from meshwright.launch.readers.shell.walk import Followed

OTHER_FILE = 2**40
"""Offsets from here on stand in other files than the one that was asked about."""
_NAME = re.compile(r"[A-Za-z_]\w*|\d+", re.ASCII)


def why_nothing_starts(followed: Followed, text: str) -> str:
    """Where the script ends and what would lead on: what nobody set, and scripts that are not there."""
    reasons = [_end(followed, text)]
    for place, name in followed.absent.items():
        named_by = f"line {line_of(text, place)}" if place < OTHER_FILE else "a script beside it"
        reasons.append(f"{named_by} names {quoted(name)}, which is not beside it")
    undecided = {place: names for place, names in followed.undecided.items() if place < OTHER_FILE}
    if undecided:
        where = named_lines(line_of(text, place) for place in undecided)
        said = _said(name for names in undecided.values() for name in names)
        reasons.append(f"conditions on {where} depend on what is not given: {said or '--set NAME=... says it'}")
    return "".join(f"; {reason}" for reason in reasons)


def _end(followed: Followed, text: str) -> str:
    """The exit that a condition leads to, else the last command of the file, or its end."""
    if followed.ended is not None and followed.ended < OTHER_FILE:
        conditions = [(place, names) for place, names in followed.because if place < OTHER_FILE]
        lines = ", ".join(str(line_of(text, place)) for place, _ in conditions)
        why = f" by the condition of line {lines}" if lines else ""
        said = _said(name for _, names in conditions for name in names)
        return f"it ends with `exit` in line {line_of(text, followed.ended)}{why}{': ' if said else ''}{said}"
    own = [words[0] for words in followed.commands if words and words[0].text and words[0].origin(0) < OTHER_FILE]
    if own:
        return f"the last command that it has is {quoted(own[-1].text)} in line {line_of(text, own[-1].origin(0))}"
    what = "it only sets variables: name the script that reads it" if followed.sets else "it has no command"
    return f"up to its end, line {line_of(text, len(text))}, {what}"


def _said(names: Iterable[str]) -> str:
    """What says names that are not known, as far as `--set` does."""
    return " ".join(f"--set {name}=..." for name in dict.fromkeys(names) if _NAME.fullmatch(name))
