"""Recipes: the sections `Add ...` of CONTRIBUTING.md, carried out from their text in a copy of the project.

What the page must hold to, so that its text can be executed:

- a block of TOML, Python or another language is a new file;
- a block of `diff` changes a file: the lines that begin with a space or a minus stand in it once, one after the other;
  a block of plus lines alone goes to its end;
- the file is the last path in backticks before the block in its step;
- a block without a language holds commands, which must succeed; what follows `  # ` stands in their output.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parent.parent
PAGE = PROJECT / "CONTRIBUTING.md"
COPIED = ("src", "tests", "pyproject.toml")
COMMANDS = {
    ".venv/bin/meshwright": [sys.executable, "-c", "from meshwright.cli import main; main()"],
    ".venv/bin/python": [sys.executable],
}
_BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_STEP = re.compile(r"^\d+\. ", re.MULTILINE)
_PATH = re.compile(r"`([\w.-]+(?:/[\w.-]+)+\.\w+)`")


@dataclass(frozen=True)
class Block:
    """One fenced block of a recipe."""

    language: str
    path: str
    """The file that it is for, from the root of the project; empty for commands."""
    text: str


def titles() -> list[str]:
    """Every recipe of the page, as its heading says it."""
    return re.findall(r"^## (Add .+)$", PAGE.read_text("utf-8"), re.MULTILINE)


def blocks_of(title: str) -> list[Block]:
    """The blocks of one recipe, in order; raises `AssertionError` for one whose step names no file."""
    section = PAGE.read_text("utf-8").partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    prose = _BLOCK.sub(lambda match: " " * len(match[0]), section)
    blocks = []
    for match in _BLOCK.finditer(section):
        indent, language, text = match.groups()
        step = [0, *(each.start() for each in _STEP.finditer(prose, 0, match.start()))][-1]
        paths = _PATH.findall(prose[step : match.start()])
        assert paths or not language, f"{title}: its step names no file for\n{text}"
        lines = [line.removeprefix(indent) for line in text.splitlines()]
        blocks.append(Block(language, paths[-1] if language else "", "\n".join(lines) + "\n"))
    return blocks


def copy_of_project(root: Path) -> Path:
    """A copy of what recipes touch, with compiled files, so that commands start at once; they compile no others."""
    for name in COPIED:
        source, target = PROJECT / name, root / name
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True)
        else:
            shutil.copy2(source, target)
    return root


def restore(root: Path) -> None:
    """Make a copy again what the project is, with the times that its compiled files know."""
    for path, data in files_of(root).items():
        source = PROJECT / path
        if not source.exists():
            (root / path).unlink()
        elif source.read_bytes() != data:
            shutil.copy2(source, root / path)


def write(block: Block, root: Path) -> None:
    """Carry out a block that creates or changes a file; raises `AssertionError` where the page no longer fits."""
    path = root / block.path
    if block.language != "diff":
        assert not path.exists(), f"{block.path} exists already"
        path.write_text(block.text, "utf-8")
        return
    assert path.is_file(), f"{block.path} does not exist"
    path.write_text(_changed(path.read_text("utf-8"), block), "utf-8")


def _changed(text: str, block: Block) -> str:
    lines = [line or " " for line in block.text.splitlines()]
    old, new = ("".join(f"{line[1:]}\n" for line in lines if line[0] in kept) for kept in (" -", " +"))
    if not old:
        return text + new
    assert text.count(old) == 1, f"{block.path} holds these lines {text.count(old)} times:\n{old}"
    return text.replace(old, new)


def run(block: Block, root: Path) -> None:
    """Run the commands of a block; raises `AssertionError` where one fails or its output lacks what the page says."""
    for line in block.text.splitlines():
        command, _, expected = line.partition("  # ")
        program, *arguments = shlex.split(command)
        done = subprocess.run(
            [*COMMANDS[program], *arguments], cwd=root, env=_environment(root), capture_output=True, text=True
        )
        output = done.stdout + done.stderr
        assert done.returncode == 0, f"{command}\n{output}"
        assert expected.strip() in output, f"{command}: {expected.strip()!r} is not in\n{output}"


def _environment(root: Path) -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))}
    return plain | {
        "PYTHONPATH": str(root / "src"),
        "PYTEST_ADDOPTS": "-o addopts= -q -x -p no:cacheprovider",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "COLUMNS": "200",
    }


def files_of(root: Path) -> dict[str, bytes]:
    """Every file but those that running tests leaves behind, by its path."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and not {"__pycache__", ".hypothesis"} & {*path.parts}
    }


def execute(blocks: list[Block], root: Path) -> set[str]:
    """Write and run what blocks say, in order; returns the paths of the files that changed."""
    before = files_of(root)
    for block in blocks:
        if block.language:
            write(block, root)
        else:
            run(block, root)
    after = files_of(root)
    return {path for path in before | after if before.get(path) != after.get(path)}
