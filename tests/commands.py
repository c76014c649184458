"""Running the command inside the test process: its exit code and what it prints."""

from __future__ import annotations

import contextlib
import io
import json
import math
import re
import signal
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

from meshwright.cli import main

HANG_S = 150
"""Seconds of processor time, ten times what the slowest question of the tests takes: more is a hang, and however busy
the machine is, it is no less."""
LLAMA = ("--model", "llama-3.1-8b", "--cluster", "1x8:h100", "--seq-len", "8192", "--global-batch", "64")
"""A question that is answered in milliseconds."""


@dataclass(frozen=True)
class Answer:
    """What a run left behind."""

    code: int | str | None
    """The exit code; `traceback` when an exception escaped."""
    out: str
    err: str

    @property
    def message(self) -> str:
        """Standard error as running text: without colour, boxes and line ends."""
        plain = re.sub(r"\x1b\[[0-9;]*m", "", self.err)
        return " ".join(re.sub(r"[─-╿]", " ", plain).split())

    @property
    def document(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.out)


def asked(*arguments: str) -> Answer:
    """Run `meshwright` with these arguments, 80 columns wide and without colour; how long it will take, which slow
    machines are told, is left out.
    """
    out, err = io.StringIO(), io.StringIO()
    width = mock.patch.dict("os.environ", {"COLUMNS": "80", "NO_COLOR": "1"})
    typed = mock.patch.object(sys, "argv", ["meshwright", *arguments])
    patient = mock.patch("meshwright.answers.progress.progress.LONG_S", math.inf)
    streams = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
    with width, typed, patient, hangs_after(HANG_S), streams[0], streams[1]:
        code = _exit_code()
    return Answer(code, out.getvalue(), err.getvalue())


def question(**changes: str | None) -> list[str]:
    """The options of `LLAMA`, with some changed (`global_batch="7"`), added, or left out (None)."""
    options = dict(zip((name[2:].replace("-", "_") for name in LLAMA[::2]), LLAMA[1::2], strict=True)) | changes
    return [
        text for name, value in options.items() if value is not None for text in (f"--{name.replace('_', '-')}", value)
    ]


def refused(answer: Answer, code: int = 2) -> str:
    """The message of an answer that refuses: in one piece, with nothing else."""
    assert (answer.code, answer.out) == (code, ""), answer.err[-400:]
    assert "Traceback" not in answer.err
    assert answer.err.endswith("\n")
    assert answer.err.startswith("meshwright: ") or "Error" in answer.err
    assert answer.err.count("meshwright: ") <= 1
    return answer.message


def _exit_code() -> int | str | None:
    try:
        main()
    except SystemExit as end:
        return end.code
    except Exception:
        traceback.print_exc()
        return "traceback"
    return 0


class Hang(BaseException):
    """A question took ten times as long as any should; no `except Exception` of the command may take it for its own."""


@contextlib.contextmanager
def hangs_after(seconds: float) -> Iterator[None]:
    """Raise `Hang` once this much processor time has passed."""

    def give_up(*_: Any) -> None:
        raise Hang(f"it hangs: no answer within {seconds:g} s of processor time")

    before = signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
