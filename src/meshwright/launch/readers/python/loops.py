"""Loops: what each round of a loop sets its names to, as far as a Python configuration says it."""

from __future__ import annotations

import ast

from meshwright.launch.readers.python.records import Record
from meshwright.launch.readers.python.scopes import Bind
from meshwright.launch.readers.settings import FileSetting

Round = list[Record | FileSetting]


def rounds_of(node: ast.For, bind: Bind) -> list[dict[str, Record | FileSetting]] | None:
    """The names of a loop with their values, round by round; None where the file does not say them, and of loops that
    are left or go on before their end.
    """
    targets = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
    names = [each.id for each in targets if isinstance(each, ast.Name)]
    jumps = any(isinstance(each, ast.Break | ast.Continue) for each in ast.walk(node))
    rounds = None if jumps or node.orelse else _values_of(node.iter, bind)
    if rounds is None or len(names) != len(targets) or any(len(each) != len(names) for each in rounds):
        return None
    return [dict(zip(names, each, strict=True)) for each in rounds]


def _values_of(several: ast.expr, bind: Bind) -> list[Round] | None:
    """What a loop goes through: elements of lists, also in pairs, and what dictionaries hold."""
    if isinstance(several, ast.List | ast.Tuple):
        return [
            [bind(part) for part in (each.elts if isinstance(each, ast.Tuple) else [each])] for each in several.elts
        ]
    if isinstance(several, ast.Call) and isinstance(several.func, ast.Attribute) and several.func.attr == "items":
        held = bind(several.func.value)
        known = isinstance(held, Record) and held.plain
        return [[FileSetting("", key, 0), each] for key, each in held.fields.items()] if known else None  # type: ignore[union-attr]
    held = bind(several)
    if isinstance(held, Record):
        listed = held.plain and all(name.isdecimal() for name in held.fields)
        return [[each] for each in held.fields.values()] if listed else None
    if held.open or not isinstance(held.value, list):
        return None
    return [[FileSetting("", each, held.line)] for each in held.value]
