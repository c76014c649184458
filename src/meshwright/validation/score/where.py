"""Where: which rows of a table are asked for, as an expression over its columns."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from meshwright.errors import InvalidInput, quoted
from meshwright.validation.rows.table import COUNTS, FIGURES, WORDS, Row

NUMBERS = {*COUNTS, *FIGURES}
COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda value, among: value in among,
    ast.NotIn: lambda value, among: value not in among,
}
EXAMPLE = "dataset == 'llmfoundry' and num_gpus >= 64"


def row_filter(expression: str) -> Callable[[Row], bool]:
    """Whether a row is asked for: comparisons of columns with values, joined by and, or, not.

    expression: such as `dataset == 'llmfoundry' and num_gpus >= 64`; a blank compares with nothing but ''. Raises
    `InvalidInput` for anything else.

    >>> row_filter("num_gpus >= 64 and not model in ('a', 'b')")({"num_gpus": "128", "model": "c"})
    True
    """
    try:
        tree = ast.parse(expression, mode="eval").body
        _evaluated(tree, dict.fromkeys((*WORDS, *COUNTS, *FIGURES), ""))
    except (SyntaxError, ValueError, TypeError, RecursionError) as error:
        told = f": {error}" if type(error) is ValueError else ""
        raise InvalidInput(f"--where {quoted(expression)} is no condition{told}; write, say, {EXAMPLE}") from None

    def holds(row: Row) -> bool:
        return bool(_evaluated(tree, row))

    return holds


def _evaluated(node: ast.expr, row: Row) -> Any:
    if isinstance(node, ast.BoolOp):
        whether = all if isinstance(node.op, ast.And) else any
        return whether([_evaluated(value, row) for value in node.values])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return not _evaluated(node.operand, row)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARISONS:
        left, right = _value(node.left, row), _value(node.comparators[0], row)
        return _compared(COMPARISONS[type(node.ops[0])], left, right)
    raise ValueError("it may hold comparisons of columns with values, and, or, not")


def _compared(compare: Callable[[Any, Any], bool], left: Any, right: Any) -> bool:
    """A blank number is neither smaller nor larger than any."""
    if "" in (left, right) and compare in (operator.lt, operator.le, operator.gt, operator.ge):
        return False
    return compare(left, right)


def _value(node: ast.expr, row: Row) -> Any:
    if isinstance(node, ast.Name):
        if node.id not in row:
            raise ValueError(f"there is no column {node.id}")
        return _number(row[node.id]) if node.id in NUMBERS else row[node.id]
    if isinstance(node, ast.Constant | ast.Tuple | ast.List):
        return ast.literal_eval(node)
    raise ValueError(f"{ast.unparse(node)} is neither a column nor a value")


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
