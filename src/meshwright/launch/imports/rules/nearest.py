"""Nearest: of words that are known, the one that was probably meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection

from meshwright.errors import LONGEST, any_of

_CLOSE = 0.6
"""Share of letters, by `difflib`, from which on a word is offered."""
_SURE = 0.86
"""The same of an option, whose name has words in common with many others."""
_LEAST = 5
"""Letters of an option that is offered because another one begins with it."""


def nearest_word(word: str, known: Collection[str]) -> str:
    """The known word that is nearest to one; all of them where none is near.

    >>> nearest_word("selectiv", ["full", "selective"]), nearest_word("e5m2", ["hybrid", "none"])
    ('selective', 'hybrid or none')
    """
    capitals = {each.lower(): each for each in known}
    close = difflib.get_close_matches(word.lower()[:LONGEST], [*capitals], n=1, cutoff=_CLOSE)
    return capitals[close[0]] if close else any_of(known)


def near_option(option: str, known: Collection[str]) -> str:
    """The known option that is another spelling of one, or has its words and some more; empty where there is none.

    >>> near_option("--num-layer", ["--num-layers"]), near_option("--num-heads", ["--num-attention-heads"])
    ('--num-layers', '--num-attention-heads')
    >>> near_option("--use-cool-attention", ["--use-kitchen-attention"])
    ''
    """
    letters, words = _letters(option), _words(option)
    spelled = {_letters(each): each for each in sorted(known)}
    close = difflib.get_close_matches(letters, [*spelled], n=1, cutoff=_SURE)
    if close:
        return spelled[close[0]]
    begun = [each for name, each in spelled.items() if len(letters) >= _LEAST and name.startswith(letters)]
    wider = begun + [each for each in spelled.values() if _adds_words(words, _words(each))]
    return min(wider, key=len, default="")


def _adds_words(words: list[str], others: list[str]) -> bool:
    """Whether some words, of which there are several, stand among others in their order and begin them."""
    following = iter(others)
    return len(words) > 1 and words[0] == others[0] and all(word in following for word in words)


def _words(option: str) -> list[str]:
    return re.split(r"[-_]+", option[:LONGEST].strip("-_").lower())


def _letters(option: str) -> str:
    return "".join(_words(option))
