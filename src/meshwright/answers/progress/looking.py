"""Looking for what would fit, while the bar says what is tried; how long that takes is not known."""

from __future__ import annotations

from meshwright.answers.progress.progress import Stoppable
from meshwright.search.find import Progress, SearchResult
from meshwright.search.many_searches.remedies import Kind, Remedy, remedies


def what_would_fit(result: SearchResult, most: int | None = None, progress: Progress | None = None) -> list[Remedy]:
    """What `remedies` finds; of a bar the words say which kind of it is looked for."""
    if not isinstance(progress, Stoppable):
        return remedies(result, most, progress)

    def asking(kind: Kind, place: int, count: int) -> None:
        progress.asks(f"Looking for what would fit: {kind.value}, {place} of {count}")

    try:
        return remedies(result, most, progress, asking)
    finally:
        progress.asks(None)
