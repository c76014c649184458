"""Runtimes without a plan: why each has none, said once where several have the same reason."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from meshwright.errors import IllegalPlan, InvalidSpec, MeshwrightError, NothingFits
from meshwright.units import format_gib, format_seconds

Row = tuple[str, str, str, str, str]
HEAD: Row = ("runtime", "least memory", "what would fit", "a step", "fits")
RIGHT = (1, 3, 4)
"""Columns of numbers."""


def refused_lines(refusals: Mapping[str, MeshwrightError]) -> list[str]:
    """One line for each reason, with the runtimes that have it.

    >>> from meshwright.errors import Fault
    >>> told = {name: InvalidSpec("it", [Fault("precision", f"{name} has no fp8")]) for name in ("a", "b")}
    >>> refused_lines(told)
    ['a, b: precision: this runtime has no fp8']
    """
    reasons: dict[str, list[str]] = {}
    for name, each in refusals.items():
        reasons.setdefault(_named("this runtime", name, _reason(name, each)), []).append(name)
    return [
        f"{', '.join(names)}: {reason if len(names) > 1 else _reason(names[0], refusals[names[0]])}"
        for reason, names in reasons.items()
    ]


def nothing_fits_lines(refusals: Mapping[str, MeshwrightError]) -> list[str]:
    """A table of the runtimes with plans of which none fits, the leanest first, then why others have none."""
    lean = sorted(
        ((name, each.document) for name, each in refusals.items() if isinstance(each, NothingFits)),
        key=lambda row: _least(row[1]),
    )
    rows = [HEAD, *(_row(name, document) for name, document in lean)]
    why = [each for _, document in lean if (each := str(document["why"]))]
    others = refused_lines({name: each for name, each in refusals.items() if not isinstance(each, NothingFits)})
    return [*_aligned(rows), *why, *others]


def _reason(name: str, refusal: MeshwrightError) -> str:
    """Why a runtime has no plan, without its name in front, and of one fault without what it is a fault of."""
    if isinstance(refusal, InvalidSpec | IllegalPlan) and len(refusal.faults) == 1:
        return str(refusal.faults[0])
    return str(refusal).removeprefix(f"{name}: ")


def _named(word: str, name: str, text: str) -> str:
    return re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", word, text)


def _least(document: Mapping[str, Any]) -> float:
    """Bytes that the leanest plan needs."""
    return float(document["leanest"]["memory"]["device_bytes"])


def _row(name: str, document: Mapping[str, Any]) -> Row:
    """What a runtime needs, and the first way to fit with its step time and how likely it fits."""
    needed, ways = format_gib(_least(document)), document["what_would_fit"]
    if not ways:
        return name, needed, "nothing that was tried", "", ""
    return name, needed, ways[0]["change"], format_seconds(ways[0]["step_time_s"]), f"{ways[0]['fits']:.0%}"


def _aligned(rows: Sequence[Row]) -> list[str]:
    """The lines of a table of text."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    cells = [
        [each.rjust(width) if index in RIGHT else each.ljust(width) for index, (each, width) in enumerate(pairs)]
        for pairs in (zip(row, widths, strict=True) for row in rows)
    ]
    return ["  ".join(row).rstrip() for row in cells]
