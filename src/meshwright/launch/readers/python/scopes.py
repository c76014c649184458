"""Scopes: the names of a function of a Python configuration, and what its arguments bind them to."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from meshwright.launch.readers.python.names import path_of
from meshwright.launch.readers.python.records import Record, below, found
from meshwright.launch.readers.settings import FileSetting

Bind = Callable[[ast.expr], Record | FileSetting]
"""What an expression stands for."""


@dataclass(eq=False, slots=True)
class Scope:
    """What names stand for while a function is followed."""

    values: dict[str, Record | FileSetting] = field(default_factory=dict)
    outer: Scope | None = None
    own: dict[str, Record | FileSetting] = field(default_factory=dict)
    """What it assigned to names itself, in order."""
    unbound: list[Record] = field(default_factory=list)
    """Objects that it made and gave no name."""
    returned: Record | FileSetting | None = None
    functions: dict[str, ast.FunctionDef | ast.ClassDef] = field(default_factory=dict)
    """Of a module."""
    imported: dict[str, tuple[str, int, str]] = field(default_factory=dict)
    """Of a module, what it imports by name."""
    elsewhere: Callable[[str], Record | FileSetting | None] = lambda name: None  # noqa: ARG005
    """Of a module, what a name stands for that it imports."""
    path: Path | None = None
    """Of a module that the asked one imports, its file."""

    def value(self, name: str) -> Record | FileSetting | None:
        """What a name stands for, in this scope or around it; None where nothing was said."""
        if name in self.values:
            return self.values[name]
        return self.outer.value(name) if self.outer else self.elsewhere(name)

    @property
    def module(self) -> Scope:
        """The scope of the module that it is in."""
        return self.outer.module if self.outer else self

    def line(self, node: ast.expr | ast.stmt) -> int:
        """The line of a node in the file that was asked about; 0 in any other."""
        return 0 if self.module.path else node.lineno

    def look(self, node: ast.expr) -> Record | FileSetting | None:
        """What a name or a path of attributes stands for."""
        name, *path = path_of(node) or [""]
        return found(self.value(name), path)

    def object_at(self, node: ast.expr) -> Record | None:
        """The object that a path of attributes stands for, a new one where nothing was said of it."""
        name, *path = path_of(node) or [""]
        record = self.value(name)
        for index, each in enumerate(path):
            if not isinstance(record, Record):
                return None
            inner = record.fields.get(each)
            if isinstance(inner, FileSetting):
                return None
            record = below(record, each, ".".join(path[: index + 1]))
        return record if isinstance(record, Record) else None


def bound_parameters(
    arguments: ast.arguments, positional: list[Record | FileSetting], named: dict[str, Record | FileSetting], bind: Bind
) -> dict[str, Record | FileSetting]:
    """What the parameters of a function stand for in a call; bind: of the defaults."""
    names = [*arguments.posonlyargs, *arguments.args]
    values: dict[str, Record | FileSetting] = {}
    optional = zip(names[len(names) - len(arguments.defaults) :], arguments.defaults, strict=True)
    keyed = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    for argument, default in (*optional, *keyed):
        if default is not None:
            values[argument.arg] = without_span(bind(default))
    values |= dict(zip((each.arg for each in names), positional, strict=False))
    known = {each.arg for each in (*names, *arguments.kwonlyargs)}
    values |= {name: value for name, value in named.items() if name in known}
    if arguments.kwarg is not None:
        others = {name: value for name, value in named.items() if name not in known}
        values[arguments.kwarg.arg] = Record(plain=True, fields=others)
    for each in (*names, *arguments.kwonlyargs):
        values.setdefault(each.arg, FileSetting("", each.arg, each.lineno, None, (each.arg,)))
    return values


def without_span(value: Record | FileSetting) -> Record | FileSetting:
    """A value that is not changed where it stands, as others may have it too."""
    if isinstance(value, Record) or value.span is None:
        return value
    return replace(value, span=None)
