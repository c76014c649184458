"""Supply chain: what is depended on is bounded and pinned, and nothing that is read is executed or sent anywhere."""

from __future__ import annotations

import ast
import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import meshwright

ROOT = Path(meshwright.__file__).parents[2]
PROJECT = ROOT / "pyproject.toml"
PACKAGE = Path(meshwright.__file__).parent
PIN = re.compile(r"([a-z0-9-]+)==(\S+) --hash=sha256:[0-9a-f]{64}")
EXECUTING = {"eval", "exec", "__import__", "compile"}
STARTING = {"pickle", "marshal", "shelve", "subprocess", "socket", "ctypes", "http", "ftplib", "smtplib", "runpy"}
STARTS = {"pytorch", "web"}
"""Rooms that run processes of their own or listen: torch in `verify`, and the page."""

pytestmark = pytest.mark.skipif(not PROJECT.exists(), reason="needs the project's own files")


def _requirements(*extras: str) -> list[Requirement]:
    project = tomllib.loads(PROJECT.read_text("utf-8"))["project"]
    optional = project["optional-dependencies"]
    lines = [*project["dependencies"], *(line for extra in extras or optional for line in optional[extra])]
    return [each for each in map(Requirement, lines) if each.name != "meshwright"]


def _pins() -> dict[str, str]:
    lines = (ROOT / "requirements-dev.txt").read_text("utf-8").splitlines()
    found = {line: PIN.fullmatch(line) for line in lines if not line.startswith("#")}
    assert all(found.values())
    return {match[1]: match[2] for match in found.values() if match}


def test_every_dependency_has_a_lower_and_an_upper_bound() -> None:
    for each in _requirements():
        kinds = {clause.operator for clause in each.specifier}
        assert kinds == {"=="} or kinds >= {">=", "<"}, each


def test_what_the_tests_run_with_is_pinned_by_hash_within_the_bounds() -> None:
    pins = _pins()
    for each in _requirements("dev"):
        assert each.specifier.contains(pins[each.name.lower()]), f"make lock: {each}"


def test_what_runs_here_is_within_the_bounds() -> None:
    for each in _requirements():
        try:
            installed = version(each.name)
        except ImportError:
            continue
        if each.name in _pins():
            assert each.specifier.contains(installed), each


@pytest.mark.parametrize("file", [*PACKAGE.rglob("*.py")], ids=lambda file: str(file.relative_to(PACKAGE)))
def test_nothing_is_evaluated_unpickled_or_sent(file: Path) -> None:
    tree, room = ast.parse(file.read_text("utf-8")), file.relative_to(PACKAGE).parts[0]
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert not called & EXECUTING
    loads = [ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert not {"os.system", "os.popen", "yaml.load", "yaml.unsafe_load", "yaml.full_load"} & {*loads}
    imported = {
        alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    }
    imported |= {str(node.module).split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    if room not in STARTS:
        assert not imported & STARTING
