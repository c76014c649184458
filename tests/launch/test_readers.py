"""Launch files of every form become flat settings with lines; malformed ones say where and why."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pytest

from meshwright.errors import InvalidInput
from meshwright.launch.readers.read import read_launch_file

EXAMPLES = {
    "a.json": '{\n\t"train_batch_size": 64,\n\t"zero_optimization": {"stage": 3, "bucket": 5e8},\n\t"x": "auto"\n}\n',
    "a.yaml": "model:\n  n_layers: 48  # deep\n  lr: 1e-4\n  seq: ${len}\nlen: 2_048\nname: 'true'\non: on\n",
    "a.toml": '[parallelism]\ndegree = 8 # eight\nnames = ["a", "b"]\n[quantize.linear]\nx = true\n',
    "a.py": "L = 2\nN = 2 * L\nmodel = dict(layers=N, x=f())\ndef f():\n    c.model.tp = 8\n    return C(p=P(pp=-1))\n",
    "a.sh": 'A=(--tp 8 "--pp 2")\nif [ "$X" = 1 ]; then A+=(--cp 2); fi\ntorchrun t.py ${A[@]} --x $((2**3))\n',
}


def values(folder: Path, name: str) -> dict[str, object]:
    path = folder / name
    path.write_text(EXAMPLES[name])
    return {each.key: (each.value, each.line) for each in read_launch_file(path).settings}


def test_json(tmp_path: Path) -> None:
    assert values(tmp_path, "a.json") == {
        "train_batch_size": (64, 2),
        "zero_optimization.stage": (3, 3),
        "zero_optimization.bucket": (5e8, 3),
        "x": ("auto", 4),
    }


def test_yaml_takes_numbers_and_words_as_frameworks_do(tmp_path: Path) -> None:
    assert values(tmp_path, "a.yaml") == {
        "model.n_layers": (48, 2),
        "model.lr": (1e-4, 3),
        "model.seq": (2048, 4),
        "len": (2048, 5),
        "name": ("true", 6),
        "on": ("on", 7),
    }


def test_toml(tmp_path: Path) -> None:
    assert values(tmp_path, "a.toml") == {
        "parallelism.degree": (8, 2),
        "parallelism.names": (["a", "b"], 3),
        "quantize.linear.x": (True, 5),
    }


def test_python_is_parsed_and_never_run(tmp_path: Path) -> None:
    found = values(tmp_path, "a.py")
    assert found["model.layers"] == (4, 3)
    assert found["model.tp"] == (8, 5)
    assert found["p.pp"] == (-1, 6)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", '{\n "a": 1,\n "b": [1, 2\n}\n', "line 4"),
        ("a.yaml", "a: 1\nb: {c: 2\nd: 3\n", "line 3"),
        ("a.yaml", "- 1\n- 2\n", "no settings"),
        ("a.toml", "[a]\nb = \n", "line 2"),
        ("a.py", "a = 1\nb = (2\n", "line 2"),
        ("a.py", "x = " + "(" * 500 + "1" + ")" * 500, "line 1"),
        ("a.json", '{"a":' * 300 + "1" + "}" * 300, "levels"),
        ("a.yaml", "a: 1\nb: \0", "line 2: it holds what is no text"),
        ("a.sh", "x" * 1_000_001, "larger than"),
    ],
)
def test_malformed_files_say_where_and_why(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InvalidInput) as raised:
        read_launch_file(path)
    assert message in str(raised.value)


PIECES = [
    '"',
    "'",
    "`",
    "$(",
    "${",
    "((",
    "}",
    ")",
    "\n",
    "\\",
    "<<E\n",
    "if ",
    "[[",
    "&a *a",
    "!!python/x []\n",
    "\t",
    "é",
]


def test_mutated_files_are_read_or_refused(tmp_path: Path) -> None:
    chance = random.Random(23)
    for _ in range(400):
        name, text = chance.choice(list(EXAMPLES.items()))
        for _ in range(chance.choice((1, 2, 8))):
            at = chance.randrange(len(text) + 1)
            text = text[:at] + chance.choice(PIECES) + text[at + chance.choice((0, 0, 7)) :]
        path = tmp_path / name
        path.write_text(text)
        with contextlib.suppress(InvalidInput):
            read_launch_file(path)
