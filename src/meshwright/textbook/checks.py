"""Checks: the one way in which every calculator looks at what it is given, and tells all faults at once."""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from meshwright.errors import Fault, InvalidInput, InvalidSpec
from meshwright.text_files import read_text, unreadable

SHOWN_BITS = 200
"""Longer integers are described by their length, which never costs more than a moment."""

LEAST = 1e-300
"""The smallest number above 0 that is read: dividing by it stays within floats."""


class Checks:
    """Gathers faults while values are read; `done` raises `InvalidSpec` (a `ValueError`) with all of them.

    A value that is wrong is read as the least one, so that reading can go on; nothing is computed from it, because
    `done` comes first.

    >>> checks = Checks("the question")
    >>> checks.whole("tp", 0)
    1
    >>> checks.done()
    Traceback (most recent call last):
    meshwright.errors.InvalidSpec: the question is not valid:
      - tp: is 0; it must be a whole number of 1 or more
    """

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.faults: list[Fault] = []

    def fault(self, where: str, what: str) -> None:
        """Note one fault."""
        self.faults.append(Fault(where, what))

    def whole(self, where: str, value: Any, *, most: int | None = None) -> int:
        """A whole number of 1 or more; a bool is none, and neither is 2.0."""
        rule = "it must be a whole number of 1 or more" + (f", at most {most}" if most is not None else "")
        if isinstance(value, bool) or not isinstance(value, Integral):
            self.fault(where, f"is {shown(value)} ({type(value).__name__}); {rule}")
            return 1
        read = int(value)
        if read >= 1 and (most is None or read <= most):
            return read
        self.fault(where, f"is {shown(read)}; {rule}")
        return 1

    def number(self, where: str, value: Any, *, zero: bool = False) -> float:
        """A finite number above 0, or with `zero` of 0 or more, as a float."""
        rule = "it must be a finite number " + ("of 0 or more" if zero else f"above 0 (from {LEAST:g} on)")
        if isinstance(value, bool) or not isinstance(value, Real):
            self.fault(where, f"is {shown(value)} ({type(value).__name__}); {rule}")
            return 1.0
        try:
            read = float(value)
        except OverflowError:
            read = math.inf
        if math.isfinite(read) and (read >= LEAST or (zero and read >= 0)):
            return read
        self.fault(where, f"is {shown(value)}; {rule}")
        return 1.0

    def numbers(self, where: str, value: Any, length: int | None = None) -> list[float]:
        """A list of finite numbers of 0 or more, at least one, and `length` of them where that is given."""
        if isinstance(value, str | bytes) or not isinstance(value, Sequence) or not value:
            self.fault(where, f"is {shown(value)}; it must be a list of numbers with at least one")
            return [1.0]
        if length is not None and len(value) != length:
            self.fault(where, f"holds {len(value)} numbers; it must hold one for each of the {length} layers")
        return [self.number(f"{where}[{index}]", each, zero=True) for index, each in enumerate(value)]

    def flag(self, where: str, value: Any) -> bool:
        """True or False, and nothing that merely counts as one."""
        if not isinstance(value, bool):
            self.fault(where, f"is {shown(value)} ({type(value).__name__}); it must be True or False")
        return bool(value)

    def choice(self, where: str, value: Any, known: Collection[str]) -> str:
        """One of the known words."""
        if value not in tuple(known):
            self.fault(where, f"is {shown(value)}; it must be one of {', '.join(known)}")
        return str(value)

    def keys(self, where: str, value: Any, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Any]:
        """The dictionary, with a fault for every missing and every unknown key; empty if it is none."""
        if not isinstance(value, Mapping):
            self.fault(
                where, f"is {shown(value)}; it must be a dictionary with the keys {', '.join(required or optional)}"
            )
            return {}
        known, prefix = (*required, *optional), f"{where}." if where else ""
        for key in value:
            if key not in known:
                near = get_close_matches(str(key), known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"the keys are {', '.join(known)}"
                self.fault(f"{prefix}{key}", f"is not a known key (value {shown(value[key])}); {hint}")
        for key in required:
            if key not in value:
                self.fault(f"{prefix}{key}", "is missing; it must be given")
        return {key: value[key] for key in known if key in value}

    def done(self) -> None:
        """Raise `InvalidSpec` if anything was wrong."""
        if self.faults:
            raise InvalidSpec(self.subject, self.faults)


def shown(value: Any) -> str:
    """A value as a message shows it, short whatever it is.

    >>> shown(10**5000)
    'an integer of 16610 bits'
    """
    if isinstance(value, int) and value.bit_length() > SHOWN_BITS:
        return f"an integer of {value.bit_length()} bits"
    try:
        return reprlib.repr(value)
    except ValueError:
        return f"a {type(value).__name__} with integers too long to show"


def read_object(source: str | Path, what: str) -> dict[str, Any]:
    """The object in a JSON file; `what` names it in errors.

    Raises `InvalidInput` for a file that cannot be read, is not JSON, holds no object or gives one key twice.
    """
    path = Path(source)
    text = read_text(path, what)
    try:
        value = json.loads(text, object_pairs_hook=_unique)
    except InvalidInput as error:
        raise InvalidInput(f"{what} {str(path)!r}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{what} {str(path)!r} is not JSON: {unreadable(error)}") from None
    if not isinstance(value, dict):
        raise InvalidInput(f"{what} {str(path)!r} holds a JSON {type(value).__name__}; it must be an object, {{...}}")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    for key in keys:
        if keys.count(key) > 1:
            raise InvalidInput(f"the key {key!r} stands there twice; it must stand once")
    return dict(pairs)
