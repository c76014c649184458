"""What the screen says of a launch file: how many settings it has, and how many of them do not matter."""

from __future__ import annotations

from pathlib import Path

import pytest

from launch_examples import BATCH, MODEL
from meshwright.answers.document.blocks import Lines
from meshwright.answers.launch.existing import launch_file_screen
from meshwright.launch.imports.question import Given, question_of_file


@pytest.mark.parametrize(
    ("idle", "said"),
    [
        ("", "settings for t.py"),
        ("--log-interval 1", "settings for t.py, of which 1 changes neither memory nor time"),
        ("--log-interval 1 --seed 1", "settings for t.py, of which 2 change neither memory nor time"),
    ],
)
def test_settings_that_do_not_matter_are_counted_where_there_are_some(idle: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "a.sh"
    path.write_text(f"torchrun t.py {MODEL} {BATCH} {idle}")
    head = launch_file_screen(question_of_file(path, Given(cluster="2x8:h100")))[0]
    assert isinstance(head, Lines)
    assert str(head.lines[-1]).endswith(said)
