"""Literals: a Python configuration as flat settings: literals, names set before, `dict(...)` and keyword arguments."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace

from meshwright.launch.readers.limits import MAX_DEPTH, MAX_SETTINGS
from meshwright.launch.readers.settings import OBJECT, FileSetting, LaunchSettings, Scalar, Value
from meshwright.launch.readers.traced import Unreadable

LARGEST = 2**63
_ARITHMETIC: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
}


class _Unknown(Exception):
    """An expression that is no literal; its names."""


def read_literals(path: str, text: str) -> LaunchSettings:
    """The settings of a Python file, which is parsed and never run; raises `Unreadable` with the place of a fault.

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
    reader = _Reader(text)
    try:
        reader.statements(tree.body, 0)
    except RecursionError:
        raise Unreadable(f"it is nested deeper than {MAX_DEPTH} levels", 0) from None
    return LaunchSettings(
        path=path,
        form="python",
        text=text,
        settings=tuple(reader.settings),
        program=" ".join(reader.modules),
        calls={name: tuple(called) for name, called in reader.calls.items()},
    )


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = [0, *(match.end() for match in re.finditer("\n", text))]
        self.settings: list[FileSetting] = []
        self.values: dict[str, Value] = {}
        self.modules: list[str] = []
        self.objects: dict[str, str] = {}
        self.nodes: dict[str, ast.Call] = {}
        self.calls: dict[str, list[str]] = {}
        self.function = ""

    def statements(self, body: list[ast.stmt], depth: int) -> None:
        for statement in body:
            if len(self.settings) > MAX_SETTINGS or depth > MAX_DEPTH:
                raise Unreadable(f"more than {MAX_SETTINGS} settings, or {MAX_DEPTH} levels", 0)
            if isinstance(statement, ast.Import):
                self.modules += [each.name for each in statement.names]
            elif isinstance(statement, ast.ImportFrom):
                self.modules.append(statement.module or "")
            elif isinstance(statement, ast.Assign):
                self._assigned(statement.targets, statement.value)
            elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
                self._assigned([statement.target], statement.value)
            elif isinstance(statement, ast.Return | ast.Expr) and statement.value is not None:
                self._tree("", statement.value, 0)
            elif isinstance(statement, ast.FunctionDef | ast.ClassDef):
                self._defined(statement, depth)

    def _defined(self, statement: ast.FunctionDef | ast.ClassDef, depth: int) -> None:
        """The body of a function, in which its parameters have their defaults."""
        outer, self.function = self.function, self.function or statement.name
        names = dict(self.values), dict(self.objects), dict(self.nodes)
        if isinstance(statement, ast.FunctionDef):
            self.calls.setdefault(self.function, [])
            arguments, optional = statement.args, statement.args.defaults
            defaults = [*zip(arguments.args[len(arguments.args) - len(optional) :], optional, strict=True)]
            defaults += [pair for pair in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if pair[1]]  # type: ignore[misc]
            for argument, default in defaults:
                self._named((argument.arg, default))
        self.statements(statement.body, depth + 1)
        self.function, (self.values, self.objects, self.nodes) = outer, names

    def _named(self, *pairs: tuple[str, ast.expr]) -> None:
        """Names for literals, or for the objects that calls make; all are worked out before any name has a new one."""
        known = [self._known(value) for _, value in pairs]
        for (name, value), (literal, made) in zip(pairs, known, strict=True):
            for each in (self.values, self.objects, self.nodes):
                each.pop(name, None)
            if literal:
                (self.values[name],) = literal
            elif made and isinstance(value, ast.Call):
                self.objects[name] = made
                self.nodes[name] = value

    def _known(self, value: ast.expr) -> tuple[tuple[()] | tuple[Value], str]:
        """The value of a literal, nothing of anything else, and what a call calls."""
        try:
            return (self._literal(value, 0),), ""
        except _Unknown:
            return (), self._made(value) if isinstance(value, ast.Call) else ""

    def _made(self, call: ast.Call) -> str:
        """What a call calls, with its first argument where that is a literal."""
        called = _path(call.func)
        if called is None:
            return ""
        if self.function:
            self.calls.setdefault(self.function, []).append(called)
        try:
            first = self._literal(call.args[0], 0) if call.args else None
        except _Unknown:
            first = call.args[0].id if isinstance(call.args[0], ast.Name) else None
        return called if first is None or isinstance(first, list) else f"{called} {first}"

    def _assigned(self, targets: list[ast.expr], value: ast.expr) -> None:
        """A value by one name or by several; that of several is changed nowhere, as it would change for all of them."""
        pairs, before = [pair for target in targets for pair in _unpacked(target, value)], {*map(id, self.settings)}
        for each, part in pairs:
            name, _, rest = (_path(each) or "").partition(".")
            if name:
                self._tree(rest or name, part, 0)
        self._named(*((each.id, part) for each, part in pairs if isinstance(each, ast.Name)))
        if len(targets) > 1:
            self.settings = [each if id(each) in before else replace(each, span=None) for each in self.settings]

    def _tree(self, path: str, node: ast.expr, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise Unreadable(f"more than {MAX_DEPTH} levels", 0)
        made = self._made(node) if isinstance(node, ast.Call) else ""
        if isinstance(node, ast.Name):
            made = self.objects.get(node.id, "")
        if made and path:
            self._add(FileSetting(f"{path}.{OBJECT}", made, node.lineno))
        if isinstance(node, ast.Name) and node.id in self.nodes and path not in ("", node.id):
            self._inlined(node.id)
            node = self.nodes[node.id]
        pairs = list(_pairs(node))
        for key, value in pairs:
            self._tree(f"{path}.{key}" if path else key, value, depth + 1)
        if pairs or not path:
            return
        try:
            self._add(FileSetting(path, self._literal(node, 0), node.lineno, self._span(node)))
        except _Unknown as unknown:
            self._add(FileSetting(path, ast.unparse(node)[:60], node.lineno, None, (str(unknown)[:60],)))

    def _inlined(self, name: str) -> None:
        """Forget the settings of an object under its own name: it is given to another one."""
        own = f"{name}."
        self.settings = [
            each for each in self.settings if not (each.key.startswith(own) and each.function == self.function)
        ]

    def _span(self, node: ast.expr) -> tuple[int, int] | None:
        """Where a literal stands in the file; None for one that is computed, or on lines with more than ASCII."""
        literal = isinstance(node, ast.Constant | ast.List | ast.UnaryOp)
        if not literal or node.end_lineno is None or node.end_lineno > len(self.lines):
            return None
        first, last = self.lines[node.lineno - 1], self.lines[node.end_lineno - 1]
        start, stop = first + node.col_offset, last + (node.end_col_offset or 0)
        return (start, stop) if self.text[first:stop].isascii() else None

    def _add(self, setting: FileSetting) -> None:
        self.settings.append(replace(setting, function=self.function))

    def _literal(self, node: ast.expr, depth: int) -> Value:
        if depth > MAX_DEPTH:
            raise _Unknown("a long expression")
        if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float | bool | None):
            return node.value
        if isinstance(node, ast.Name) and node.id in self.values:
            return self.values[node.id]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -_number(self._literal(node.operand, depth + 1))
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            left, right = (self._literal(each, depth + 1) for each in (node.left, node.right))
            if isinstance(left, list):
                return _joined(left, node.op, right)
            first, second = _number(left), _number(right)
            try:
                result = _ARITHMETIC[type(node.op)](first, second)
            except (ArithmeticError, ValueError):
                raise _Unknown("arithmetic") from None
            if not abs(result) < LARGEST:
                raise _Unknown("a large number")
            return result
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            values: list[Scalar] = []
            for each in node.elts[:MAX_SETTINGS]:
                value = self._literal(each, depth + 1)
                values.append(str(value) if isinstance(value, list) else value)
            return values
        raise _Unknown(ast.unparse(node))


