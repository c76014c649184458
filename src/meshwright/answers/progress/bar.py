"""Bar: the progress of a search on a terminal, without a share or a time where none is known."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Progresses
from rich.text import Text

EVERY_S = 0.1
"""From one picture of the bar to the next."""


class _Left(ProgressColumn):
    """The time that is left, where that can be told."""

    def render(self, task: Task) -> Text:
        known = task.total is not None and task.time_remaining is not None
        return TimeRemainingColumn().render(task) if known else Text("")


class _Share(ProgressColumn):
    """The share that is done, of a known whole."""

    def render(self, task: Task) -> Text:
        return Text("" if task.total is None else f"{task.percentage:>3.0f}%", style="progress.percentage")


class SearchBar:
    """A bar for the plans of one search; for searches of which nobody knows how many follow, one that moves to and fro,
    with their number.
    """

    def __init__(self, what: str, patience_s: float, console: Console | None = None) -> None:
        """what: is done; patience_s: seconds before it is shown."""
        columns = TextColumn("{task.description}"), BarColumn(), _Share(), _Left()
        shown_on = console or Console(stderr=True, highlight=False)
        self.bar = Progresses(*columns, console=shown_on, transient=True, auto_refresh=False)
        self._task = self.bar.add_task(what, total=None, visible=False)
        self._what, self._several, self._searches, self._done = what, "", 0, 0
        self._shown = time.perf_counter() + patience_s - EVERY_S

    def advance(self, done: int, total: int) -> None:
        """Show how far a search is. done, total: counts of plans."""
        due = time.perf_counter() - self._shown >= EVERY_S
        description = None
        if self._several:
            self._searches += done < self._done or not self._searches
            description = f"{self._several}, search {self._searches}"
        self._done = done
        known = None if self._several else total
        self.bar.update(
            self._task, completed=done, total=known, description=description, visible=due or None, refresh=due
        )
        self._shown = time.perf_counter() if due else self._shown

    def describe(self, several: str | None) -> None:
        """Say what the searches that follow are asked; None: what the first was."""
        self._several, self._searches, self._done = several or "", 0, 0
        self.bar.tasks[0].total = None
        self.bar.update(self._task, description=several or self._what)

    def say(self, line: str) -> None:
        """Print a line above."""
        self.bar.console.print(line)
