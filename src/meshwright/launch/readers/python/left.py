"""Left behind: the settings that a function of a Python configuration makes, by the paths of its objects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from meshwright.launch.readers.python.records import Record, leaves
from meshwright.launch.readers.python.scopes import Scope
from meshwright.launch.readers.settings import FileSetting


def made_by(scope: Scope) -> list[Record | FileSetting]:
    """What a scope makes and gives no name, and what it returns, each of several objects."""
    returned = scope.returned
    if isinstance(returned, Record) and returned.plain and all(name.isdecimal() for name in returned.fields):
        return [*scope.unbound, *returned.fields.values()]
    return [*scope.unbound, *([returned] if returned is not None else [])]


def left_by(scope: Scope) -> list[FileSetting]:
    """The settings of a scope: first of what it only names, then of what it makes and returns."""
    seen: set[int] = set()
    settings = [each for bound in made_by(scope) for each in leaves(bound, "", seen)]
    named, names = list[FileSetting](), set[int]()
    for name, each in scope.own.items():
        if isinstance(each, FileSetting) or id(each) not in seen or id(each) in names:
            named += _of_a_name(name, each, seen)
            names.add(id(each))
    return [*named, *settings]


def _of_a_name(name: str, bound: Record | FileSetting, seen: set[int]) -> Iterator[FileSetting]:
    """What an object holds under its name; what was set on it later is known without that."""
    if isinstance(bound, FileSetting):
        yield from leaves(bound, name)
    elif bound.changed and not bound.plain and bound.made != "dict":
        yield from leaves(bound, "", seen)
    else:
        kept = {key: value for key, value in bound.fields.items() if key not in bound.changed}
        later = {key: value for key, value in bound.fields.items() if key in bound.changed}
        yield from leaves(replace(bound, fields=kept), name, seen)
        yield from leaves(Record(fields=later), "", seen)
