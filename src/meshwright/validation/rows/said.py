"""Said: what a row says of its precision in words alone, in a column for people."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from meshwright.specs.base import Spec
from meshwright.validation.rows.settings import base_runtime, document
from meshwright.validation.rows.table import Row, split_list

QUANTISED = "fp8"
"""The recipe of a row that does not say which of its kind."""


class Said(Spec):
    """What is meant by words, any of which `precision_detail` has."""

    says: tuple[str, ...]
    precision: str = ""
    """The recipe; none: not of it."""
    runtimes: tuple[str, ...] = ()
    """Ids of the runtimes that the behaviours are for."""
    behaviours: tuple[str, ...] = ()

    def is_said_of(self, row: Row) -> bool:
        """Whether the row has any of the words."""
        words = row["precision_detail"].lower()
        return any(each in words for each in self.says)


@cache
def _said(name: str) -> tuple[Said, ...]:
    return tuple(Said(**each) for each in document("frameworks")[name])


def with_said_recipe(row: Row) -> Row:
    """The row with the fp8 recipe that its words name; as it is where they name none."""
    if row["precision"].partition("-")[0] != QUANTISED:
        return row
    meant = next((each.precision for each in _said("recipes") if each.is_said_of(row)), row["precision"])
    return row | {"precision": meant}


def said_behaviours(row: Row) -> list[str]:
    """`KEY=VALUE` of the bytes of states that its words name, for the row's runtime. Raises `UnknownName` for a runtime
    that the catalogue has not.
    """
    runtime = base_runtime(row["runtime"]).framework
    said = (each for each in _said("states") if runtime in each.runtimes and each.is_said_of(row))
    return [behaviour for each in said for behaviour in each.behaviours]


def with_behaviours_over(column: str, behaviours: Sequence[str]) -> str:
    """The column `with` and behaviours that go before what it says of the same keys.

    >>> with_behaviours_over("gradient_bytes=4; dropout=true", ["gradient_bytes=2"])
    'dropout=true;gradient_bytes=2'
    """
    keys = {each.partition("=")[0] for each in behaviours}
    kept = [part for part in split_list(column) if part.partition("=")[0].strip() not in keys]
    return ";".join([*kept, *behaviours])
