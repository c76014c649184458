"""Nearest: of words that are known, the one that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Collection

from meshwright.errors import LONGEST, any_of

_CLOSE = 0.6
"""Share of letters, by `difflib`, from which on a word is offered."""


def nearest_word(word: str, known: Collection[str]) -> str:
    """The known word that is nearest to one; all of them where none is near.

    >>> nearest_word("selectiv", ["full", "selective"]), nearest_word("e5m2", ["hybrid", "none"])
    ('selective', 'hybrid or none')
    """
    return near_word(word, known) or any_of(known)


def near_word(word: str, known: Collection[str]) -> str:
    """The known word that is near to one; empty where none is."""
    capitals = {each.lower(): each for each in known}
    close = difflib.get_close_matches(word.lower()[:LONGEST], [*capitals], n=1, cutoff=_CLOSE)
    return capitals[close[0]] if close else ""
