"""Functions: which one of a Python file with several recipes is meant."""

from __future__ import annotations

from dataclasses import replace

from meshwright.errors import InvalidInput
from meshwright.launch.readers.limits import line_of
from meshwright.launch.readers.settings import OBJECT, LaunchSettings

SHOWN = 12
"""Names of functions that an error lists."""


def one_function(read: LaunchSettings, name: str | None) -> LaunchSettings:
    """The settings outside of functions and those of the one that is named, behind those of the functions of the file
    that it calls; a single function, or the only one that no other calls, need not be named.

    Raises `InvalidInput` where several functions say the same setting and none is named, or none has that name.
    """
    functions = list(dict.fromkeys(each.function for each in read.settings if each.function))
    if name is not None and name not in functions:
        lines = {each.function: each.line for each in reversed(read.settings)}
        listed = ", ".join(f"{each} around line {lines[each]}" for each in functions[:SHOWN])
        raise InvalidInput(
            f"{read.path!r} has no function {name!r} with settings; it has {listed or f'none up to {_end(read)}'}"
        )
    keys = [
        {each.key for each in read.settings if each.function == function and not each.key.endswith(OBJECT)}
        for function in functions
    ]
    if name is None and sum(map(len, keys)) > len(set().union(*keys)):
        called = {each for names in read.calls.values() for each in names}
        roots = [each for each in functions if each not in called]
        if len(roots) != 1:
            listed = ", ".join(functions[:SHOWN])
            raise InvalidInput(
                f"{read.path!r} holds {len(functions)} recipes; name one: --set function=NAME, of {listed}"
            )
        name = roots[0]
    if name is None:
        return read
    order = ["", *_with_called(name, read.calls, set())]
    return replace(read, settings=tuple(each for one in order for each in read.settings if each.function == one))


def _end(read: LaunchSettings) -> str:
    return f"its end, line {line_of(read.text, len(read.text))}"


def _with_called(name: str, calls: dict[str, tuple[str, ...]], seen: set[str]) -> list[str]:
    """A function behind those of the file that it calls."""
    if name in seen or name not in calls:
        return []
    seen.add(name)
    return [*(each for called in calls[name] for each in _with_called(called, calls, seen)), name]


def without_objects(read: LaunchSettings) -> LaunchSettings:
    """The settings without the names of what makes their objects."""
    return replace(read, settings=tuple(each for each in read.settings if not each.key.endswith(OBJECT)))
