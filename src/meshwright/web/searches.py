"""Searches: at most so many tasks at once, each in a process that ends with the page that asked."""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from meshwright.web.task import Answered, Event, Refused, Task, Waiting, Working
from meshwright.web.work import work

TICK_S = 0.02
"""Between two looks at whether a search has something to say."""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What a server gives to those who ask."""

    at_once: int
    """Searches at once, a count."""
    waiting: int = 100
    """Searches in the queue, a count."""
    seconds: float = 60.0
    """Of one search."""


@dataclass
class Searches:
    """The tasks that run and wait; of one event loop."""

    bounds: Bounds
    places: list[object] = field(default_factory=list)
    """In the order in which they came: the first run, the others wait."""

    @property
    def full(self) -> bool:
        """Whether no more may wait."""
        return len(self.places) >= self.bounds.at_once + self.bounds.waiting

    async def events(self, task: Task) -> AsyncGenerator[Event, None]:
        """What becomes of a task, again at every tick so that one can leave: close the iterator to end it."""
        place = object()
        self.places.append(place)
        try:
            while (ahead := self.places.index(place) - self.bounds.at_once + 1) > 0:
                yield Waiting(ahead)
                await asyncio.sleep(TICK_S)
            process, events = _started(task)
            try:
                async for event in self._of(events):
                    yield event
            finally:
                process.kill()
                process.join()
                events.close()
        finally:
            self.places.remove(place)

    async def _of(self, events: Connection) -> AsyncGenerator[Event, None]:
        end, last = time.monotonic() + self.bounds.seconds, Working(0, 0)
        while time.monotonic() < end:
            if not events.poll():
                yield last
                await asyncio.sleep(TICK_S)
                continue
            try:
                event = await asyncio.to_thread(events.recv)
            except (EOFError, OSError):
                yield Refused("the search ended without an answer, perhaps for want of memory")
                return
            yield event
            if isinstance(event, Answered | Refused):
                return
            last = event
        words = f"the search was stopped after {self.bounds.seconds:.0f} s"
        so_far = f", at {last.done:,} of {last.total:,} plans" if last.total else ""
        yield Refused(f"{words}{so_far}: limit the plans, or ask meshwright plan, which has no such bound")


def prepare() -> None:
    """Load what searches need once, in the process that all of them begin as."""
    process = _context().Process(target=_nothing, daemon=True)
    process.start()
    process.join()


def _nothing() -> None: ...


def _started(task: Task) -> tuple[Any, Connection]:
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = _context().Process(target=work, args=(task, sender), daemon=True)
    process.start()
    sender.close()
    return process, receiver


def _context() -> Any:
    """Processes that start as a copy of one that has loaded everything, where the system has such."""
    if sys.platform == "win32":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["meshwright.web.work"])
    return context
