"""The door of the command line: nothing that was typed commands the terminal, and no error comes bare."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from unittest import mock

import pytest
from pydantic_core import SchemaError

from commands import LLAMA, asked, question
from meshwright.cli.guard import UNFORESEEN, run

HOSTILE = "a\x1b[2J\x9b31m\x07\u202eb\x7f"
SHOWN = r"a\x1b[2J\x9b31m\x07\u202eb\x7f"
CONTROLS = set(map(chr, (*range(10), *range(11, 32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A))))


def _controls(text: str) -> set[str]:
    return CONTROLS & set(text)


@pytest.mark.parametrize(
    "arguments",
    [
        (HOSTILE,),
        (f"--{HOSTILE}",),
        ("plan", f"--{HOSTILE}"),
        question(seq_len=HOSTILE),
        question(model=HOSTILE),
        question(cluster=HOSTILE),
        question(runtime=HOSTILE),
        ("plan", *question(**{"with": HOSTILE})),
        ("explain", *LLAMA, "--plan-file", HOSTILE),
        ("catalog", HOSTILE),
        ("check", HOSTILE),
        ("launch", HOSTILE),
        ("runs", HOSTILE),
    ],
    ids=str,
)
def test_an_error_shows_control_characters_as_escapes(arguments: tuple[str, ...]) -> None:
    answer = asked(*arguments) if arguments[0] != "--model" else asked("plan", *arguments)
    assert answer.code == 2
    assert not _controls(answer.out + answer.err)


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_an_answer_shows_those_of_a_file_as_escapes(options: tuple[str, ...], tmp_path: Path) -> None:
    architecture = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes = {"intermediate_size": 128, "vocab_size": 256, "_name_or_path": HOSTILE, "max_position_embeddings": 64}
    path = tmp_path / f"{HOSTILE}.json"
    path.write_text(json.dumps(architecture | sizes), "utf-8")
    answer = asked("model", str(path), *options)
    assert answer.code == 0
    assert not _controls(answer.out + answer.err)
    assert options or SHOWN in answer.out.replace("\n", "")


def test_what_nobody_foresaw_asks_for_a_report_with_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    typed = ["meshwright", "model", "llama-3.1-8b", f"--out={HOSTILE}"]
    broken = mock.patch("meshwright.cli.guard.main", side_effect=ZeroDivisionError("division by zero"))
    with broken, mock.patch.object(sys, "argv", typed), pytest.raises(SystemExit) as end:
        run()
    told = capsys.readouterr().err
    assert end.value.code == UNFORESEEN
    assert "ZeroDivisionError" in told
    assert "meshwright model llama-3.1-8b" in told
    assert "Traceback" not in told
    assert not _controls(told)


def test_an_interrupt_while_a_class_is_made_is_an_interrupt() -> None:
    """Python wraps it in an error of its own, pydantic tells it in the words of one."""
    of_python = RuntimeError("error calling __set_name__")
    of_python.__cause__ = KeyboardInterrupt()
    of_pydantic = SchemaError('Error building "literal" validator:\nKeyboardInterrupt: ')
    for error in (of_python, of_pydantic):
        with mock.patch("meshwright.cli.guard.main", side_effect=error), pytest.raises(KeyboardInterrupt):
            run()
