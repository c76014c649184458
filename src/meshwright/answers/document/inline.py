"""Inline marks: the pieces of a text that is plain, strong or code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

MARKS = re.compile(r"`(?P<code>[^`]+)`|\*\*(?=\S)(?P<strong>.+?)(?<=\S)\*\*")
SPACES = re.compile(r"[^\S\u00a0\u202f]+")
"""Runs of white space, those that forbid a line break apart."""
INVISIBLE = r"\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufffe\uffff"
UNPRINTABLE = re.compile(rf"[\x00-\x1f{INVISIBLE}]")
"""What XML does not hold, or holds but nobody sees."""
CONTROLS = re.compile(rf"[\x00-\x08\x0b-\x1f{INVISIBLE}]")
"""What a terminal obeys in place of showing it, or shows in another order (Unicode technical report 36)."""


class Piece(NamedTuple):
    """A run of text of one kind."""

    kind: Literal["text", "strong", "code"]
    text: str


def printable(text: str) -> str:
    """Text on one line, with a replacement character for each that no file should hold.

    >>> printable(" a\\n  b\\x00 ")
    'a b\ufffd'
    """
    return UNPRINTABLE.sub("\ufffd", SPACES.sub(" ", text)).strip(" ")


def visible(text: str) -> str:
    r"""Text for a terminal: every control character, and every one that turns the direction of writing, as its escape.

    >>> print(visible("a\x1b[2J\u202eb"))
    a\x1b[2J\u202eb
    """
    return CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def pieces(text: str) -> Iterator[Piece]:
    """The pieces of a text in their order; a mark that is not closed, or holds nothing, is text.

    >>> [tuple(piece) for piece in pieces("**Take** `tp8`, 2 ** 3")]
    [('strong', 'Take'), ('text', ' '), ('code', 'tp8'), ('text', ', 2 ** 3')]
    """
    return raw_pieces(printable(text))


def raw_pieces(text: str) -> Iterator[Piece]:
    """The same of a text whose white space stays what it is."""
    end = 0
    for mark in MARKS.finditer(text):
        if mark.start() > end:
            yield Piece("text", text[end : mark.start()])
        yield Piece("code", mark["code"]) if mark["code"] else Piece("strong", mark["strong"])
        end = mark.end()
    if end < len(text):
        yield Piece("text", text[end:])


def plain(text: str) -> str:
    """A text without its marks.

    >>> plain("**Take** `tp8`")
    'Take tp8'
    """
    return "".join(piece.text for piece in pieces(text))
