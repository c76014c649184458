"""The release that launch files are for is told where rules and prices were read in another version."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands import asked
from meshwright.answers.launch.release import own_release_lines
from meshwright.specs.runtime import read_runtime

WORDS = ("llama-3.1-8b", "1x8:h100", "--runtime", "torchtitan", "--tp", "2", "--zero", "3")
TOLD = (
    "Install torchtitan 0.3.0 to run launch files; rules and prices were read in torchtitan b5bcd76c66d0 (2026-08-21)"
)


@pytest.mark.parametrize(
    ("runtime", "release"),
    [
        ("torchtitan", "torchtitan 0.3.0"),
        ("megatron-core", "megatron-core 0.19.2"),
        ("llm-foundry", "llm-foundry 8c8dd48f7216 (0.23)"),
        ("nanotron", ""),
        ("torchtitan@0.1.0", ""),
        ("pytorch-ddp", ""),
    ],
)
def test_what_is_to_be_installed_is_told_where_the_runtime_is_of_another_version(runtime: str, release: str) -> None:
    """nanotron's files are of the commit that was read; the others have none of their own."""
    lines = own_release_lines(read_runtime(runtime))
    assert [line.partition(" to run ")[0] for line in lines] == ([f"Install {release}"] if release else [])


def test_check_and_launch_say_it(tmp_path: Path) -> None:
    assert TOLD in " ".join(asked("check", *WORDS).out.split())
    launched = asked("launch", *WORDS, "--out", str(tmp_path / "run"))
    assert TOLD in " ".join((launched.out + launched.err).split())
    script = (tmp_path / "run" / "train.sh").read_text("utf-8")
    assert TOLD in " ".join(script.replace("#", " ").split())
