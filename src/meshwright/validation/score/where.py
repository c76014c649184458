"""Where: selecting rows of a table by an expression over its columns."""

from __future__ import annotations

import ast
import difflib
import math
import operator
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from meshwright.errors import InvalidInput, UnknownName, quoted
from meshwright.validation.rows.table import COLUMNS, COUNTS, FIGURES, Row, figure

NUMBERS = {*COUNTS, *FIGURES}
ORDERS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
MEMBERSHIPS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.In: lambda value, among: value in among,
    ast.NotIn: lambda value, among: value not in among,
}
Listed = ast.Tuple | ast.List | ast.Set
COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    **ORDERS,
    **MEMBERSHIPS,
}
MOST_NEAR = 3
EXAMPLE = "dataset == 'llmfoundry' and num_gpus >= 64"


def row_filter(expression: str) -> Callable[[Row], bool]:
    """A filter of rows from comparisons of columns with values, joined by and, or, not.

    expression: such as `dataset == 'llmfoundry' and num_gpus >= 64`; a blank equals '' alone. Raises
    `InvalidInput` for anything else.

    >>> row_filter("8 <= num_gpus <= 64 and not model in ('a', 'b')")({"num_gpus": "16", "model": "c"})
    True
    """
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(expression.strip(), mode="eval").body
        _check(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = f": {error}" if isinstance(error, InvalidInput) else ""
        raise InvalidInput(f"--where {quoted(expression)} is not a condition{reason}; for example: {EXAMPLE}") from None
    return lambda row: _holds(tree, row)


def unmatched(expression: str, rows: Sequence[Row]) -> list[str]:
    """Of the texts that a condition compares a column with, those that no row has, with the nearest that some have.

    >>> unmatched("gpu == 'mi300x'", [{"gpu": "MI300X-192GB"}, {"gpu": "H100-SXM-80GB"}])
    ["no row has gpu 'mi300x'; nearest: 'MI300X-192GB'"]
    """
    told = []
    for column, text in _texts(ast.parse(expression.strip(), mode="eval").body):
        known = sorted({row[column] for row in rows} - {""})
        if text not in known:
            near = _nearest(text, known)
            hint = f"; nearest: {', '.join(map(quoted, near))}" if near else ""
            told.append(f"no row has {column} {quoted(text)}{hint}")
    return told


def _texts(tree: ast.expr) -> Iterator[tuple[str, str]]:
    """The columns that are compared with a text for being equal, or in a list, and each text."""
    for node in ast.walk(tree):
        for left, compare, right in _links(node) if isinstance(node, ast.Compare) else ():
            if isinstance(left, ast.Name) and isinstance(compare, ast.Eq | ast.In) and left.id not in NUMBERS:
                each = right.elts if isinstance(right, Listed) else [right] if isinstance(compare, ast.Eq) else []
                yield from ((left.id, value) for value in map(_constant, each) if isinstance(value, str) and value)


def _nearest(text: str, known: Sequence[str]) -> list[str]:
    """The texts that hold it, whatever their capitals; else those that are spelled most alike."""
    plain = {each: each.casefold() for each in known}
    holding = [each for each in known if text.casefold() in plain[each]]
    alike = difflib.get_close_matches(text.casefold(), plain.values(), n=MOST_NEAR)
    return (holding or [each for each in known if plain[each] in alike])[:MOST_NEAR]


def _check(node: ast.expr) -> None:
    if isinstance(node, ast.BoolOp):
        for value in node.values:
            _check(value)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        _check(node.operand)
    elif isinstance(node, ast.Compare) and all(type(each) in COMPARISONS for each in node.ops):
        for left, compare, right in _links(node):
            _check_link(left, type(compare), right)
    else:
        raise InvalidInput("it may have comparisons of columns with values, and, or, not")


def _links(node: ast.Compare) -> list[tuple[ast.expr, ast.cmpop, ast.expr]]:
    """Each comparison of a chain."""
    return list(zip((node.left, *node.comparators), node.ops, node.comparators, strict=False))


def _check_link(left: ast.expr, compare: type[ast.cmpop], right: ast.expr) -> None:
    """Both text or both numbers; `in` and `not in` also look for one of them in a list, or for text in text."""
    among = right.elts if compare in MEMBERSHIPS and isinstance(right, Listed) else None
    kinds = {_kind(left), *map(_kind, [right] if among is None else among)} - {None}
    if len(kinds) > 1 or (compare in MEMBERSHIPS and among is None and float in kinds):
        raise InvalidInput(f"{ast.unparse(left)} and {ast.unparse(right)} must be both text or both numbers")


def _kind(node: ast.expr) -> type | None:
    """Text or a number; None for a blank, which goes with both."""
    if isinstance(node, ast.Name):
        if node.id not in COLUMNS:
            raise UnknownName("column", node.id, COLUMNS)
        return float if node.id in NUMBERS else str
    value = _constant(node)
    if type(value) not in (str, int, float):
        raise InvalidInput(f"{ast.unparse(node)} is neither a column nor a value")
    return None if value == "" else str if isinstance(value, str) else float


def _constant(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def _holds(node: ast.expr, row: Row) -> bool:
    if isinstance(node, ast.BoolOp):
        return (all if isinstance(node.op, ast.And) else any)(_holds(value, row) for value in node.values)
    if isinstance(node, ast.UnaryOp):
        return not _holds(node.operand, row)
    links = _links(node) if isinstance(node, ast.Compare) else []
    return all(_compared(type(compare), _value(left, row), _value(right, row)) for left, compare, right in links)


def _compared(compare: type[ast.cmpop], left: Any, right: Any) -> bool:
    """A blank is neither smaller nor larger than anything."""
    return not (compare in ORDERS and "" in (left, right)) and COMPARISONS[compare](left, right)


def _value(node: ast.expr, row: Row) -> Any:
    if isinstance(node, Listed):
        return [_value(each, row) for each in node.elts]
    if isinstance(node, ast.Name):
        return _number(row[node.id]) if node.id in NUMBERS else row[node.id]
    return _constant(node)


def _number(text: str) -> float | str:
    """A blank stays one; what is no number equals none."""
    value = figure(text)
    return math.nan if value is None and text else "" if value is None else value
