"""Process: trains in processes of their own, since failures of torch can be aborts, and says what went wrong there."""

from __future__ import annotations

import math
import os
import pickle
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from importlib import metadata
from pathlib import Path
from typing import Any

from meshwright.errors import NO_ANSWER, CannotVerify, Stopped
from meshwright.pytorch.processes.records import Observed, Request

TORCH = "2.13"
INSTALL = "pip install 'meshwright[torch]'"
THREADS = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
LOOPBACK = ("lo", "lo0")
"""What the interface is called on Linux and on macOS; others look the machine's own name up."""
PAUSE_S = 0.02
ERROR = re.compile(r"^(\[rank\d+\]: )?[\w.]*(Error|Exception|CannotVerify|NotModelled|InvalidSpec)\b")


def require_torch() -> None:
    """Raise `CannotVerify` with what to install unless the torch that the checks were made with is there."""
    try:
        installed = metadata.version("torch")
    except metadata.PackageNotFoundError:
        raise CannotVerify(f"verify runs the plan on PyTorch, and torch is not installed: {INSTALL}") from None
    if installed.split("+")[0].rpartition(".")[0] != TORCH:
        raise CannotVerify(f"verify was made with torch {TORCH}, and torch {installed} is installed: {INSTALL}")


def observe_ranks(
    requests: Sequence[Sequence[Request]], progress: Callable[[int, int], None] | None = None
) -> list[list[Observed]]:
    """What each rank was seen to do; every entry holds the requests of one rank, which one process answers.

    As many processes as there are cores run at once. progress: called at the start and after each rank with how many
    are done, and how many there are. Raises `CannotVerify` with the reason that a process left; whatever is raised,
    by progress too, the other processes are killed.
    """
    require_torch()
    end = threading.Event()
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as threads:
        running = [threads.submit(_observe, each, end) for each in requests]
        try:
            if progress:
                progress(0, len(running))
                for done, _ in enumerate(as_completed(running), start=1):
                    progress(done, len(running))
            return [each.result() for each in running]
        finally:
            end.set()
            threads.shutdown(cancel_futures=True)


def _observe(requests: Sequence[Request], end: threading.Event) -> list[Observed]:
    with tempfile.TemporaryDirectory(prefix="meshwright-") as folder:
        observed: list[Observed] = answers_of([requests], Path(folder), end=end)[0]
    return observed


def answers_of(
    questions: Sequence[object], folder: Path, timeout_s: float = math.inf, end: threading.Event | None = None
) -> list[Any]:
    """What as many processes of the trainer answer, all running at once.

    questions: what `trainer/__main__.py` takes; folder: an empty one, for what they read and write; timeout_s: seconds
    after which all are killed; end: where it is set, they are killed before. Raises `CannotVerify` with the reason of
    the first one that fails, when the others are killed, or that they hang, `Stopped` where they should end.
    """
    with ExitStack() as stack:
        running = [_started(question, folder / str(index), stack) for index, question in enumerate(questions)]
        try:
            _wait(running, folder, timeout_s, end or threading.Event())
        finally:
            for process in running:
                process.kill()
                process.wait()
    return [pickle.loads((folder / f"{index}.answer").read_bytes()) for index in range(len(questions))]


def _started(question: object, place: Path, stack: ExitStack) -> subprocess.Popen[bytes]:
    asked, answer = place.with_suffix(".question"), place.with_suffix(".answer")
    asked.write_bytes(pickle.dumps(question))
    errors = stack.enter_context(place.with_suffix(".errors").open("wb"))
    environment = _loopback() | os.environ | THREADS
    return subprocess.Popen(
        [*command(), str(asked), str(answer)], stdout=subprocess.DEVNULL, stderr=errors, env=environment
    )


def command() -> list[str]:
    """What starts a process that trains, before the files of its question and of its answer."""
    return [sys.executable, "-W", "ignore", "-m", "meshwright.pytorch.trainer"]


def _loopback() -> dict[str, str]:
    """The processes talk over the loopback interface, whatever the machine calls itself."""
    present = [name for _, name in socket.if_nameindex() if name in LOOPBACK]
    return {"GLOO_SOCKET_IFNAME": present[0]} if present else {}


def _wait(running: Sequence[subprocess.Popen[bytes]], folder: Path, timeout_s: float, end: threading.Event) -> None:
    """Until all have ended well; raises as `answers_of` does."""
    ends = time.monotonic() + timeout_s
    while True:
        codes = [process.poll() for process in running]
        for index, code in enumerate(codes):
            if code:
                raise CannotVerify(_reason(code, (folder / f"{index}.errors").read_text(errors="replace")))
        if None not in codes:
            return
        if time.monotonic() > ends:
            late = codes.count(None)
            raise CannotVerify(
                f"{late} of {len(running)} processes that train did not end within {timeout_s:g} s, and were killed; "
                "they wait for each other, or the machine is busy"
            )
        if end.wait(PAUSE_S):
            raise Stopped(NO_ANSWER)


def _reason(code: int, errors: str) -> str:
    """Why a process failed: killed for memory, aborted by torch, or the last error that it wrote."""
    if code == -signal.SIGKILL:
        return "the process that trains was killed, most likely for want of memory: verify fewer layers, or free memory"
    lines = [line.strip() for line in errors.splitlines() if line.strip()] or ["it wrote nothing"]
    last = next((line for line in reversed(lines) if ERROR.match(line)), lines[-1])
    how = f"was ended by signal {-code}" if code < 0 else "failed"
    refusal = last.partition("CannotVerify: ")[2]
    return refusal or f"PyTorch could not run this plan; the process that trains {how}: {last}"
