"""Ways to fit: what would make a plan safe, where those that fit are all at risk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from meshwright.answers.document.blocks import Lines
from meshwright.search.find import Progress, SearchResult

if TYPE_CHECKING:
    from meshwright.search.many_searches.remedies import Remedy


def ways_to_fit(result: SearchResult, progress: Progress | None = None) -> list[Remedy] | None:
    """What would make a plan safe, as where nothing fits; None where one is. progress: as in `remedies`."""
    if not result.none_safe:
        return None
    from meshwright.answers.progress.looking import what_would_fit

    return what_would_fit(result, progress=progress)


def ways_lines(ways: Sequence[Remedy] | None) -> list[Lines]:
    """The same in words; nothing where they were not looked for."""
    if ways is None:
        return []
    from meshwright.answers.unfit.nothing_fits import HOPELESS, remedy_words

    if not ways:
        return [Lines((HOPELESS,))]
    return [Lines(("**What would fit safely:**", *(f"- {remedy_words(each)}" for each in ways)))]


def ways_entry(ways: Sequence[Remedy] | None) -> dict[str, Any]:
    """The same for JSON."""
    if ways is None:
        return {}
    from meshwright.answers.unfit.nothing_fits import remedy_entry

    return {"what_would_fit": [*map(remedy_entry, ways)]}


def first_of_each_kind(ways: Sequence[Remedy]) -> list[Remedy]:
    """The first way of every kind."""
    return [*{each.kind: each for each in reversed(ways)}.values()][::-1]
