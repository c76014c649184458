"""Unread: why a launch file is no plan, all of it at once."""

from __future__ import annotations

from collections.abc import Sequence

from meshwright.launch.imports.dialects.dialect import Dialect
from meshwright.launch.readers.limits import named_lines
from meshwright.launch.readers.settings import LaunchSettings


def unread(
    read: LaunchSettings,
    dialect: Dialect,
    gaps: Sequence[str],
    faults: Sequence[str],
    broken: Sequence[str],
    passed_over: Sequence[str] = (),
) -> str:
    """The message: what the file leaves open, what is not valid in it, which rules of its framework it breaks, and what
    is said beside it and read nowhere.
    """
    parts = [
        (gaps, "leaves open what the answer rests on"),
        (faults, "is not valid"),
        (broken, "breaks rules of its framework"),
    ]
    parts += [(passed_over, "does not read what is said beside it")]
    said = [f"{what}:{_listed(lines)}" for lines, what in parts if lines]
    return f"{read.path!r} ({dialect.framework}) " + "\nIt also ".join(said) + (_not_followed(read) if gaps else "")


SHOWN = 12
"""Names that a note lists."""


def told_elsewhere(read: LaunchSettings) -> list[str]:
    """What stands in other files, which conditions and loops were not followed, and what is not handed on."""
    lines = {each.key: each.line for each in reversed(read.elsewhere)}
    listed = ", ".join(f"{name} (line {line})" if line else name for name, line in lines.items())
    told = [f"what these functions set stands in other files, which are not read: {listed}"] if listed else []
    open_lines = [each.line for each in read.conditions if each.line]
    if open_lines:
        told.append(
            f"{named_lines(open_lines)}: whether this holds the file does not decide, and what it sets is not read"
        )
    if read.withheld:
        told.append(
            f"srun hands on the variables that --export names, and not {', '.join(read.withheld[:SHOWN])}, which the "
            "script exports: with ALL among them it hands on these too"
        )
    return told


def _not_followed(read: LaunchSettings) -> str:
    more = ""
    if read.undecided:
        more += f"\n  conditions on {named_lines(read.undecided)} were not decided and neither branch was read"
    absent = ", ".join(f"{name} (line {line})" for line, name in list(read.absent.items())[:10])
    return more + (f"\n  scripts that are not beside it were not read: {absent}" if absent else "")


def _listed(lines: Sequence[str]) -> str:
    return "".join(f"\n  - {line}" for line in lines)
