"""Mutated launch files are read or refused with the line and the reason; nothing in them runs, nothing is written."""

from __future__ import annotations

import os
import random
import re
from pathlib import Path

import pytest

from launch_examples import FILES, SAID
from meshwright.errors import MeshwrightError
from meshwright.launch.imports.question import Given, question_of_file
from meshwright.layout.legality import faults

FILES_TRIED = int(os.environ.get("FILES_TRIED", "400"))
"""`make launch-files` tries 10,000."""
VALUES = (
    *(
        "0",
        "-1",
        "1e999",
        "nan",
        "9" * 5000,
        "''",
        "null",
        "true",
        "[]",
        "{}",
        "[[1, [2]], 3]",
        "\u00b2",
        "\u0663",
        "1_0",
    ),
    *("$(touch MARK)", "`touch MARK`", "${X:?}", "$((1 / 0))", "$((9**9**9))", "'; touch MARK; '", "../../etc/passwd"),
    *("__import__('os').system('touch MARK')", "!!python/object/apply:os.system ['touch MARK']", "Et*0|", "t" * 300),
)
ABSENT = ("which has no key for it", "nor in one that it names", "does not say how many GPUs", "global_batch: must be")
"""What refusals without a line tell: of what no line of such a file could say, or what follows of several."""
PIECES = (
    b'"',
    b"'",
    b"`",
    b"$(",
    b"${",
    b"((",
    b"}",
    b")",
    b"\n",
    b"\\",
    b"<<E\n",
    b"if ",
    b"&a *a",
    b"\t",
    b"\xff",
    b"\0",
)


def mutated(data: bytes, chance: random.Random) -> bytes:
    """A file with some bytes, words or lines of it changed."""
    for _ in range(chance.choice((1, 1, 2, 6))):
        kind = chance.randrange(6)
        if kind < 2:
            at = chance.randrange(len(data) + 1)
            data = data[:at] + chance.choice(PIECES) + data[at + chance.choice((0, 0, 1, 9)) :]
        elif kind == 2:
            words = [*re.finditer(rb"[^\s:=,(){}\[\]]+", data)] or [re.match(rb"", data)]
            word = chance.choice(words)
            assert word is not None
            data = data[: word.start()] + chance.choice(VALUES).encode() + data[word.end() :]
        else:
            lines = data.split(b"\n")
            at, other = chance.randrange(len(lines)), chance.randrange(len(lines))
            if kind == 3:
                del lines[at]
            elif kind == 4:
                lines.insert(at, lines[other])
            else:
                lines = lines[: max(at, 1)]
            data = b"\n".join(lines)
    return data


def tried(name: str, data: bytes, folder: Path) -> str:
    """Why a file is refused; empty where it is read, and its plan held against the rules."""
    path = folder / name
    path.write_bytes(data)
    partial = name in ("deepspeed.json", "accelerate.yaml", "bridge.py")
    said = SAID if name == "bridge.py" else {key: value for key, value in SAID.items() if key != "function"}
    given = Given(cluster="2x8:h100", model="llama-3.1-8b", values=said) if partial else Given(cluster="2x8:h100")
    try:
        question = question_of_file(path, given)
        faults(question.plan, question.inputs)
    except MeshwrightError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", FILES)
def test_every_file_is_read_as_it_is(name: str, tmp_path: Path) -> None:
    assert tried(name, FILES[name].encode(), tmp_path) == ""


@pytest.mark.parametrize("name", FILES)
def test_numbers_that_python_does_not_convert_are_refused_wherever_they_stand(name: str, tmp_path: Path) -> None:
    """Written by themselves, and by settings that others are held against."""
    data = FILES[name].encode()
    for number in re.finditer(rb"(?<![\w.])\d+(?![\w.])", data):
        tried(name, data[: number.start()] + b"9" * 5000 + data[number.end() :], tmp_path)


def test_mutated_files_are_read_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    chance, names = random.Random(23), [*FILES]
    refused = 0
    for _ in range(FILES_TRIED):
        name = chance.choice(names)
        why = tried(name, mutated(FILES[name].encode(), chance), tmp_path)
        refused += bool(why)
        assert "Traceback" not in why
        assert len(why) < 20_000
        assert not why or (name in why and ("line " in why or any(each in why for each in ABSENT))), why
    assert {file.name for file in tmp_path.iterdir()} <= set(names)
    assert FILES_TRIED // 4 < refused < FILES_TRIED


@pytest.mark.parametrize(
    ("name", "broken", "message"),
    [
        ("slurm.sh", ("# widths\n)", "# widths\n"), "'slurm.sh', line 6: a ( is never closed (read as shell)"),
        ("flags.yaml", ("--bf16: true", "--bf16: [true"), "'flags.yaml', line 15"),
        ("deepspeed.json", ('"enabled":', '"enabled"'), "'deepspeed.json', line 4"),
        ("titan.toml", ("flavor = ", "flavor "), "'titan.toml', line 4"),
        ("recipe.py", ("def pipelined():", "def pipelined(:"), "'recipe.py', line 12: invalid syntax (read as python)"),
    ],
)
def test_malformed_files_say_line_and_reason(
    name: str, broken: tuple[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert broken[0] in FILES[name]
    assert message in tried(name, FILES[name].replace(*broken).encode(), Path())
