"""Processes that train, forked from one which has imported torch and transformers: that takes longer than most steps.

They are those of `verify` in all else; tests/pytorch/test_verify_command.py starts them as users do, and for worlds of
several tests/pytorch/test_real.py.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver
from subprocess import DEVNULL
from threading import Lock
from typing import Any, BinaryIO
from unittest import mock

from meshwright.layout.plan import Plan
from meshwright.pytorch.fake_world import verify as planned
from meshwright.pytorch.processes import process
from meshwright.specs.inputs import Inputs

__all__ = ["DEVNULL", "Popen", "forked", "verify"]
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [f"meshwright.pytorch.trainer.{name}" for name in ("step", "real", "huggingface")] + ["peft"]
)
"""Those that are installed."""
ONE_AT_A_TIME = Lock()
"""Starting a process asks after all others, whose ends can be read once."""


class Popen:
    """What `process` needs of `subprocess.Popen`, for a command that ends with the files of question and answer."""

    def __init__(self, command: list[str], *, stdout: int, stderr: BinaryIO, env: dict[str, str]) -> None:
        assert command[:-2] == process.command()
        assert stdout == DEVNULL
        with ONE_AT_A_TIME:
            with mock.patch.dict(os.environ, env):
                forkserver.ensure_running()
            self._process = CONTEXT.Process(target=_train, args=(*command[-2:], stderr.name))
            self._process.start()

    def poll(self) -> int | None:
        """Its exit code, once it has ended."""
        with ONE_AT_A_TIME:
            return self._process.exitcode

    def kill(self) -> None:
        """End it, if it has not."""
        with ONE_AT_A_TIME:
            self._process.kill()

    def wait(self) -> None:
        """Until it has ended."""
        with ONE_AT_A_TIME:
            self._process.join()


def _train(question: str, answer: str, errors: str) -> None:
    from meshwright.pytorch.trainer import __main__ as trainer

    for stream, file in ((1, os.devnull), (2, errors)):
        os.dup2(os.open(file, os.O_WRONLY), stream)
    sys.argv = ["", question, answer]
    warnings.simplefilter("ignore")
    trainer.main()


@contextmanager
def forked() -> Iterator[None]:
    """Whatever starts processes that train forks them."""
    with mock.patch.object(process, "subprocess", sys.modules[__name__]):
        yield


def verify(plan: Plan, inputs: Inputs, **options: Any) -> planned.Verification:
    """What `verify` answers."""
    with forked():
        return planned.verify(plan, inputs, **options)
