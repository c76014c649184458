"""Literals: a Python configuration as flat settings, with the functions that it calls and the conditions it decides."""

from __future__ import annotations

import ast
import re
import warnings

from meshwright.launch.readers.limits import MAX_DEPTH
from meshwright.launch.readers.python.walk import Walk
from meshwright.launch.readers.settings import FileSetting, LaunchSettings
from meshwright.launch.readers.traced import Unreadable


def read_literals(path: str, text: str, given: dict[str, str] | None = None) -> LaunchSettings:
    """The settings of a Python file, which is parsed and never run; raises `Unreadable` with the place of a fault.

    given: values of parameters that a function of the file leaves to who calls it.

    A setting of a call stands under the path of what it is given to: `parallelism=ParallelismConfig(degree=2)` is
    `parallelism.degree`; what a function sets on an object of its own, `cfg.model.degree = 2`, is `model.degree`.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except SyntaxError as error:
        lines = text.split("\n")[: (error.lineno or 1) - 1]
        raise Unreadable(error.msg, sum(len(line) + 1 for line in lines)) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise Unreadable(f"it cannot be parsed: {type(error).__name__}", 0) from None
    settings: list[FileSetting] = []
    try:
        walk = Walk(path, tree, given or {}, _spans(tree, text))
        settings += walk.module(tree.body)
        for name in walk.outermost.functions:
            settings += walk.root(name)
    except RecursionError:
        raise Unreadable(f"it is nested deeper than {MAX_DEPTH} levels", 0) from None
    return LaunchSettings(
        path=path,
        form="python",
        text=text,
        settings=tuple(settings),
        program=" ".join(_modules(tree)),
        calls={name: tuple(called) for name, called in walk.calls.items()},
        elsewhere=tuple(walk.elsewhere),
        conditions=tuple(walk.undecided),
    )


def _modules(tree: ast.Module) -> list[str]:
    """The modules that a file imports and the names that it takes from others, wherever it does."""
    modules: list[str] = []
    for each in ast.walk(tree):
        if isinstance(each, ast.Import):
            modules += [name.name for name in each.names]
        elif isinstance(each, ast.ImportFrom):
            modules += [f"{each.module or ''}.{name.name}".removesuffix(".*") for name in each.names]
    return modules


def _spans(tree: ast.Module, text: str) -> dict[int, tuple[int, int]]:
    """Where literals stand in the file, apart from those on lines with more than ASCII."""
    starts, spans = [0, *(match.end() for match in re.finditer("\n", text))], dict[int, tuple[int, int]]()
    for node in ast.walk(tree):
        literal = isinstance(node, ast.Constant | ast.List | ast.UnaryOp)
        if not literal or node.end_lineno is None or node.end_lineno > len(starts):  # type: ignore[attr-defined]
            continue
        first, last = starts[node.lineno - 1], starts[node.end_lineno - 1]  # type: ignore[attr-defined]
        start, stop = first + node.col_offset, last + (node.end_col_offset or 0)  # type: ignore[attr-defined]
        if text[first:stop].isascii():
            spans[id(node)] = (start, stop)
    return spans
