"""Fan out: one function over many arguments, on any `concurrent.futures.Executor`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from functools import partial
from itertools import islice
from typing import TypeVar

from meshwright.search.executors import InProcess, Processes, stopped_by_parent
from meshwright.search.stop import Progress, StopSearch

Argument = TypeVar("Argument")
Result = TypeVar("Result")
AHEAD = 64
"""Arguments that are handed out before the results of earlier ones are taken: enough for any number of workers that
one process can feed, and few enough to hold their results."""
EVERY_S = 0.1
"""From one look at the workers to the next."""


def answers(
    function: Callable[[Argument, Progress | None], Result],
    arguments: Sequence[Argument],
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> list[Result]:
    """`function(argument, progress)` of every argument, in their order.

    function, arguments: picklable where processes do the work; executor: what does it; None: this process. progress: in
    this process told by the function; else (answered, in all), again and again. Where it raises `StopSearch` the
    searches of `Processes` end with the best so far; of other executors it is raised here.

    >>> answers(lambda number, progress: number + 1, [1, 2])
    [2, 3]
    """
    if executor is None or isinstance(executor, InProcess):
        return [function(each, progress) for each in arguments]
    known: dict[int, Result] = {}

    def look() -> None:
        try:
            if progress:
                progress(len(known), len(arguments))
        except StopSearch:
            if not isinstance(executor, Processes):
                raise
            executor.stop.set()

    for place, answer in results(partial(_of_worker, function), arguments, executor, look=look):
        known[place] = answer  # noqa: PERF403  (`look` counts them)
    look()
    return [known[place] for place in range(len(arguments))]


def _of_worker(function: Callable[[Argument, Progress | None], Result], argument: Argument) -> Result:
    return function(argument, stopped_by_parent)


def results(
    function: Callable[[Argument], Result],
    arguments: Iterable[Argument],
    executor: Executor,
    ahead: int = AHEAD,
    look: Callable[[], None] | None = None,
) -> Iterator[tuple[int, Result]]:
    """The function's results as they are ready, each with the place of its argument.

    function, arguments: picklable where processes do the work; ahead: how many arguments are handed out at most before
    their results are taken, a count; one where this process does the work; look: called every tenth of a second. An
    exception of the function is raised here, and what has not begun is cancelled.

    >>> from meshwright.search.executors import InProcess
    >>> sorted(results(abs, [3, -4], InProcess()))
    [(0, 3), (1, 4)]
    """
    queue = enumerate(arguments)
    ahead = 1 if isinstance(executor, InProcess) else ahead
    places: dict[Future[Result], int] = {}
    try:
        while True:
            for place, argument in islice(queue, ahead - len(places)):
                places[executor.submit(function, argument)] = place
            if not places:
                return
            if look:
                look()
            for future in wait(places, timeout=EVERY_S if look else None, return_when=FIRST_COMPLETED).done:
                yield places.pop(future), future.result()
    finally:
        for future in places:
            future.cancel()
