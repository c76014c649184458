"""A progress bar for what takes longer than a second, and a search that is stopped by hand or by a limit of time."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from meshwright.search.stop import Progress, StopSearch
from meshwright.units import format_bytes, format_seconds

Result = TypeVar("Result")
Describe = Callable[[str | None], None]
"""Told what is done now; None: what was done first."""
PATIENCE_S = 1.0
LONGEST_ALARM_S = 1e6
"""A limit beyond is none; systems count no alarm in more than some hundred million seconds."""
LONG_S = 10.0
"""A search that will take longer says so first."""


class Stoppable:
    """The progress of searches that Ctrl-C or a limit of time ends, with the best plans so far."""

    def __init__(
        self, advance: Progress, say: Callable[[str], None], limit_s: float | None, describe: Describe
    ) -> None:
        self.stopped = False
        """Whether a search was stopped."""
        self._advance, self._say, self._describe = advance, say, describe
        self._asked_to_stop = self._begun = self._told = False
        self._done = 0
        self._started = self._began = time.perf_counter()
        self._limit_s = limit_s

    def __call__(self, done: int, total: int) -> None:
        """Show the progress, say once how long a long search will take, and stop it where asked."""
        self._advance(done, total)
        now = time.perf_counter()
        if done < self._done or not self._begun:
            self._began = now
        elif done and not self._told and now - self._began > PATIENCE_S:
            left = (now - self._began) * (total - done) / done
            if left > LONG_S:
                self._told = True
                cost = f"{format_seconds(left)}{_memory()}"
                self._say(f"This search will take about {cost}; others may follow. Ctrl-C shows the best plan so far.")
        late = self._limit_s is not None and now - self._started > self._limit_s
        # The first word is of a search that has looked at nothing yet.
        self.stopped = self.stopped or (self._begun and done < total and (late or self._asked_to_stop))
        self._begun, self._done = True, done
        if self.stopped:
            raise StopSearch

    def show(self, done: int, total: int) -> None:
        """Show the progress of what is not stopped by it."""
        self._advance(done, total)

    def asks(self, what: str | None) -> None:
        """Show what the searches that follow are asked, and no time of theirs, as their number is not known; None: what
        was asked before.
        """
        self._told = True
        self._describe(what)

    def interrupt(self, *_: Any) -> None:
        """Ask the search to stop after its chunk; asked again, interrupt whatever runs."""
        if self._asked_to_stop:
            raise KeyboardInterrupt
        self._asked_to_stop = True

    def at_once(self, work: Callable[[], Result]) -> Result | None:
        """What some work returns; None where the first Ctrl-C or the limit of time ends it, wherever it stands: for
        work that tells no progress.
        """
        left = None if self._limit_s is None else self._limit_s - (time.perf_counter() - self._started)
        try:
            if self._asked_to_stop or (left is not None and left <= 0):
                raise StopSearch
            with _stops(left):
                return work()
        except StopSearch:
            self.stopped = True
            return None


@contextmanager
def _stops(after_s: float | None) -> Iterator[None]:
    """A block in which Ctrl-C raises `StopSearch`, and so does an alarm after some seconds, where systems have one."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    alarm = after_s is not None and after_s < LONGEST_ALARM_S and hasattr(signal, "setitimer")
    signals = [signal.SIGINT, signal.SIGALRM] if alarm else [signal.SIGINT]

    def stop(*_: Any) -> None:
        for number in signals:
            signal.signal(number, signal.SIG_IGN)
        raise StopSearch

    before = {number: signal.signal(number, stop) for number in signals}
    try:
        if alarm:
            signal.setitimer(signal.ITIMER_REAL, after_s or 0)
        yield
    finally:
        if alarm:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def stoppable_progress(
    limit_s: float | None = None, what: str = "Pricing plans", patience_s: float = PATIENCE_S
) -> Iterator[Stoppable]:
    """A callback that shows a bar on standard error, where that is a terminal, once some seconds have passed; of
    searches that end after a limit of time, or at the first Ctrl-C, with the best plans so far.

    The bar has no thread of its own, so that processes can be forked beside it.

    limit_s: seconds; None: as long as it takes; what: is done, as it stands before the bar; patience_s: the seconds
    before it is shown.
    """
    with _bar(what, patience_s) as (advance, say, describe):
        progress = Stoppable(advance, say, limit_s, describe)
        in_main = threading.current_thread() is threading.main_thread()
        before = signal.signal(signal.SIGINT, progress.interrupt) if in_main else None
        try:
            yield progress
        finally:
            if in_main:
                signal.signal(signal.SIGINT, before)


@contextmanager
def _bar(what: str, patience_s: float) -> Iterator[tuple[Progress, Callable[[str], None], Describe]]:
    """What advances the bar, what prints a line above it, and what says what is done; without a bar in a line of its
    own, once much time has passed.
    """
    if not sys.stderr.isatty():
        late = time.perf_counter() + LONG_S

        def say(line: str) -> None:
            print(line, file=sys.stderr, flush=True)

        def describe(asked: str | None) -> None:
            if asked and time.perf_counter() > late:
                say(asked)

        yield lambda _done, _total: None, say, describe
        return
    from meshwright.answers.progress.bar import SearchBar

    bar = SearchBar(what, patience_s)
    with bar.bar:
        yield bar.advance, bar.say, bar.describe


def _memory() -> str:
    """The most memory that this process has held, which grows little with further chunks; nothing where that is not
    known.
    """
    try:
        import resource
    except ImportError:
        return ""
    unit = 1 if sys.platform == "darwin" else 1024
    return f" and {format_bytes(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)} of memory"
