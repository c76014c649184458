"""Objects: what the expressions of a Python configuration stand for."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod

from meshwright.launch.readers.limits import MAX_DEPTH
from meshwright.launch.readers.python.expressions import Unknown, holds, literal_of
from meshwright.launch.readers.python.names import path_of
from meshwright.launch.readers.python.records import Record, copied
from meshwright.launch.readers.python.scopes import Scope
from meshwright.launch.readers.settings import FileSetting
from meshwright.launch.readers.traced import Unreadable


class Objects(ABC):
    """Literals, dictionaries and what names stand for; spans: where literals stand in the file."""

    def __init__(self, spans: dict[int, tuple[int, int]]) -> None:
        self.spans = spans

    @abstractmethod
    def called(self, node: ast.Call, scope: Scope, depth: int) -> Record | FileSetting:
        """What a call makes."""

    def bound(self, node: ast.expr, scope: Scope, by_name: bool = False, depth: int = 0) -> Record | FileSetting:
        """What an expression stands for; by_name: it gets a name, by which an unknown object may be changed."""
        if depth > MAX_DEPTH:
            raise Unreadable(f"more than {MAX_DEPTH} levels", 0)
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
            record = scope.look(node)
            if record is None and by_name and isinstance(node, ast.Attribute):
                record = scope.object_at(node)
            if isinstance(record, Record):
                return record
        keyed = isinstance(node, ast.Subscript) and path_of(node) is None
        if isinstance(node, ast.Subscript) and keyed and (held := self._looked_up(node, scope, depth)) is not None:
            return held
        if isinstance(node, ast.Dict):
            return self._dictionary(node, scope, depth)
        if isinstance(node, ast.List | ast.Tuple) and (calls := _objects_in(node, scope)):
            return Record(line=scope.line(node), plain=True, fields=self.each_of(calls, scope, depth))
        if isinstance(node, ast.BinOp) and (joined := self._joined(node, scope, depth)) is not None:
            return joined
        if isinstance(node, ast.IfExp):
            try:
                side = node.body if holds(node.test, scope.look) else node.orelse
                return self.bound(side, scope, by_name, depth + 1)
            except Unknown as unknown:
                return self._open(node, unknown, scope)
        try:
            return FileSetting("", literal_of(node, scope.look), scope.line(node), self.spans.get(id(node)))
        except Unknown as unknown:
            return self.called(node, scope, depth) if isinstance(node, ast.Call) else self._open(node, unknown, scope)

    def _joined(self, node: ast.BinOp, scope: Scope, depth: int) -> Record | None:
        """A list of objects behind another list; None for anything else."""
        sides = [self.bound(each, scope, depth=depth + 1) for each in (node.left, node.right)]
        lists = [each for each in sides if isinstance(each, Record) and each.plain]
        if not lists or any(each not in lists and getattr(each, "value", None) != [] for each in sides):
            return None
        fields = [field for each in lists for field in each.fields.values()]
        return Record(line=scope.line(node), plain=True, fields={str(at): each for at, each in enumerate(fields)})

    def _open(self, node: ast.expr, unknown: Unknown, scope: Scope) -> FileSetting:
        return FileSetting("", ast.unparse(node)[:60], scope.line(node), None, (str(unknown)[:60],))

    def each_of(self, nodes: dict[str, ast.expr], scope: Scope, depth: int) -> dict[str, Record | FileSetting]:
        """What several expressions stand for."""
        return {name: self.bound(each, scope, depth=depth + 1) for name, each in nodes.items()}

    def _key(self, node: ast.expr, scope: Scope) -> str | None:
        """A key of a dictionary, by which its field is called."""
        try:
            return str(literal_of(node, scope.look))
        except Unknown:
            return None

    def _looked_up(self, node: ast.Subscript, scope: Scope, depth: int) -> Record | FileSetting | None:
        """What a dictionary holds under a key that is worked out."""
        several, key = self.bound(node.value, scope, depth=depth + 1), self._key(node.slice, scope)
        return several.fields.get(key) if isinstance(several, Record) and key is not None else None

    def _dictionary(self, node: ast.Dict, scope: Scope, depth: int) -> Record:
        fields: dict[str, Record | FileSetting] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            each = self.bound(value, scope, depth=depth + 1)
            if key is None and isinstance(each, Record):
                fields |= copied(each).fields  # type: ignore[union-attr]
            elif key is not None and (name := self._key(key, scope)) is not None:
                fields.pop(name, None)
                fields[name] = each
        return Record(line=scope.line(node), plain=True, fields=fields)


def _objects_in(node: ast.List | ast.Tuple, scope: Scope) -> dict[str, ast.expr]:
    """The elements of a list that are objects, by their places."""
    places = {str(at): each for at, each in enumerate(node.elts)}
    return {
        place: each
        for place, each in places.items()
        if isinstance(each, ast.Call) or isinstance(scope.look(each), Record)
    }
