"""Pool: a function over many arguments in processes, with a progress bar that has no thread of its own."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

Argument = TypeVar("Argument")
Result = TypeVar("Result")
Progress = Callable[[int, int], None]
"""Called after every result with (finished so far, in all)."""
CHUNKS_PER_WORKER = 4


def evaluate_all(
    function: Callable[[Argument], Result],
    arguments: Sequence[Argument],
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> list[Result]:
    """The function's results in the order of its arguments.

    function, arguments: picklable where processes do the work; progress: called after every result; executor: None
    starts a process pool and ends it.
    """
    workers = max(min(os.cpu_count() or 1, len(arguments)), 1)
    chunk = max(len(arguments) // (workers * CHUNKS_PER_WORKER), 1)
    results: list[Result] = []
    with _given_or_own(executor, workers) as pool:
        for result in pool.map(function, arguments, chunksize=chunk):
            results.append(result)
            if progress:
                progress(len(results), len(arguments))
    return results


@contextmanager
def _given_or_own(executor: Executor | None, workers: int) -> Iterator[Executor]:
    """The executor that was given, or a process pool.

    Newer Pythons warn that forking beside threads may deadlock; the workers only do arithmetic and take no lock.
    """
    if executor is not None:
        yield executor
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*fork.*", category=DeprecationWarning)
        with ProcessPoolExecutor(max_workers=workers) as pool:
            yield pool


@contextmanager
def search_progress() -> Iterator[Progress]:
    """A callback that moves a bar on standard error; nothing is shown where that is no terminal.

    The bar has no thread of its own, so that processes can be forked beside it.
    """
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Bar(*columns, console=console, auto_refresh=False, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("Evaluating configurations", total=None)

        def advance(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, refresh=True)

        yield advance
