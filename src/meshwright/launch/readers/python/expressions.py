"""Expressions: literals of a Python configuration, and conditions on them, worked out as far as the file says them."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from itertools import pairwise

from meshwright.launch.readers.limits import MAX_DEPTH, MAX_SETTINGS
from meshwright.launch.readers.python.records import Record
from meshwright.launch.readers.settings import FileSetting, Scalar, Value

LARGEST = 2**63
LONGEST = 100_000
"""Characters of a list within another one."""
MOST_TIMES = 256
"""Elements that a loop or a list goes through."""
Look = Callable[[ast.expr], Record | FileSetting | None]
"""What a name, or a path of attributes, stands for."""
_ARITHMETIC: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}
_COMPARED: dict[type[ast.cmpop], Callable[[object, object], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.Lt: lambda a, b: a < b,  # type: ignore[operator]
    ast.LtE: lambda a, b: a <= b,  # type: ignore[operator]
    ast.Gt: lambda a, b: a > b,  # type: ignore[operator]
    ast.GtE: lambda a, b: a >= b,  # type: ignore[operator]
    ast.In: lambda a, b: _contains(b, a),
    ast.NotIn: lambda a, b: not _contains(b, a),
}
_KINDS: dict[str, type] = {"str": str, "int": int, "float": float, "bool": bool, "list": list, "tuple": list}
_OF_WORDS: dict[str, Callable[[str], str]] = {"lower": str.lower, "upper": str.upper, "strip": str.strip}


class Unknown(Exception):
    """An expression that the file does not decide: the name that it rests on, or its text."""


def literal_of(node: ast.expr, look: Look, depth: int = 0) -> Value:
    """The value of an expression; raises `Unknown` where it is none."""
    if depth > MAX_DEPTH:
        raise Unknown("a long expression")
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float | bool | None):
        return node.value
    if isinstance(node, ast.Subscript) and look(node) is None:
        return _element(node, look, depth + 1)
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
        return _value_of(look(node), node)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_number(literal_of(node.operand, look, depth + 1))
    if isinstance(node, ast.BoolOp):
        for each in node.values[:-1]:
            if holds(each, look, depth + 1) == isinstance(node.op, ast.Or):
                return literal_of(each, look, depth + 1)
        return literal_of(node.values[-1], look, depth + 1)
    if isinstance(node, ast.Compare) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)):
        return holds(node, look, depth + 1)
    if isinstance(node, ast.IfExp):
        return literal_of(node.body if holds(node.test, look, depth + 1) else node.orelse, look, depth + 1)
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        left, right = (literal_of(each, look, depth + 1) for each in (node.left, node.right))
        return _worked_out(left, node.op, right)
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        values: list[Scalar] = []
        for each in node.elts[:MAX_SETTINGS]:
            value = literal_of(each, look, depth + 1)
            values.append(_as_text(value) if isinstance(value, list) else value)
        return values
    if isinstance(node, ast.ListComp):
        several = _copied_elements(node)
        return _comprehended(node, look, depth + 1) if several is None else literal_of(several, look, depth + 1)
    if isinstance(node, ast.Call):
        return _called(node, look, depth + 1)
    raise Unknown(ast.unparse(node))


def _as_text(values: list[Scalar]) -> str:
    """A list within another one; raises `Unknown` where it is longer than any that a file needs."""
    if sum(len(each) if isinstance(each, str) else 1 for each in values) > LONGEST:
        raise Unknown("a long list")
    return str(values)


def _copied_elements(node: ast.ListComp) -> ast.expr | None:
    """What a list is made of that copies each element of another one; None for any other."""
    first, element = node.generators[0], node.elt
    if isinstance(element, ast.Call) and ast.unparse(element.func) == "list" and len(element.args) == 1:
        element = element.args[0]
    copies = isinstance(element, ast.Name) and ast.unparse(element) == ast.unparse(first.target)
    return first.iter if copies and len(node.generators) == 1 and not first.ifs else None


def _comprehended(node: ast.ListComp, look: Look, depth: int) -> Value:
    """A list with an expression for each element of another one."""
    first = node.generators[0]
    inside = [part for each in (node.elt, *first.ifs) for part in ast.walk(each)]
    several = literal_of(first.iter, look, depth)
    nested = len(node.generators) > 1 or any(isinstance(each, ast.comprehension) for each in inside)
    if nested or not isinstance(first.target, ast.Name) or not isinstance(several, list) or len(several) > MOST_TIMES:
        raise Unknown(ast.unparse(node))
    name, values = first.target.id, list[Scalar]()
    for each in several:
        element = FileSetting("", each, 0)

        def seen(node: ast.expr, element: FileSetting = element) -> Record | FileSetting | None:
            return element if isinstance(node, ast.Name) and node.id == name else look(node)

        if all(holds(condition, seen, depth) for condition in first.ifs):
            value = literal_of(node.elt, seen, depth)
            values.append(_as_text(value) if isinstance(value, list) else value)
    return values


def _element(node: ast.Subscript, look: Look, depth: int) -> Scalar:
    """What stands at a place of a list; raises `Unknown` where that is not known."""
    try:
        several, place = (literal_of(each, look, depth) for each in (node.value, node.slice))
    except Unknown:
        raise Unknown(ast.unparse(node)) from None
    if not isinstance(several, list) or type(place) is not int or not -len(several) <= place < len(several):
        raise Unknown(ast.unparse(node))
    return several[place]


def holds(node: ast.expr, look: Look, depth: int = 0) -> bool:
    """Whether a condition holds; raises `Unknown` where the file does not decide it."""
    if depth > MAX_DEPTH:
        raise Unknown("a long expression")
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return not holds(node.operand, look, depth + 1)
    if isinstance(node, ast.BoolOp):
        return _joined_conditions(node, look, depth + 1)
    if isinstance(node, ast.Compare):
        sides = [_side(each, look, depth + 1) for each in (node.left, *node.comparators)]
        try:
            return all(_COMPARED[type(each)](*pair) for each, pair in zip(node.ops, pairwise(sides), strict=True))
        except TypeError:
            raise Unknown(ast.unparse(node)) from None
    return bool(_side(node, look, depth + 1))


def _joined_conditions(node: ast.BoolOp, look: Look, depth: int) -> bool:
    decides, open_one = isinstance(node.op, ast.Or), None
    for each in node.values:
        try:
            if holds(each, look, depth) == decides:
                return decides
        except Unknown as unknown:
            open_one = open_one or unknown
    if open_one is not None:
        raise open_one
    return not decides


def _side(node: ast.expr, look: Look, depth: int) -> object:
    """A value in a condition; of an object only that it is one."""
    bound = look(node) if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) else None
    if isinstance(bound, Record) and not bound.unsaid and bound.own is None:
        return bound
    return literal_of(node, look, depth)


def _contains(several: object, one: object) -> bool:
    if isinstance(several, Record):
        return str(one) in several.fields
    return one in several  # type: ignore[operator]


def _value_of(bound: Record | FileSetting | None, node: ast.expr) -> Value:
    if isinstance(bound, Record) and not bound.fields and bound.own is not None:
        bound = bound.own
    if not isinstance(bound, FileSetting):
        raise Unknown(ast.unparse(node))
    if bound.open:
        raise Unknown(bound.open[0])
    return bound.value


def _called(node: ast.Call, look: Look, depth: int) -> Value:
    """What functions of Python itself make of literals."""
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if isinstance(node.func, ast.Attribute) and node.func.attr in _OF_WORDS and not node.args:
        word = literal_of(node.func.value, look, depth)
        if isinstance(word, str):
            return _OF_WORDS[node.func.attr](word)
    if name in ("max", "min", "range", "divmod") and node.args and not node.keywords:
        given = [literal_of(each, look, depth) for each in node.args]
        several = given[0] if len(given) == 1 and name in ("max", "min") else None
        return _of_numbers(name, [_number(each) for each in (several if isinstance(several, list) else given)])
    if name == "len" and len(node.args) == 1 and isinstance(several := literal_of(node.args[0], look, depth), list):
        return len(several)
    if name in ("list", "tuple") and len(node.args) == 1:
        several = literal_of(node.args[0], look, depth)
        if isinstance(several, list):
            return several
    if name == "int" and len(node.args) == 1:
        number = literal_of(node.args[0], look, depth)
        return int(number if isinstance(number, bool) else _number(number))
    if name == "bool" and len(node.args) == 1:
        return holds(node.args[0], look, depth)
    if name == "getattr" and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
        field = ast.copy_location(ast.Attribute(node.args[0], str(node.args[1].value), ast.Load()), node)
        return literal_of(field, look, depth)
    if name == "isinstance" and len(node.args) == 2 and isinstance(node.args[1], ast.Name):
        kind, bound = _KINDS.get(node.args[1].id), look(node.args[0])
        if kind is not None:
            is_object = isinstance(bound, Record) and bool(bound.fields) and not bound.plain
            return not is_object and isinstance(literal_of(node.args[0], look, depth), kind)
    raise Unknown(ast.unparse(node))


def _of_numbers(name: str, numbers: list[int | float]) -> Value:
    """What functions of Python make of numbers."""
    if name in ("max", "min") and numbers:
        return max(numbers) if name == "max" else min(numbers)
    try:
        made = divmod(*numbers) if name == "divmod" else range(*numbers)  # type: ignore[arg-type, misc]
        if len(made) > MOST_TIMES:
            raise Unknown("a long list")
    except (TypeError, ValueError, ArithmeticError):
        raise Unknown(name) from None
    return [*made]


def _number(value: Value) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unknown("a word in arithmetic")
    return value


def _worked_out(left: Value, sign: ast.operator, right: Value) -> Value:
    if isinstance(left, list):
        return _joined(left, sign, right)
    if isinstance(left, str) and isinstance(right, str) and isinstance(sign, ast.Add):
        return (left + right)[:MAX_SETTINGS]
    first, second = _number(left), _number(right)
    try:
        result = _ARITHMETIC[type(sign)](first, second)
    except (ArithmeticError, ValueError):
        raise Unknown("arithmetic") from None
    if not abs(result) < LARGEST:
        raise Unknown("a large number")
    return result


def _joined(values: list[Scalar], sign: ast.operator, other: Value) -> Value:
    """A list so many times, or followed by another one."""
    if isinstance(sign, ast.Add) and isinstance(other, list):
        return [*values, *other][:MAX_SETTINGS]
    if isinstance(sign, ast.Mult) and isinstance(other, int) and len(values) * other <= MAX_SETTINGS:
        return values * other
    raise Unknown("a list in arithmetic")
