"""Conditions: what a demand says of the settings of a launch file, as true, false, or open."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from meshwright.launch.framework import Value
from meshwright.launch.spelling import Settings

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "divides": lambda one, other: one != 0 and other % one == 0,
}
_WORDS = ("=", "!=", "in")
_KEY = re.compile(r"--[\w-]+|[A-Z][A-Z0-9_]+|[a-z]\w*(\.\w+)+|[a-z]\w*_\w+")
"""A flag, a variable of the environment, or a path of keys."""


@dataclass(frozen=True)
class Said:
    """The settings that a launch file says, and what it leaves open; one that is named without dashes is an argument's
    too."""

    settings: Settings
    open: frozenset[str] = frozenset()
    """Settings that it has with values that only running would tell."""
    whole: bool = True
    """Nothing beside them can be set from outside, but for variables of the environment."""
    defaults: Settings = field(default_factory=dict)

    def name(self, key: str) -> str:
        """The argument of that name where there is one; else the key as it is."""
        argument = f"--{key}"
        return argument if argument in self.settings or argument in self.open else key

    def has(self, key: str) -> bool | None:
        """Whether a setting is there; None where that is open."""
        key = self.name(key)
        if key in self.open:
            return None
        if self.settings.get(key, False) is not False:
            return True
        return False if key in self.settings or (self.whole and not key.isupper()) else None

    def value(self, key: str) -> Value | None:
        """The value of a setting, or its default; None where that is open."""
        key = self.name(key)
        if key in self.open or (key not in self.settings and not self.whole):
            return None
        return self.settings.get(key, self.defaults.get(key))


def keys_of(condition: str) -> list[str]:
    """The settings that a condition names.

    >>> keys_of("--lr-warmup-iters = 0 or not --bf16")
    ['--lr-warmup-iters', '--bf16']
    """
    keys = []
    for part in condition.split(" or "):
        words = part.removeprefix("not ").split()
        keys += words[:1] if {*_WORDS} & {*words} else [word for word in words if _KEY.fullmatch(word)]
    return keys


def fulfilled(condition: str, said: Said) -> bool | None:
    """Whether a condition holds; None where that is open.

    `KEY` is there, `not KEY` is not, `A = B`, `A != B`, `A >= B`, `A divides B`, `A in WORD WORD`, with `or` between
    several; A and B may be sums and products, worked out from left to right.

    >>> fulfilled("--a * 2 divides --b + 2", Said({"--a": "3", "--b": "10"}))
    True
    >>> fulfilled("--a = full or --c", Said({}, open=frozenset({"--a"}))) is None
    True
    """
    parts = [_holds(part, said) for part in condition.split(" or ")]
    return True if True in parts else None if None in parts else False


def _holds(condition: str, said: Said) -> bool | None:
    words = condition.split()
    if words[0] == "not":
        there = said.has(words[1])
        return None if there is None else not there
    if len(words) == 1:
        return said.has(words[0])
    at = next(index for index, word in enumerate(words) if word in _OPERATORS or word in _WORDS)
    if words[at] in _WORDS:
        return _is_word(words[at], said.value(words[0]), words[at + 1 :])
    one, other = _number(words[:at], said), _number(words[at + 1 :], said)
    return None if one is None or other is None else _OPERATORS[words[at]](one, other)


def _is_word(sign: str, given: Value | None, words: list[str]) -> bool | None:
    """Whether a value is one of some words, whatever their capitals."""
    if given is None:
        return None
    text = " ".join(map(str, given)) if isinstance(given, list) else str(given)
    return (text.lower() in [word.lower() for word in words]) == (sign != "!=")


def _number(words: list[str], said: Said) -> float | None:
    """A sum or product from left to right; None where a part of it is open, or no number."""
    total, sign = 0.0, "+"
    for word in words:
        if word in ("+", "*"):
            sign = word
            continue
        value = _plain_number(said.value(word) if _KEY.fullmatch(word) else word)
        if value is None:
            return None
        total = total + value if sign == "+" else total * value
    return total


def _plain_number(value: Value | None) -> float | None:
    """A value as a number; a flag that is there counts 1."""
    try:
        return None if value is None or isinstance(value, list) else float(value)
    except ValueError:
        return None
