"""Modules: the files of the same source tree that a recipe in Python starts from."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from meshwright.errors import InvalidInput
from meshwright.launch.readers.limits import text_of
from meshwright.launch.readers.python.records import Record
from meshwright.launch.readers.python.scopes import Scope
from meshwright.launch.readers.settings import FileSetting

FOLLOWED = ("megatron.bridge.recipes", "megatron.bridge.perf_recipes", "nemo.collections.llm.recipes")
"""Packages whose functions make recipes of others; what any other module has is known by its name alone."""
_REGISTRIES = re.compile(r"torchtitan\.[\w.]+\.config_registry")
_PASSED_ON = {"nemo.collections.llm": "nemo.collections.llm.recipes"}
"""Packages that have all the names of one that is followed."""
_ROOTS = (Path("megatron", "bridge"), Path("nemo", "collections", "llm"), Path("torchtitan", "models"))
MOST_FILES = 60
MAX_CALLS = 20
Function = ast.FunctionDef | ast.ClassDef


class Modules:
    """The modules that a file imports, each read once; follow: what goes through the statements of one."""

    def __init__(self, path: Path, follow: Callable[[list[ast.stmt], Scope], object]) -> None:
        self.path, self.follow = path, follow
        self.read: dict[Path, Scope | None] = {}

    def home(self, path: Sequence[str], scope: Scope, within: list[Function]) -> tuple[Function, Scope] | None:
        """The function of that name, behind those of its modules, with its module, where it can be followed: it stands
        in the file, or in one that it imports from, and is not followed already.
        """
        module = scope.module
        for _ in range(MAX_CALLS):
            name, *below = path
            function = None if below else module.functions.get(name)
            if function is not None:
                return None if function in within else (function, module)
            if name not in module.imported:
                return None
            of, level, theirs = module.imported[name]
            whole = f"{of}.{theirs}" if of else theirs
            other = self._imported(module.path or self.path, whole if below else of, level)
            if other is None:
                return None
            module, path = other, below or [theirs]
        return None

    def scope(self, tree: ast.Module, path: Path | None) -> Scope:
        """The scope of a module; path: of one that the asked one imports."""
        functions: dict[str, Function] = {
            each.name: each for each in tree.body if isinstance(each, ast.FunctionDef | ast.ClassDef)
        }
        scope = Scope(functions=functions, imported=_imported_names(tree), path=path)
        scope.elsewhere = lambda name: self._value(name, scope)
        return scope

    def _value(self, name: str, scope: Scope) -> Record | FileSetting | None:
        """What a module imports by that name, where it stands outside of functions."""
        of, level, theirs = scope.imported.get(name, ("", 0, ""))
        other = self._imported(scope.path or self.path, of, level) if of or level else None
        value = other.value(theirs) if other else None
        return value if isinstance(value, Record) or value is None else replace(value, line=0, span=None)

    def _imported(self, path: Path, name: str, level: int) -> Scope | None:
        """The module of that name, with what stands outside of its functions."""
        file = _file_of(path, name, level)
        if file is None or (file not in self.read and len(self.read) >= MOST_FILES):
            return None
        if file not in self.read:
            self.read[file] = None
            tree = _tree_of(file)
            if tree is not None:
                scope = self.read[file] = self.scope(tree, file)
                self.follow(outside_of_functions(tree.body), scope)
        return self.read[file]


def outside_of_functions(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of a module or a class outside of functions."""
    return [each for each in body if not isinstance(each, ast.FunctionDef | ast.ClassDef)]


def _imported_names(tree: ast.Module) -> dict[str, tuple[str, int, str]]:
    """What a module imports by name: the module that has it, how many packages above it that is, and its name there."""
    names: dict[str, tuple[str, int, str]] = {}
    for each in ast.walk(tree):
        if isinstance(each, ast.ImportFrom):
            names |= {alias.asname or alias.name: (each.module or "", each.level, alias.name) for alias in each.names}
        elif isinstance(each, ast.Import):
            parts = {alias.asname: alias.name.rpartition(".") for alias in each.names if alias.asname}
            names |= {name: (package, 0, module) for name, (package, _, module) in parts.items()}
    return names


def _file_of(path: Path, module: str, level: int) -> Path | None:
    """The file of a module that one imports, where it is of the packages that are followed and lies in a source tree
    around it, or in the repository that holds it; no link, and nothing else.
    """
    for top in _tops(path.absolute()):
        name = _full_name(path.absolute(), top, module, level)
        name = _PASSED_ON.get(name, name)
        followed = any(name == each or name.startswith(f"{each}.") for each in FOLLOWED)
        if not followed and not _REGISTRIES.fullmatch(name):
            continue
        base = top.joinpath(*name.split("."))
        for file in (base.with_suffix(".py"), base / "__init__.py"):
            if file.is_file() and file.resolve() == top.resolve() / file.relative_to(top):
                return file
    return None


def _tree_of(file: Path) -> ast.Module | None:
    """The text of a module, parsed; None where it is none."""
    try:
        return ast.parse(text_of(file))
    except (InvalidInput, OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _tops(path: Path) -> list[Path]:
    """Folders that packages are imported from: those around a file, and of the repository that it lies in."""
    around = [each for each in path.parents if any((each / root).is_dir() for root in _ROOTS)]
    top = next((each for each in path.parents if (each / ".git").exists()), None)
    inside = [top / "src"] if top is not None and any((top / "src" / root).is_dir() for root in _ROOTS) else []
    return list(dict.fromkeys([*around, *inside]))


def _full_name(path: Path, top: Path, module: str, level: int) -> str:
    if not level:
        return module
    if not path.is_relative_to(top):
        return ""
    parts = path.relative_to(top).with_suffix("").parts
    return ".".join([*parts[: len(parts) - level], *filter(None, [module])])
