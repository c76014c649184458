"""Packages: the built wheel and the source distribution hold what a user needs, and the wheel runs as it is."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import meshwright

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "meshwright"
STARTS = "from meshwright.cli.guard import run; run()"


def built(folder: Path, target: str) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder), "-t", target]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (file,) = folder.glob("*.whl" if target == "wheel" else "*.tar.gz")
    return file


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("wheel"), "wheel")


def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    here = {
        str(file.relative_to(PACKAGE.parent))
        for file in PACKAGE.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if not name.startswith("meshwright-")}
    assert held == here
    assert "meshwright/py.typed" in held


def test_the_wheel_is_the_same_bytes_when_it_is_built_again(wheel: Path, tmp_path: Path) -> None:
    assert built(tmp_path, "wheel").read_bytes() == wheel.read_bytes()


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        name = f"meshwright-{meshwright.__version__}.dist-info"
        metadata = archive.read(f"{name}/METADATA").decode()
        scripts = archive.read(f"{name}/entry_points.txt").decode()
        assert f"{name}/licenses/LICENSE" in archive.namelist()
    assert "License-Expression: Apache-2.0" in metadata
    assert "Typing :: Typed" in metadata
    assert "meshwright = meshwright.cli.guard:run" in scripts
    assert metadata.rstrip().endswith((ROOT / "README.md").read_text("utf-8").rstrip())


def test_the_wheel_runs_without_the_project(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "installed"), "COLUMNS": "80"}

    def printed(*words: str) -> str:
        command = [sys.executable, "-c", STARTS, *words]
        return subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True).stdout

    where = "import meshwright; print(meshwright.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", where], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
    )
    assert str(tmp_path) in found.stdout
    assert printed("--version") == f"meshwright {meshwright.__version__}\n"
    assert "Best plan: " in printed("plan", "llama-3.1-8b", "1x8:h100")
    printed("memo", "llama-3.1-8b", "1x8:h100", "--out", "memo.html")
    assert (tmp_path / "memo.html").stat().st_size > 10_000


def test_the_source_distribution_can_be_tested(tmp_path: Path) -> None:
    with tarfile.open(built(tmp_path, "sdist")) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    for needed in ("pyproject.toml", "Makefile", "README.md", "LICENSE", "tests/conftest.py", "docs/index.md"):
        assert needed in held
    assert "src/meshwright/specs/catalog/models/llama-3.1-70b.toml" in held
