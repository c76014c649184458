"""Supply chain: what is depended on is bounded and pinned, and nothing that is read is executed or sent anywhere."""

from __future__ import annotations

import ast
import importlib.util
from importlib.metadata import distributions
from pathlib import Path
from types import ModuleType

import pytest

import meshwright

ROOT = Path(meshwright.__file__).parents[2]
PROJECT = ROOT / "pyproject.toml"
PACKAGE = Path(meshwright.__file__).parent
EXECUTING = {"eval", "exec", "__import__", "compile"}
LOADING = {"os.system", "os.popen", "yaml.load", "yaml.unsafe_load", "yaml.full_load"}
STARTING = {"pickle", "marshal", "shelve", "subprocess", "socket", "ctypes", "http", "ftplib", "smtplib", "runpy"}
STARTS = {"pytorch", "web"}
"""Rooms that run processes of their own or listen: torch in `verify`, and the page."""

pytestmark = pytest.mark.skipif(not PROJECT.exists(), reason="needs the project's own files")


@pytest.fixture(scope="module")
def audit() -> ModuleType:
    """`make audit`."""
    spec = importlib.util.spec_from_file_location("audit", ROOT / "benchmarks" / "audit.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_dependency_has_a_lower_and_an_upper_bound(audit: ModuleType) -> None:
    assert audit.bounds()
    for each in audit.bounds():
        kinds = {clause.operator for clause in each.specifier}
        assert kinds == {"=="} or kinds >= {">=", "<"}, each


def test_what_the_tests_run_with_is_pinned_by_hash_within_the_bounds(audit: ModuleType) -> None:
    pins = audit.pins()
    assert audit.bounds("dev")
    for each in audit.bounds("dev"):
        assert each.specifier.contains(pins[each.name.lower()]), f"make lock: {each}"


def test_a_pin_without_a_hash_is_named(audit: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "requirements-dev.txt").write_text("numpy==2.4.0\n", "utf-8")
    monkeypatch.setattr(audit, "ROOT", tmp_path)
    with pytest.raises(ValueError, match=r"no pin with a hash: numpy==2\.4\.0"):
        audit.pins()


def test_what_is_installed_is_within_its_bounds_and_as_its_wheel_said(audit: ModuleType) -> None:
    assert [*audit.faults()] == []


def test_a_file_that_is_not_the_one_of_its_wheel_is_named(audit: ModuleType, tmp_path: Path) -> None:
    info = tmp_path / "a-1.dist-info"
    info.mkdir()
    (tmp_path / "a.py").write_text("", "utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: a\nVersion: 1\n", "utf-8")
    empty = "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"
    (info / "RECORD").write_text(f"a.py,sha256={empty},0\na-1.dist-info/RECORD,,\n", "utf-8")
    (package,) = distributions(name="a", path=[str(tmp_path)])
    assert [*audit.changed_files(package)] == []
    (tmp_path / "a.py").write_text("import os\n", "utf-8")
    assert [*audit.changed_files(package)] == ["a.py"]


def _forbidden(file: Path) -> set[str]:
    """What a file evaluates, unpickles, or imports to start or send something."""
    nodes, room = [*ast.walk(ast.parse(file.read_text("utf-8")))], file.relative_to(PACKAGE).parts[0]
    called = {ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)}
    imported = {alias.name.split(".")[0] for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module).split(".")[0] for node in nodes if isinstance(node, ast.ImportFrom)}
    return (called & (EXECUTING | LOADING)) | (set() if room in STARTS else imported & STARTING)


def test_nothing_is_evaluated_unpickled_or_sent() -> None:
    files = [*PACKAGE.rglob("*.py")]
    assert len(files) > 400
    assert not {str(file.relative_to(PACKAGE)): found for file in files if (found := _forbidden(file))}


def test_what_would_be_forbidden_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    text = "import pickle\nfrom socket import socket\nimport yaml\neval('1')\nyaml.load('')\n"
    for room, found in (("cost", {"pickle", "socket", "eval", "yaml.load"}), ("web", {"eval", "yaml.load"})):
        (tmp_path / room).mkdir()
        (tmp_path / room / "file.py").write_text(text, "utf-8")
        assert _forbidden(tmp_path / room / "file.py") == found
