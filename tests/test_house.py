"""The house: one direction of imports, a docstring on every public thing, files that say one thing."""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import meshwright

ROOT = Path(meshwright.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
WAY = (
    *("schedules", "specs", "layout", "cost", "search"),
    *("launch", "answers", "textbook", "validation", "pytorch", "web", "cli"),
)
"""Each may import from itself and what stands before it; the textbook compares itself with the planner's answers."""
UTILITIES = {"arguments", "arrays", "distinct", "errors", "reprs", "text_files", "units", "version"}
"""May be imported by all, and import only each other."""
TRAINER = ("pytorch", "trainer")
"""The only room that imports torch; it runs in processes of its own, and no other file imports it."""
MOST_LINES = 300
SPEAKS_FOR_ITSELF = {"inputs", "cluster", "accelerator", "kind", "operation", "plans", "stages", "units"}
"""Arguments of a class of their own, which names its units; an integer argument of that name does not."""
UNITS = "seconds|bytes|flop|counts?|tokens|elements|ranks|rows|share|code|parameters|pairs|chunks|sizes"
NUMBERS = "Floats|Ints|Numbers|Column|float|int"
"""What an annotation calls a scalar or a column."""
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


def _name(file: Path) -> str:
    return str(file.relative_to(ROOT))


def _room(file: Path) -> str:
    return file.relative_to(ROOT).parts[0].removesuffix(".py")


@cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"))


def _classes(file: Path) -> list[ast.ClassDef]:
    return [node for node in ast.walk(_tree(file)) if isinstance(node, ast.ClassDef)]


@cache
def _named_tuples() -> set[str]:
    return {each.name for file in FILES for each in _classes(file) if "NamedTuple" in map(ast.unparse, each.bases)}


def _imported(file: Path) -> Iterator[str]:
    """Modules that a file imports anywhere in it, with their full names."""
    for node in ast.walk(_tree(file)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = (file.parent.relative_to(ROOT.parent).parts)[: -(node.level - 1) or None] if node.level else ()
            module = ".".join((*above, *filter(None, [node.module])))
            yield from (f"{module}.{alias.name}" for alias in node.names)


def _rooms_imported(file: Path) -> set[str]:
    return {name.split(".")[1] for name in _imported(file) if name.startswith("meshwright.")}


def _public(body: list[ast.stmt]) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """Public classes, functions and methods; what overloads or sets a property is described where it is read."""
    for node in body:
        if isinstance(node, ast.ClassDef | FUNCTION) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from _public(node.body)


def _arguments(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    given = function.args
    return [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]


def _unsaid(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Arguments that a docstring does not name, and `(no unit)` where a number is returned without one."""
    text = ast.get_docstring(function) or ""
    wanted = [name for name in _arguments(function) if not _is_object(function, name)]
    unsaid = [name for name in wanted if not re.search(rf"\b{name}\b", text)]
    if "plan" in unsaid and re.search(r"scalar or array \(n,\)", text, re.IGNORECASE):
        unsaid.remove("plan")
    returned = ast.unparse(function.returns) if function.returns else ""
    number = re.search(rf"\b\w*({NUMBERS})\b", returned)
    return unsaid + (["(no unit)"] if number and not re.search(rf"\b({UNITS})\b", text, re.IGNORECASE) else [])


def _is_object(function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> bool:
    annotations = {each.arg: ast.unparse(each.annotation) for each in function.args.args if each.annotation}
    return name in SPEAKS_FOR_ITSELF and not re.search(rf"\b({NUMBERS})\b", annotations.get(name, ""))


@pytest.mark.parametrize("file", FILES, ids=_name)
def test_imports_go_one_way(file: Path) -> None:
    room, imported = _room(file), _rooms_imported(file) - UTILITIES
    if room in WAY:
        assert imported <= set(WAY[: WAY.index(room) + 1])
    elif room in UTILITIES:
        assert not imported
    else:
        assert room in {"__init__", "__main__"}, f"say in WAY where {room!r} stands"


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports inside functions count too."""
    modules = {".".join(file.relative_to(ROOT.parent).with_suffix("").parts): file for file in FILES}
    modules = {name.removesuffix(".__init__"): file for name, file in modules.items()}
    graph = {name: {_module(each, modules) for each in _imported(file)} - {name} for name, file in modules.items()}
    TopologicalSorter(graph).prepare()


def _module(name: str, modules: Container[str]) -> str:
    """The module of an imported name: itself, or the one that defines it."""
    return name if name in modules else name.rpartition(".")[0]


@pytest.mark.parametrize("file", FILES, ids=_name)
def test_named_tuples_of_many_fields_are_built_by_name(file: Path) -> None:
    """Four values in a row are easily swapped."""
    here = {node.name for node in _classes(file)}
    known = here | {name.rpartition(".")[2] for name in _imported(file) if name.startswith("meshwright.")}
    calls = [node for node in ast.walk(_tree(file)) if isinstance(node, ast.Call) and len(node.args) > 3]
    assert not [ast.unparse(call) for call in calls if ast.unparse(call.func) in known & _named_tuples()]


@pytest.mark.parametrize("file", FILES, ids=_name)
def test_torch_is_imported_only_where_plans_are_checked_with_it(file: Path) -> None:
    if file.relative_to(ROOT).parts[:2] != TRAINER:
        imported = [*_imported(file)]
        assert not [name for name in imported if name.split(".")[0] in {"torch", "transformers", "megatron"}]
        assert not [name for name in imported if name.startswith(".".join(("meshwright", *TRAINER)))]


@pytest.mark.parametrize("file", FILES, ids=_name)
def test_a_file_stays_short(file: Path) -> None:
    assert len(file.read_text("utf-8").splitlines()) < MOST_LINES


@pytest.mark.parametrize("file", FILES, ids=_name)
def test_users_never_meet_an_assert(file: Path) -> None:
    assert not [node.lineno for node in ast.walk(_tree(file)) if isinstance(node, ast.Assert)]


@pytest.mark.parametrize("file", FILES, ids=_name)
def test_every_module_and_public_thing_says_what_it_is(file: Path) -> None:
    tree = _tree(file)
    assert ast.get_docstring(tree) or not tree.body
    assert not [node.name for node in _public(tree.body) if not ast.get_docstring(node)]


@pytest.mark.parametrize("file", [file for file in FILES if _room(file) in {"cost", "schedules"}], ids=_name)
def test_public_functions_of_cost_name_their_arguments_and_the_unit_of_their_answer(file: Path) -> None:
    silent = {node.name: _unsaid(node) for node in _tree(file).body if isinstance(node, FUNCTION)}
    silent = {name: unsaid for name, unsaid in silent.items() if unsaid and not name.startswith("_")}
    assert not silent
