"""Pool: a function over many arguments in processes, with a progress bar that has no thread of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TypeVar

from meshwright.answers.progress.bar import SearchBar
from meshwright.search.executors import executor_of
from meshwright.search.fan_out import results
from meshwright.search.stop import Progress

Argument = TypeVar("Argument")
Result = TypeVar("Result")
CHUNKS = 8
"""Pieces that the arguments are handed out in."""


def evaluate_all(
    function: Callable[[Argument], Result],
    arguments: Sequence[Argument],
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> list[Result]:
    """The function's results in the order of its arguments.

    function, arguments: picklable where processes do the work; progress: called after every result with (finished so
    far, in all); executor: None starts a process pool and ends it.
    """
    size = max(len(arguments) // CHUNKS, 1)
    pieces = [arguments[start : start + size] for start in range(0, len(arguments), size)]
    known: dict[int, list[Result]] = {}
    done = 0
    with nullcontext(executor) if executor else executor_of(min(os.cpu_count() or 1, max(len(arguments), 1))) as pool:
        for place, piece in results(partial(_each, function), pieces, pool):
            known[place] = piece
            for _ in piece:
                done += 1
                if progress:
                    progress(done, len(arguments))
    return [result for _, piece in sorted(known.items()) for result in piece]


def _each(function: Callable[[Argument], Result], arguments: Sequence[Argument]) -> list[Result]:
    return [function(argument) for argument in arguments]


@contextmanager
def search_progress() -> Iterator[Progress]:
    """A callback that moves a bar on standard error; nothing is shown where that is no terminal."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    shown = SearchBar("Evaluating configurations", patience_s=0.0)
    with shown.bar:
        yield shown.advance
