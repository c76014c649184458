"""Executors: what runs the parts of a question: this process, several processes, or a Dask cluster."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import connection, parent_process
from multiprocessing.synchronize import Event
from typing import Any, ParamSpec, TypeVar

from meshwright.errors import InvalidInput, quoted
from meshwright.search.stop import StopSearch

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
LOCAL = "local"
"""In place of the address of a Dask scheduler: one with workers on this machine."""
MOST_WORKERS = 1024
"""Processes; no machine has a use for more."""
CONNECT_S = 30
"""Seconds in which a Dask scheduler must answer."""


class InProcess(Executor):
    """Runs what it is given at once, in the process that gives it."""

    def submit(
        self, fn: Callable[Arguments, Result], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Future[Result]:
        """The finished call of a function."""
        future: Future[Result] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class Processes(ProcessPoolExecutor):
    """Processes of this machine, whose searches end with the best so far once `stop` is set."""

    def __init__(self, workers: int) -> None:
        self.stop = multiprocessing.Event()
        super().__init__(workers, initializer=prepare_worker, initargs=(self.stop,))


@contextmanager
def executor_of(workers: int | None = None, dask: str | None = None) -> Iterator[Executor]:
    """An executor that ends with the block.

    workers: processes, a count; None: as many as this process has cores, 1: this process itself; dask: the address of
    a Dask scheduler, or `local` for one on this machine with as many workers. Raises `InvalidInput` where Dask is not
    installed or no scheduler answers.
    """
    if workers is not None and not 1 <= workers <= MOST_WORKERS:
        raise InvalidInput(f"workers is {quoted(workers)}; it must be from 1 to {MOST_WORKERS}")
    count = workers or cores()
    if dask is not None:
        with _dask_executor(dask, count) as executor:
            yield executor
    elif count == 1:
        yield InProcess()
    else:
        with _processes(count) as executor:
            yield executor


def lost_worker(error: BaseException) -> bool:
    """Whether an error tells that a worker ended in the middle of its work."""
    return isinstance(error, BrokenExecutor) or type(error).__name__ == "KilledWorker"


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _processes(workers: int) -> Iterator[Executor]:
    """Newer Pythons warn that forking beside threads may deadlock; the workers only do arithmetic and take no lock."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*fork.*", category=DeprecationWarning)
        with Processes(workers) as pool:
            try:
                yield pool
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def prepare_worker(stop: Event | None = None) -> None:
    """End with the process that started this one, however that ends, and leave interrupts to it.

    stop: set where the searches of this process should end; None: never.
    """
    global _stop
    _stop = stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


_stop: Event | None = None


def stopped_by_parent(_done: int, _total: int) -> None:
    """The progress of a search in a worker: raises `StopSearch` where the process that asked for it wants it to end."""
    if _stop is not None and _stop.is_set():
        raise StopSearch


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


@contextmanager
def _dask_executor(address: str, workers: int) -> Iterator[Executor]:
    try:
        from distributed import Client
    except ImportError:
        raise InvalidInput("Dask is not installed: pip install 'meshwright[dask]'") from None
    options: dict[str, Any] = (
        {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
        if address == LOCAL
        else {"address": address}
    )
    try:
        client = Client(**options, timeout=CONNECT_S)
    except (OSError, ValueError) as error:
        what = f"no Dask scheduler answers at {quoted(address)}: {error}"
        raise InvalidInput(f"{what}; give its address, as tcp://host:8786, or {LOCAL}") from None
    with client, client.get_executor() as executor:
        yield executor
