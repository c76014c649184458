"""The house: one direction of imports, a docstring on every public thing, files that say one thing."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Container, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import meshwright

ROOT = Path(meshwright.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
MODULES = {
    ".".join(file.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__"): file for file in FILES
}
"""By their full names."""
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


@cache
def _imported(file: Path) -> tuple[str, ...]:
    """Modules that a file imports anywhere in it, with their full names."""
    return tuple(_imports(file))


def _imports(file: Path) -> Iterator[str]:
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


def _wrong(found: Callable[[Path], Any], files: list[Path] = FILES) -> dict[str, Any]:
    """What a rule finds wrong in each file, by its name, for files in which it finds something."""
    return {_name(file): wrong for file in files if (wrong := found(file))}


def test_imports_go_one_way() -> None:
    def against_it(file: Path) -> set[str]:
        room, imported = _room(file), _rooms_imported(file) - UTILITIES
        if room in WAY:
            return imported - {*WAY[: WAY.index(room) + 1]}
        if room in UTILITIES:
            return imported
        return set() if room in {"__init__", "__main__"} else {f"say in WAY where {room!r} stands"}

    assert not _wrong(against_it)


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports inside functions count too."""
    graph = {name: {_module(each, MODULES) for each in _imported(file)} - {name} for name, file in MODULES.items()}
    TopologicalSorter(graph).prepare()


def test_folders_of_a_room_import_one_way() -> None:
    """At every depth; a file that lies beside them counts as a folder of its own."""

    def circle(room: str) -> list[str]:
        graph: dict[str, set[str]] = defaultdict(set)
        for module, file in MODULES.items():
            if module.startswith(f"{room}."):
                graph[_within(room, module)] |= {
                    _within(room, name) for name in _imported(file) if name.startswith(f"{room}.")
                }
        try:
            TopologicalSorter({folder: others - {folder} for folder, others in graph.items()}).prepare()
        except CycleError as error:
            return [*error.args[1]]
        return []

    rooms = [name for name, file in MODULES.items() if file.name == "__init__.py" and name.count(".")]
    assert len(rooms) > 50
    assert not {room: found for room in rooms if (found := circle(room))}


def _within(room: str, module: str) -> str:
    """The folder or file of a room that a module is, or lies in."""
    return ".".join(module.split(".")[: room.count(".") + 2])


def _module(name: str, modules: Container[str]) -> str:
    """The module of an imported name: itself, or the one that defines it."""
    return name if name in modules else name.rpartition(".")[0]


def test_named_tuples_of_many_fields_are_built_by_name() -> None:
    """Four values in a row are easily swapped."""

    def built_in_order(file: Path) -> list[str]:
        here = {node.name for node in _classes(file)}
        known = here | {name.rpartition(".")[2] for name in _imported(file) if name.startswith("meshwright.")}
        calls = [node for node in ast.walk(_tree(file)) if isinstance(node, ast.Call) and len(node.args) > 3]
        return [ast.unparse(call) for call in calls if ast.unparse(call.func) in known & _named_tuples()]

    assert not _wrong(built_in_order)


def test_torch_is_imported_only_where_plans_are_checked_with_it() -> None:
    packages, trainer = {"torch", "transformers", "megatron"}, ".".join(("meshwright", *TRAINER))

    def imported(file: Path) -> list[str]:
        return [name for name in _imported(file) if name.split(".")[0] in packages or name.startswith(trainer)]

    assert not _wrong(imported, [file for file in FILES if file.relative_to(ROOT).parts[:2] != TRAINER])


def test_a_file_stays_short() -> None:
    assert not _wrong(lambda file: len(file.read_text("utf-8").splitlines()) >= MOST_LINES)


def test_users_never_meet_an_assert() -> None:
    assert not _wrong(lambda file: [node.lineno for node in ast.walk(_tree(file)) if isinstance(node, ast.Assert)])


def test_every_module_and_public_thing_says_what_it_is() -> None:
    def silent(file: Path) -> list[str]:
        tree = _tree(file)
        whole = [] if ast.get_docstring(tree) or not tree.body else ["(the file)"]
        return whole + [node.name for node in _public(tree.body) if not ast.get_docstring(node)]

    assert not _wrong(silent)


def test_public_functions_of_cost_name_their_arguments_and_the_unit_of_their_answer() -> None:
    def silent(file: Path) -> dict[str, list[str]]:
        unsaid = {node.name: _unsaid(node) for node in _tree(file).body if isinstance(node, FUNCTION)}
        return {name: words for name, words in unsaid.items() if words and not name.startswith("_")}

    assert not _wrong(silent, [file for file in FILES if _room(file) in {"cost", "schedules"}])


def test_what_breaks_a_rule_is_named_with_its_file() -> None:
    assert _wrong(lambda file: [file.stem] * (file == FILES[0])) == {_name(FILES[0]): [FILES[0].stem]}
    assert len(FILES) > 400
