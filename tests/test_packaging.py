"""Packages: the built wheel and the source distribution hold what a user needs, and answer once they are installed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import meshwright
from commands import asked

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "meshwright"


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
    assert "meshwright = meshwright.__main__:run" in scripts
    assert metadata.rstrip().endswith((ROOT / "README.md").read_text("utf-8").rstrip())


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("sdist"), "sdist")


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_the_built_file_is_installed_by_pip_and_answers(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Into an environment of its own, from the built file alone; its dependencies are those of the tests."""
    where, elsewhere = tmp_path / "environment", tmp_path / "elsewhere"
    elsewhere.mkdir()
    venv.create(where, symlinks=True)
    (packages,) = where.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(
        "\n".join(dict.fromkeys(map(sysconfig.get_path, ("purelib", "platlib"))))
    )
    python = where / "bin" / "python"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"COLUMNS": "80"}

    def printed(*command: str | Path) -> str:
        done = subprocess.run(command, cwd=elsewhere, env=environment, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    install = ("-m", "pip", "install", "--no-index", "--no-deps", "--no-build-isolation", "--force-reinstall")
    printed(python, *install, request.getfixturevalue(kind))
    meshwright_command = where / "bin" / "meshwright"
    assert printed(meshwright_command, "--version") == f"meshwright {meshwright.__version__}\n"
    found = printed(python, "-c", "import meshwright; print(meshwright.__file__)").strip()
    assert Path(found).is_relative_to(packages)
    assert "Best plan: " in printed(meshwright_command, "plan", "llama-3.1-8b", "1x8:h100")
    assert (Path(found).parent / "py.typed").is_file()
    printed(meshwright_command, "memo", "llama-3.1-8b", "1x8:h100", "--out", "memo.html")
    assert (elsewhere / "memo.html").stat().st_size > 10_000


def test_the_source_distribution_can_be_tested(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    for needed in ("pyproject.toml", "Makefile", "README.md", "LICENSE", "tests/conftest.py", "docs/index.md"):
        assert needed in held
    assert "src/meshwright/specs/catalog/models/llama-3.1-70b.toml" in held


def test_the_container_installs_what_the_page_needs_and_starts_it() -> None:
    """The steps of the Containerfile, without the tool that builds an image."""
    steps = [line.partition(" ") for line in (ROOT / "Containerfile").read_text("utf-8").splitlines()]
    said = {word: rest for word, _, rest in steps}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    version = re.fullmatch(r"python:(3\.\d+)-slim", said["FROM"])
    assert version
    assert f"Programming Language :: Python :: {version[1]}" in project["classifiers"]
    assert "'/source[web]'" in said["RUN"]
    assert any("fastapi" in each for each in project["optional-dependencies"]["web"])
    command, *words = json.loads(said["CMD"])
    assert command in project["scripts"]
    assert asked(*words, "--help").code == 0
    help_text = asked(words[0], "--help").out
    assert "0.0.0.0" in words
    assert said["EXPOSE"] in help_text
    left_out = (ROOT / ".dockerignore").read_text("utf-8").split()
    assert not {"src", "pyproject.toml", "README.md", "LICENSE"} & {*left_out}
