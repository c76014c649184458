"""Walk: through the functions of a Python configuration, each call of one of them followed where it stands."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from meshwright.launch.readers.limits import MAX_SETTINGS
from meshwright.launch.readers.python.expressions import Unknown, holds, literal_of
from meshwright.launch.readers.python.left import left_by, made_by
from meshwright.launch.readers.python.loops import rounds_of
from meshwright.launch.readers.python.modules import MAX_CALLS, Function, Modules, outside_of_functions
from meshwright.launch.readers.python.names import LENGTHENS, is_class, path_of, plain_value, targets_of, unpacked
from meshwright.launch.readers.python.objects import Objects
from meshwright.launch.readers.python.records import Record, copied, put
from meshwright.launch.readers.python.scopes import Scope, bound_parameters, without_span
from meshwright.launch.readers.settings import FileSetting, Scalar
from meshwright.launch.readers.traced import Unreadable

MAX_STATEMENTS = 50_000
MAX_ROUNDS = 2_000
_PYTHONS_OWN = ("dict", "replace")
_COPIES = ("replace", "deepcopy", "copy")


class Walk(Objects):
    """A walk through the functions of one file; spans: where a literal stands; given: values of parameters."""

    def __init__(self, path: str, tree: ast.Module, given: dict[str, str], spans: dict[int, tuple[int, int]]) -> None:
        super().__init__(spans)
        self.given = given
        self.modules = Modules(Path(path), self.block)
        self.outermost = self.modules.scope(tree, None)
        self.outermost.values["__name__"] = FileSetting("", "__main__", 0)
        self.calls: dict[str, list[str]] = {}
        self.elsewhere: list[FileSetting] = []
        self.undecided: list[FileSetting] = []
        self.function, self.within = "", list[Function]()
        self.statements = self.rounds = 0

    def module(self, body: list[ast.stmt]) -> Iterator[FileSetting]:
        """What stands outside of functions."""
        self.block(outside_of_functions(body), self.outermost)
        yield from self._settings(self.outermost)

    def root(self, name: str) -> Iterator[FileSetting]:
        """What a function makes that is called without arguments, apart from those that are given."""
        node, scope = self.outermost.functions[name], Scope(outer=self.outermost)
        self.function, self.within = name, [node]
        self.calls.setdefault(name, [])
        if isinstance(node, ast.FunctionDef):
            named = {each: FileSetting("", plain_value(value), 0) for each, value in self.given.items()}
            scope.values = bound_parameters(node.args, [], dict(named), lambda each: self.bound(each, self.outermost))
        self.block(node.body, scope)
        yield from self._settings(scope)
        self.function, self.within = "", []

    def block(self, body: list[ast.stmt], scope: Scope) -> bool:
        """Follow statements in order; whether they leave the function."""
        return any(self._statement(each, scope) for each in body)

    def _statement(self, statement: ast.stmt, scope: Scope) -> bool:
        self.statements += 1
        if self.statements > MAX_STATEMENTS:
            raise Unreadable(f"it takes more than {MAX_STATEMENTS} statements to follow", 0)
        if isinstance(statement, ast.Assign):
            self._assigned(statement.targets, statement.value, scope)
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            self._assigned([statement.target], statement.value, scope)
        elif isinstance(statement, ast.AugAssign):
            added = ast.copy_location(ast.BinOp(statement.target, statement.op, statement.value), statement)
            self._assigned([statement.target], added, scope)
        elif isinstance(statement, ast.Return):
            scope.returned = None if statement.value is None else self.bound(statement.value, scope)
            return True
        elif isinstance(statement, ast.Raise):
            return True
        elif isinstance(statement, ast.Expr):
            self._expression(statement.value, scope)
        elif isinstance(statement, ast.If):
            return self._if(statement, scope)
        elif isinstance(statement, ast.With | ast.Try):
            return self.block(statement.body, scope)
        elif isinstance(statement, ast.For):
            return self._for(statement, scope)
        elif isinstance(statement, ast.While | ast.Match):
            self._undecided(statement, ("a loop" if isinstance(statement, ast.While) else "a match",), scope)
        elif isinstance(statement, ast.FunctionDef | ast.ClassDef):
            self.block(statement.body, Scope(outer=scope, own=scope.own, unbound=scope.unbound))
        return False

    def _expression(self, node: ast.expr, scope: Scope) -> None:
        """A call whose value nobody takes: what it makes counts, and what it changes."""
        if not isinstance(node, ast.Call):
            return
        changed = [each for each in (*node.args, *(pair.value for pair in node.keywords)) if path_of(each)]
        path = path_of(node.func) or [""]
        if assigned := _as_assignment(node, scope):
            self._assigned([assigned[0]], assigned[1], scope)
            return
        known = self.modules.home(path, scope, self.within) is not None
        if known and scope is self.outermost:
            return
        if not known and not is_class(path[-1]) and any(scope.object_at(each) for each in changed):
            self._told(".".join(path), node, scope)
        made = self.bound(node, scope)
        if isinstance(made, Record) and not known:
            scope.unbound.append(made)

    def _if(self, node: ast.If, scope: Scope) -> bool:
        try:
            return self.block(node.body if holds(node.test, scope.look) else node.orelse, scope)
        except Unknown as unknown:
            self._undecided(node, (str(unknown)[:60],), scope)
            return False

    def _for(self, node: ast.For, scope: Scope) -> bool:
        """A loop over what the file says; whether it leaves the function."""
        rounds = rounds_of(node, lambda each: self.bound(each, scope))
        self.rounds += len(rounds or ())
        if rounds is None or self.rounds > MAX_ROUNDS:
            self._undecided(node, ("a loop",), scope)
            return False
        for values in rounds:
            scope.values |= values
            if self.block(node.body, scope):
                return True
        return False

    def _undecided(self, node: ast.stmt, names: tuple[str, ...], scope: Scope) -> None:
        """Neither side of a condition is followed; what they would set is open."""
        text = ast.unparse(node).partition("\n")[0][:60]
        open_value = FileSetting("", text, scope.line(node), None, names)
        self.undecided.append(replace(open_value, function=self.function))
        for target in targets_of(node):
            name, *path = path_of(target) or [""]
            record = scope.object_at(target.value) if path and isinstance(target, ast.Attribute) else None
            if not path and name:
                scope.values[name] = open_value
            elif record is not None and not isinstance(record.fields.get(path[-1]), Record):
                put(record, path[-1:], replace(open_value, line=scope.line(target)))

    def _assigned(self, targets: list[ast.expr], value: ast.expr, scope: Scope) -> None:
        """A value by one name or by several; that of several is changed nowhere, as it would change for all of them."""
        pairs = [pair for target in targets for pair in unpacked(target, value)]
        known: dict[int, Record | FileSetting] = {}
        for _, part in pairs:
            if id(part) not in known:
                known[id(part)] = self.bound(part, scope, by_name=len(pairs) == 1 and isinstance(targets[0], ast.Name))
        for target, part in pairs:
            each = without_span(known[id(part)]) if len(targets) > 1 else known[id(part)]
            name, *path = path_of(target) or [""]
            record = scope.value(name)
            if not path and name:
                scope.values[name] = without_span(each)
                scope.own.pop(name, None)
                scope.own[name] = each
            elif path and isinstance(record, Record):
                put(record, path, each)
            elif path:
                scope.values[name] = scope.own[name] = Record()
                put(scope.values[name], path, each)  # type: ignore[arg-type]

    def called(self, node: ast.Call, scope: Scope, depth: int) -> Record | FileSetting:
        """What a call makes: what a function that is followed returns, a copy, or an object that is made elsewhere."""
        path, named = path_of(node.func), dict[str, Record | FileSetting]()
        for pair in node.keywords:
            each = self.bound(pair.value, scope, depth=depth + 1)
            if pair.arg is not None:
                named[pair.arg] = each
            elif isinstance(each, Record):
                named |= each.fields
        if path and len(path) == 1:
            self.calls.setdefault(self.function, []).append(path[0])
        home = self.modules.home(path, scope, self.within) if path else None
        if home is not None and isinstance(home[0], ast.FunctionDef):
            return self._followed(home[0], home[1], node, named, scope)
        copies = path is not None and path[-1] in _COPIES and bool(node.args)
        original = self.bound(node.args[0], scope, depth=depth + 1) if copies else None
        if isinstance(original, Record) and isinstance(record := copied(original), Record):
            record.fields |= named
            record.line = scope.line(node)
            return record
        return self._made(node, path, named, scope, depth)

    def _followed(
        self,
        function: ast.FunctionDef,
        home: Scope,
        node: ast.Call,
        named: dict[str, Record | FileSetting],
        scope: Scope,
    ) -> Record | FileSetting:
        """What a function returns, with its parameters as the call has them."""
        if len(self.within) > MAX_CALLS:
            raise Unreadable(f"more than {MAX_CALLS} functions within one another", 0)
        given = [scope.object_at(each) if path_of(each) else None for each in node.args]
        positional = [each or self.bound(arg, scope) for each, arg in zip(given, node.args, strict=True)]
        inner = Scope(outer=home)
        inner.values = bound_parameters(function.args, positional, named, lambda each: self.bound(each, home))
        self.within.append(function)
        self.block(function.body, inner)
        self.within.pop()
        if inner.returned is not None:
            return inner.returned
        return FileSetting("", ast.unparse(node)[:60], scope.line(node), None, (ast.unparse(node)[:60],))

    def _made(
        self, node: ast.Call, path: list[str] | None, named: dict[str, Record | FileSetting], scope: Scope, depth: int
    ) -> Record:
        """An object of a class, or of a function, that stands elsewhere."""
        record = Record(line=scope.line(node), function=self.within[-1].name if self.within else "", fields=named)
        before = node.func.value if isinstance(node.func, ast.Attribute) else None
        if isinstance(before, ast.Call):
            inner = self.bound(before, scope, depth=depth + 1)
            record.made = inner.made if isinstance(inner, Record) else ""
        elif path and isinstance(maker := scope.value(path[0]), Record) and len(path) == 2 and maker.made:
            record.made = maker.made
        elif path:
            record.made = ".".join(path) + self._first(node, scope, depth)
        if not named:
            text = ast.unparse(node)[:60]
            record.own = FileSetting("", text, scope.line(node), None, (text,))
        made = self.outermost.functions.get(path[-1]) if path else None
        if isinstance(made, ast.ClassDef) and made not in self.within:
            record.fields = self._defaults(made) | named
        return record

    def _first(self, node: ast.Call, scope: Scope, depth: int) -> str:
        """The first argument of a call, where it is a literal or a name; others are followed for what they make."""
        text = ""
        for index, each in enumerate(node.args):
            bound = self.bound(each, scope, depth=depth + 1)
            if isinstance(bound, Record) and not path_of(each):
                scope.unbound.append(bound)
            elif isinstance(bound, Record):
                text = f" {each.id}" if index == 0 and isinstance(each, ast.Name) else text
            elif index == 0 and not bound.open and not isinstance(bound.value, list) and bound.value is not None:
                text = f" {bound.value}"
            elif index == 0 and bound.open and (path := path_of(each)) and (len(path) == 1 or is_class(path[-1])):
                text = f" {path[-1]}"
        return text

    def _defaults(self, cls: ast.ClassDef) -> dict[str, Record | FileSetting]:
        """The fields of a class of the file, with those of what it is derived from."""
        inner, fields = Scope(outer=self.outermost), dict[str, Record | FileSetting]()
        self.within.append(cls)
        for base in cls.bases:
            parent = self.outermost.functions.get(base.id) if isinstance(base, ast.Name) else None
            if isinstance(parent, ast.ClassDef) and parent not in self.within:
                fields |= self._defaults(parent)
        self.block(outside_of_functions(cls.body), inner)
        self.within.pop()
        return fields | {name: without_span(each) for name, each in inner.own.items()}

    def _told(self, name: str, node: ast.Call, scope: Scope) -> None:
        """A function that is not read and changes what this one makes, with the literals that it is given."""
        bounds = [self.bound(each, scope) for each in (*node.args, *(pair.value for pair in node.keywords))]
        literals = [each.value for each in bounds if isinstance(each, FileSetting) and not each.open]
        words: list[Scalar] = [each for each in literals if not isinstance(each, list)]
        self.elsewhere.append(FileSetting(name, words, scope.line(node), function=self.function))

    def _settings(self, scope: Scope) -> Iterator[FileSetting]:
        """What a scope leaves behind, as settings of the function that is followed."""
        changed = [each for each in scope.own.values() if isinstance(each, Record) and each.changed]
        for bound in (*made_by(scope), *changed):
            name = bound.made.partition(" ")[0] if isinstance(bound, Record) else ""
            if name and not is_class(name) and name not in _PYTHONS_OWN:
                self.elsewhere.append(FileSetting(name, [], bound.line, function=self.function))
        for count, each in enumerate(left_by(scope)):
            if count > MAX_SETTINGS:
                raise Unreadable(f"more than {MAX_SETTINGS} settings", 0)
            yield replace(each, function=self.function)


def _as_assignment(node: ast.Call, scope: Scope) -> tuple[ast.expr, ast.expr] | None:
    """The target and the value of a call that sets a field or makes a list longer; None of any other."""
    if isinstance(node.func, ast.Attribute) and node.func.attr in LENGTHENS and len(node.args) == 1:
        more = node.args[0] if node.func.attr == "extend" else ast.List(node.args, ast.Load())
        longer = ast.BinOp(node.func.value, ast.Add(), ast.copy_location(more, node))
        return node.func.value, ast.copy_location(longer, node)
    if not isinstance(node.func, ast.Name) or node.func.id != "setattr" or len(node.args) != 3:
        return None
    try:
        field = str(literal_of(node.args[1], scope.look))
    except Unknown:
        return None
    return ast.copy_location(ast.Attribute(node.args[0], field, ast.Store()), node), node.args[2]
