"""Options that change a launch file change what its framework checks of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_file_rules import BRIDGE, SCRIPT

from commands import asked

CLUSTER = ("--cluster", "8x8:h100")
SHORT = SCRIPT.replace("beddings 8192", "beddings 4096")
LEARNED = BRIDGE.replace('"rope"', '"learned_absolute"')
UNEQUAL = BRIDGE.replace("dataset.seq_length = 8192", "dataset.seq_length = 4096")


def broken(folder: Path, name: str, text: str, *options: str, command: str = "check") -> list[dict[str, Any]]:
    path = folder / name
    path.write_text(text)
    told = asked(command, "--from", str(path), *CLUSTER, *options, "--json")
    entry: list[dict[str, Any]] = told.document["launch_file"]["broken"]
    return entry


@pytest.mark.parametrize(
    ("name", "text", "options", "rules"),
    [
        ("a.sh", SHORT, (), ["positions"]),
        ("a.sh", SHORT, ("--seq-len", "4096"), []),
        ("a.sh", SCRIPT, (), []),
        ("a.sh", SCRIPT, ("--seq-len", "16384"), ["positions"]),
        ("a.sh", SCRIPT, ("--seq-len", "4096"), []),
        ("b.py", UNEQUAL, (), ["sequence_lengths"]),
        ("b.py", UNEQUAL, ("--seq-len", "4096"), []),
        ("b.py", UNEQUAL, ("--tp", "4"), ["sequence_lengths"]),
    ],
)
def test_rules_are_held_against_the_file_with_the_options(
    tmp_path: Path, name: str, text: str, options: tuple[str, ...], rules: list[str]
) -> None:
    assert [each["rule"] for each in broken(tmp_path, name, text, *options)] == rules


def test_a_broken_rule_says_the_length_that_is_asked_for(tmp_path: Path) -> None:
    (told,) = broken(tmp_path, "a.sh", SCRIPT, "--seq-len", "16384", command="explain")
    assert "--max-position-embeddings 8192, --seq-length 16384" in told["reason"]
    assert "nearest: --max-position-embeddings 16384" in told["reason"]


@pytest.mark.parametrize("length", [4096, 16384])
def test_learned_positions_that_a_recipe_leaves_to_megatron_bridge_follow_the_length(
    tmp_path: Path, length: int
) -> None:
    path = tmp_path / "b.py"
    path.write_text(LEARNED)
    told = asked("explain", "--from", str(path), *CLUSTER, "--seq-len", str(length), "--json")
    question = told.document["inputs"]
    assert question["model"]["learned_positions"] == question["job"]["sequence_length"] == length
