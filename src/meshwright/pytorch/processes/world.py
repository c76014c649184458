"""World: a few processes that train together on this machine, and what becomes of all when one of them fails."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from meshwright.errors import CannotVerify
from meshwright.pytorch.processes.process import THREADS, command, reason

LOOPBACK = ("lo", "lo0")
"""What the interface is called on Linux and on macOS; others look the machine's own name up."""
PAUSE_S = 0.02
ERROR = re.compile(r"^(\[rank\d+\]: )?[\w.]*(Error|Exception|CannotVerify|NotModelled|InvalidSpec)\b")


def answers_of(questions: Sequence[Mapping[str, Any]], folder: Path, timeout_s: float) -> list[list[dict[str, Any]]]:
    """What as many processes answer, all running at once.

    folder: an empty one, for what they read and write; timeout_s: seconds after which all are killed. Raises
    `CannotVerify` with the reason of the first one that fails, when the others are killed, or that they hang.
    """
    with ExitStack() as stack:
        running = [_started(question, folder / str(index), stack) for index, question in enumerate(questions)]
        try:
            _wait(running, folder, timeout_s)
        finally:
            for process in running:
                process.kill()
                process.wait()
    return [json.loads(_out(folder / str(index)).read_text().splitlines()[-1]) for index in range(len(questions))]


def _started(question: Mapping[str, Any], place: Path, stack: ExitStack) -> subprocess.Popen[bytes]:
    place.with_suffix(".json").write_text(json.dumps(question))
    asked = stack.enter_context(place.with_suffix(".json").open("rb"))
    out, errors = (stack.enter_context(path.open("wb")) for path in (_out(place), _errors(place)))
    environment = _loopback() | os.environ | THREADS
    return subprocess.Popen(command("real"), stdin=asked, stdout=out, stderr=errors, env=environment)


def _out(place: Path) -> Path:
    return place.with_suffix(".out")


def _errors(place: Path) -> Path:
    return place.with_suffix(".err")


def _loopback() -> dict[str, str]:
    """The processes talk over the loopback interface, whatever the machine calls itself."""
    present = [name for _, name in socket.if_nameindex() if name in LOOPBACK]
    return {"GLOO_SOCKET_IFNAME": present[0]} if present else {}


def _wait(running: Sequence[subprocess.Popen[bytes]], folder: Path, timeout_s: float) -> None:
    """Until all have ended well; raises `CannotVerify` for the first that has not, or when the time is over."""
    ends = time.monotonic() + timeout_s
    while True:
        codes = [process.poll() for process in running]
        for index, code in enumerate(codes):
            if code:
                raise CannotVerify(_why(code, _errors(folder / str(index)).read_text(errors="replace")))
        if None not in codes:
            return
        if time.monotonic() > ends:
            late = codes.count(None)
            raise CannotVerify(
                f"{late} of {len(running)} processes that train did not end within {timeout_s:g} s, and were killed; "
                "they wait for each other, or the machine is busy"
            )
        time.sleep(PAUSE_S)


def _why(code: int, errors: str) -> str:
    """The reason that a process gave up, without what torch says on its way out."""
    told = [line for line in errors.splitlines() if ERROR.match(line)][-1:] or errors.splitlines()
    refused = told[-1].partition("CannotVerify: ")[2] if told else ""
    return refused or reason(subprocess.CompletedProcess([], code, "", "\n".join(told)))
