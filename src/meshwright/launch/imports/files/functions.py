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
        lines = {each.function: each.line for each in reversed(read.settings) if each.line}
        listed = ", ".join(f"{each} around line {lines[each]}" if each in lines else each for each in functions[:SHOWN])
        raise InvalidInput(
            f"{read.path!r} has no function {name!r} with settings; it has {listed or f'none up to {_end(read)}'}"
        )
    if name is None:
        called = {each for names in read.calls.values() for each in names}
        roots = [each for each in functions if each not in called]
        if not roots and not {*read.calls.get("", ())} & {*functions}:
            roots = functions
        keys = [
            {each.key for each in read.settings if each.function == function and not each.key.endswith(OBJECT)}
            for function in roots
        ]
        if len(roots) > 1 and sum(map(len, keys)) > len(set().union(*keys)):
            listed = ", ".join(functions[:SHOWN])
            raise InvalidInput(
                f"{read.path!r} holds {len(functions)} recipes; name one: --set function=NAME, of {listed}"
            )
    kept = {"", *(roots if name is None else [name])}
    order = [name for name in ("", *functions) if name in kept]
    return replace(
        read,
        settings=tuple(each for one in order for each in read.settings if each.function == one),
        elsewhere=tuple(each for each in read.elsewhere if each.function in kept),
        conditions=tuple(each for each in read.conditions if each.function in kept),
    )


def _end(read: LaunchSettings) -> str:
    return f"its end, line {line_of(read.text, len(read.text))}"


def without_objects(read: LaunchSettings) -> LaunchSettings:
    """The settings without the names of what makes their objects."""
    return replace(read, settings=tuple(each for each in read.settings if not each.key.endswith(OBJECT)))
