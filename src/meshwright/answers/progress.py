"""A progress bar for searches that take longer than a second."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress as Bar

from meshwright.search.find import Progress

PATIENCE_S = 1.0


@contextmanager
def shown_progress() -> Iterator[Progress]:
    """A callback for `find` that shows a bar on standard error once a second has passed."""
    started = time.perf_counter()
    with Bar(console=Console(stderr=True), transient=True, disable=not Console(stderr=True).is_terminal) as bar:
        task = bar.add_task("Pricing plans", total=None, visible=False)

        def advance(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, visible=time.perf_counter() - started > PATIENCE_S)

        yield advance
