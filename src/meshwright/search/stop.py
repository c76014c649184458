"""Stop: a search that is asked to end, with the best of what it has looked at."""

from __future__ import annotations

from collections.abc import Callable

from meshwright.errors import NO_ANSWER, Stopped

Progress = Callable[[int, int], None]
"""Told at the start and after every chunk: (plans considered so far, plans in the space). Where it raises `StopSearch`,
the search ends with the best of them."""


class StopSearch(Stopped):
    """Raised by the progress of a search where it should end: its answer is of the plans considered so far."""

    def __init__(self) -> None:
        super().__init__(NO_ANSWER)


def goes_on(progress: Progress | None, done: int, total: int) -> bool:
    """Tell how far a search is; whether it should go on.

    progress: told; done, total: plans considered and plans in all, counts.
    """
    try:
        if progress:
            progress(done, total)
    except StopSearch:
        return False
    return True


def stopped(done: int, total: int) -> Stopped:
    """The error of a search that was stopped before a plan fitted; done, total: plans, counts."""
    looked_at = f"of {total:,} plans the first {done:,} were looked at, and none fits"
    return Stopped(f"the search was stopped and is not complete: {looked_at}")
