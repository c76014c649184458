"""Names: what the targets, calls and words of a Python configuration are called."""

from __future__ import annotations

import ast
from collections.abc import Iterator

LENGTHENS = ("append", "extend")
"""Methods that make a list longer."""


def path_of(target: ast.expr) -> list[str] | None:
    """The name and the attributes or constant keys behind it; None for anything else."""
    names: list[str] = []
    while isinstance(target, ast.Attribute | ast.Subscript):
        if isinstance(target, ast.Subscript):
            if not isinstance(target.slice, ast.Constant):
                return None
            names.append(str(target.slice.value))
        else:
            names.append(target.attr)
        target = target.value
    return [target.id, *reversed(names)] if isinstance(target, ast.Name) else None


def unpacked(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Every target with its own value; of values that are not listed, the place of each among them."""
    if not isinstance(target, ast.Tuple | ast.List):
        yield target, value
        return
    listed = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
    for place, each in enumerate(target.elts):
        if listed and not isinstance(each, ast.Starred):
            yield from unpacked(each, value.elts[place])  # type: ignore[attr-defined]
        else:
            part = ast.Subscript(value, ast.Constant(place), ast.Load())
            yield from unpacked(each, ast.copy_location(part, value))


def targets_of(node: ast.stmt) -> Iterator[ast.expr]:
    """What the statements below one assign."""
    for each in ast.walk(node):
        if isinstance(each, ast.Assign):
            yield from (part for target in each.targets for part, _ in unpacked(target, each.value))
        elif isinstance(each, ast.AugAssign | ast.AnnAssign):
            yield each.target
        elif isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr in LENGTHENS:
            yield each.func.value
        elif isinstance(each, ast.Call) and ast.unparse(each.func) == "setattr" and len(each.args) == 3:
            field = each.args[1].value if isinstance(each.args[1], ast.Constant) else ""
            yield ast.copy_location(ast.Attribute(each.args[0], str(field), ast.Store()), each)


def is_class(name: str) -> bool:
    """Whether a name is spelled as one of a class: it makes an object, and changes none."""
    return name.rpartition(".")[2].lstrip("_")[:1].isupper()


def plain_value(text: str) -> str | int | float | bool | None:
    """A value that is given for a parameter, as Python has it."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    return value if isinstance(value, str | int | float | bool | None) else text
