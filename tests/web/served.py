"""A server of the page for tests, as a user starts it."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import IO, NamedTuple
from urllib.parse import urlencode

LLAMA_70B = {"model": "llama-3.1-70b", "cluster": "8x8:h100", "seq_len": "8192", "global_batch": "256"}
SMALL = {"model": "llama-3.1-8b", "cluster": "1x8:h100", "seq_len": "8192", "global_batch": "64"}
TINY = {"model": "gpt2", "cluster": "1x8:h100", "seq_len": "1024", "global_batch": "64"}
MIDDLE = {"model": "deepseek-v3", "cluster": "64x8:h100", "seq_len": "1024", "global_batch": "1024"}
"""Four chunks of plans, so that there is progress."""
LARGE = {"model": "deepseek-v3", "cluster": "256x8:h100", "seq_len": "4096", "global_batch": "15360"}
"""Takes seconds."""
UNFIT = {"model": "llama-3.1-70b", "cluster": "1x8:h100", "seq_len": "8192", "global_batch": "64"}
PATIENCE_S = 300
PATIENT = ("--time-limit", f"{PATIENCE_S}")


def link(question: dict[str, str]) -> str:
    return f"/plan?{urlencode(question)}"


class Served(NamedTuple):
    """A server that runs."""

    port: int
    pid: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def open(self, path: str, method: str = "GET", body: str = "", **headers: str) -> HTTPResponse:
        """The answer, of which nothing but the head has been read; the connection ends with it."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        names = {name.replace("_", "-"): value for name, value in headers.items()} | {"Connection": "close"}
        connection.request(method, path, body or None, names)
        return connection.getresponse()

    def get(self, path: str, **headers: str) -> tuple[int, str]:
        """Status and text."""
        with self.open(path, **headers) as answer:
            return answer.status, answer.read().decode()

    def post(self, fields: dict[str, str] | str) -> tuple[int, str, str]:
        """Status, text and where the form leads."""
        with self.open("/ask", "POST", fields if isinstance(fields, str) else urlencode(fields)) as answer:
            return answer.status, answer.read().decode(), answer.headers.get("Location", "")

    def searches(self) -> list[int]:
        """The processes of searches that run now: children of the process that all of them begin as."""
        (fork_server,) = [pid for pid in children(self.pid) if "forkserver" in command(pid)]
        return children(fork_server)


def children(pid: int) -> list[int]:
    """Processes that a process started."""
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            after_name = file.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if after_name[0] != "Z" and int(after_name[1]) == pid:
            found.append(int(file.parent.name))
    return found


def command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


def until(condition: object, what: str) -> None:
    """Wait until a condition holds; it is asked again and again."""
    end = time.monotonic() + PATIENCE_S
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, what
        time.sleep(0.02)


@contextmanager
def server(*options: str, errors: IO[bytes] | None = None) -> Iterator[Served]:
    """A server on a free port until the block ends, which waits long for a search where the options say nothing.

    errors: a file for what it says of them; None: standard error.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    whole = [sys.executable, "-m", "meshwright.cli", "serve", "--port", f"{port}", *PATIENT, *options]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
    try:
        assert process.stdout is not None
        assert re.search(rf"http://127.0.0.1:{port}/ ", process.stdout.readline())
        served = Served(port, process.pid)
        until(lambda: process.poll() is not None or _answers(served), "the server answers")
        yield served
    finally:
        process.terminate()
        process.wait(PATIENCE_S)
        process.stdout.close()


def _answers(served: Served) -> bool:
    try:
        return served.get("/")[0] == 200
    except OSError:
        return False