def _number(value: Value) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Unknown("a word in arithmetic")
    return value


def _joined(values: list[Scalar], operator: ast.operator, other: Value) -> Value:
    """A list so many times, or followed by another one."""
    if isinstance(operator, ast.Add) and isinstance(other, list):
        return [*values, *other][:MAX_SETTINGS]
    if isinstance(operator, ast.Mult) and isinstance(other, int) and len(values) * other <= MAX_SETTINGS:
        return values * other
    raise _Unknown("a list in arithmetic")


def _pairs(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant):
                yield str(key.value), value
    elif isinstance(node, ast.Call):
        yield from ((each.arg, each.value) for each in node.keywords if each.arg)
    elif isinstance(node, ast.List):
        yield from ((str(index), each) for index, each in enumerate(node.elts) if isinstance(each, ast.Call))


def _unpacked(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Every target with its own value; of values that are not listed, the place of each among them."""
    if not isinstance(target, ast.Tuple | ast.List):
        yield target, value
        return
    listed = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
    for place, each in enumerate(target.elts):
        if listed and not isinstance(each, ast.Starred):
            yield from _unpacked(each, value.elts[place])  # type: ignore[attr-defined]
        else:
            part = ast.Subscript(value, ast.Constant(place), ast.Load())
            yield from _unpacked(each, ast.copy_location(part, value))


def _path(target: ast.expr) -> str | None:
    names: list[str] = []
    while isinstance(target, ast.Attribute | ast.Subscript):
        if isinstance(target, ast.Subscript):
            if not isinstance(target.slice, ast.Constant):
                return None
            names.append(str(target.slice.value))
        else:
            names.append(target.attr)
        target = target.value
    return ".".join([target.id, *reversed(names)]) if isinstance(target, ast.Name) else None
