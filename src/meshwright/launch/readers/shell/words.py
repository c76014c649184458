"""Words: a shell word as its parts, with what is to be expanded left as it is written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from meshwright.launch.readers.traced import Traced, Unreadable

ENDS_A_WORD = set(" \t\r\n;&|()<>")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]")
_CLOSING = {"{": "}", "(": ")"}
MAX_NESTING = 60


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a word: literal text, the inside of `${}`, of `$(())`, or of `$()` and backquotes."""

    kind: Literal["literal", "variable", "arithmetic", "command"]
    source: Traced
    quoted: bool


Word = tuple[Part, ...]


def read_word(source: Traced, start: int, ends: set[str] = ENDS_A_WORD) -> tuple[Word, int]:
    """The word that starts there, and where it ends."""
    parts: list[Part] = []
    text, at = source.text, start
    while at < len(text) and text[at] not in ends:
        here = text[at]
        if here == "'":
            stop = _find(source, "'", at + 1, at)
            parts.append(Part("literal", source.part(at + 1, stop), True))
            at = stop + 1
        elif here == '"':
            at = _double_quoted(source, at, parts)
        elif here == "\\":
            if text[at + 1 : at + 2] != "\n":
                parts.append(Part("literal", source.part(at + 1, at + 2), True))
            at += 2
        elif text.startswith(("$'", '$"'), at):
            at += 1
        elif here in "$`":
            at = _expansion(source, at, parts, quoted=False)
        else:
            stop = at + 1
            while stop < len(text) and text[stop] not in ends and text[stop] not in "'\"\\$`":
                stop += 1
            parts.append(Part("literal", source.part(at, stop), False))
            at = stop
    return tuple(parts), at


def in_quotes(source: Traced) -> Word:
    """A text as within double quotes, where quotes themselves are characters: the body of a here-document."""
    parts: list[Part] = []
    at = 0
    while at < len(source.text):
        at = _quoted_piece(source, at, parts, "")
    return tuple(parts)


def literal_of(word: Word) -> str | None:
    """The text of a word without quotes and expansions; None for any other."""
    plain = all(part.kind == "literal" and not part.quoted for part in word)
    return "".join(part.source.text for part in word) if plain else None


def _double_quoted(source: Traced, start: int, parts: list[Part]) -> int:
    at, before = start + 1, len(parts)
    while at < len(source.text) and source.text[at] != '"':
        at = _quoted_piece(source, at, parts, '"')
    if at >= len(source.text):
        raise Unreadable('a " is never closed', source.origin(start))
    if len(parts) == before:
        parts.append(Part("literal", source.part(at, at), True))
    return at + 1


def _quoted_piece(source: Traced, at: int, parts: list[Part], end: str) -> int:
    text = source.text
    if text[at] == "\\" and text[at + 1 : at + 2] in ("$", "`", '"', "\\", "\n"):
        if text[at + 1] != "\n":
            parts.append(Part("literal", source.part(at + 1, at + 2), True))
        return at + 2
    if text[at] in "$`":
        return _expansion(source, at, parts, quoted=True)
    stop = at + 1
    while stop < len(text) and text[stop] not in "\\$`" and text[stop] != end:
        stop += 1
    parts.append(Part("literal", source.part(at, stop), True))
    return stop


def _expansion(source: Traced, at: int, parts: list[Part], quoted: bool) -> int:
    text = source.text
    if text[at] == "`":
        stop = _find(source, "`", at + 1, at)
        parts.append(Part("command", source.part(at + 1, stop), quoted))
        return stop + 1
    if text.startswith("$((", at):
        stop = closing(source, at + 1)
        if text[stop - 1] == ")":
            parts.append(Part("arithmetic", source.part(at + 3, stop - 1), quoted))
            return stop + 1
    if text.startswith(("$(", "${"), at):
        stop = closing(source, at + 1, quoted=quoted)
        parts.append(Part("command" if text[at + 1] == "(" else "variable", source.part(at + 2, stop), quoted))
        return stop + 1
    name = _NAME.match(text, at + 1)
    if not name:
        parts.append(Part("literal", source.part(at, at + 1), quoted))
        return at + 1
    parts.append(Part("variable", source.part(at + 1, name.end()), quoted))
    return name.end()


def closing(source: Traced, start: int, quoted: bool = False) -> int:
    """Where the bracket that opens at start is closed, with quotes, brackets and comments inside skipped.

    quoted: it stands in double quotes, where a single one in `${...}` is a character.
    """
    text, stack, at = source.text, [_CLOSING[source.text[start]]], start + 1
    quote = ""
    while at < len(text):
        here = text[at]
        if here == "\\" and quote != "'":
            at += 2
            continue
        if here == "#" and not quote and stack[-1] == ")" and text[at - 1].isspace():
            stop = text.find("\n", at)
            at = len(text) if stop < 0 else stop
            continue
        if here == quote:
            quote = ""
        elif not quote and (here == '"' or (here == "'" and not (quoted and stack[-1] == "}"))):
            quote = here
        elif quote != "'" and here in _CLOSING and (text[at - 1] == "$" or stack[-1] == _CLOSING[here]):
            stack.append(_CLOSING[here])
            if len(stack) > MAX_NESTING:
                raise Unreadable(f"more than {MAX_NESTING} brackets within one another", source.origin(at))
        elif quote != "'" and here == stack[-1]:
            stack.pop()
            if not stack:
                return at
        at += 1
    raise Unreadable(f"a {text[start]} is never closed", source.origin(start))


def _find(source: Traced, what: str, start: int, opened: int) -> int:
    stop = source.text.find(what, start)
    if stop < 0:
        raise Unreadable(f"a {what} is never closed", source.origin(opened))
    return stop
