"""What pytest collects is imported: it must do with the packages of `make test`, where no framework is installed."""

from __future__ import annotations

import ast
import shlex
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from audit import pins

ROOT = Path(__file__).parent.parent
OPTIONS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["pytest"]["ini_options"]
IGNORED = [each.partition("=")[2] for each in shlex.split(OPTIONS["addopts"]) if each.startswith("--ignore")]
SKIPS = ("importorskip", "skip")
"""Of pytest: what stands below in a module is reached where the package is there alone."""


def _is_ignored(path: str) -> bool:
    return any(fnmatch(path, each) or path.startswith(f"{each}/") for each in IGNORED)


PATHS = [str(file.relative_to(ROOT)) for top in OPTIONS["testpaths"] for file in sorted((ROOT / top).rglob("*.py"))]
COLLECTED = [path for path in PATHS if not _is_ignored(path)]
"""Every module: pytest looks for doctests in those that are no tests, too."""
FOLDERS = (ROOT / "tests", ROOT / "benchmarks")
OURS = {"meshwright"} | {file.stem for folder in FOLDERS for file in folder.rglob("*.py")}
PINS = {*pins()}
PINNED = {name for name, held in packages_distributions().items() if {*map(canonicalize_name, held)} & PINS}
THERE = sys.stdlib_module_names | OURS | PINNED


def _imported(body: list[ast.stmt]) -> Iterator[str]:
    """Modules that are imported when a module is, up to where pytest would skip it."""
    for node in body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.With | ast.If | ast.Try | ast.ClassDef) and not _is_for_types(node):
            yield from _imported(node.body)
        if any(isinstance(each, ast.Attribute) and each.attr in SKIPS for each in _run(node)):
            return


def _is_for_types(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _run(node: ast.stmt) -> Iterator[ast.AST]:
    """What runs when a module is imported: not what stands in functions."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield from ast.walk(node)


def _missing(text: str) -> list[str]:
    """Modules that are not there with the packages of the tests, or that import such ones."""
    imported = {*_imported(ast.parse(text).body)}
    ours = {name: f"src/{name.replace('.', '/')}" for name in imported if name.startswith("meshwright.")}
    ignored = {name for name, path in ours.items() if _is_ignored(path) or _is_ignored(f"{path}.py")}
    return sorted(ignored | {name for name in imported if name.partition(".")[0] not in THERE})


def test_what_pytest_collects_imports_what_the_tests_install_alone() -> None:
    """Name a script for a framework's own process objects_*.py, which is not collected."""
    missing = {path: _missing((ROOT / path).read_text("utf-8")) for path in COLLECTED}
    assert not {path: names for path, names in missing.items() if names}


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("import deepspeed", ["deepspeed"]),
        ("with warnings():\n    from torch import nn", ["torch"]),
        ("from meshwright.pytorch.trainer.step import observe", ["meshwright.pytorch.trainer.step"]),
        ("import pytest, yaml, commands", []),
        ("def test() -> None:\n    import torch", []),
        ("pytest.importorskip('torch')\nimport torch", []),
        ("@pytest.mark.skipif(True)\ndef test() -> None: ...\nimport torch", ["torch"]),
    ],
)
def test_a_package_that_is_not_installed_is_seen(text: str, missing: list[str]) -> None:
    assert _missing(text) == missing
