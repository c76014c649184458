"""Process: trains in a process of its own, since failures of torch can be aborts, and says what went wrong there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata

from meshwright.errors import CannotVerify
from meshwright.pytorch.processes.observed import Observed
from meshwright.pytorch.processes.request import Request

TORCH = "2.13"
INSTALL = "pip install 'meshwright[torch]'"
THREADS = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def require_torch() -> None:
    """Raise `CannotVerify` with what to install unless the torch that the checks were made with is there."""
    try:
        found = metadata.version("torch")
    except metadata.PackageNotFoundError:
        raise CannotVerify(f"verify runs the plan on PyTorch, and torch is not installed: {INSTALL}") from None
    if found.split("+")[0].rpartition(".")[0] != TORCH:
        raise CannotVerify(f"verify was made with torch {TORCH}, and torch {found} is installed: {INSTALL}")


def observe_ranks(requests: Iterable[Sequence[Request]]) -> list[list[Observed]]:
    """What each rank was seen to do; every entry holds the requests of one rank, which one process answers.

    As many processes as there are cores run at once. Raises `CannotVerify` with the reason that a process left.
    """
    require_torch()
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as threads:
        return [*threads.map(_observe, requests)]


def _observe(requests: Sequence[Request]) -> list[Observed]:
    answer = run_trainer("fake", [request.to_json() for request in requests])
    return [Observed.from_json(seen) for seen in answer]


def run_trainer(kind: str, question: object) -> list[dict[str, object]]:
    """The JSON that one process of the trainer answers; raises `CannotVerify` where it fails or is killed."""
    done = subprocess.run(
        command(kind), input=json.dumps(question), capture_output=True, text=True, env=os.environ | THREADS, check=False
    )
    if done.returncode:
        raise CannotVerify(reason(done))
    answer: list[dict[str, object]] = json.loads(done.stdout.splitlines()[-1])
    return answer


def command(kind: str) -> list[str]:
    """What starts a process that trains; kind: `fake` or `real`."""
    return [sys.executable, "-W", "ignore", "-m", "meshwright.pytorch.trainer", kind]


def reason(done: subprocess.CompletedProcess[str]) -> str:
    """Why a process failed: killed for memory, aborted by torch, or the last line that it wrote."""
    if done.returncode == -signal.SIGKILL:
        return "the process that trains was killed, most likely for want of memory: verify fewer layers, or free memory"
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    last = lines[-1].strip() if lines else "it wrote nothing"
    how = f"was ended by signal {-done.returncode}" if done.returncode < 0 else "failed"
    return f"PyTorch could not run this plan; the process that trains {how}: {last}"
