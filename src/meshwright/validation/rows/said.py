"""Said: what a row says in words alone of its precision, of the layers that it recomputes and of what it shards."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from meshwright.specs.base import Spec
from meshwright.validation.rows.settings import base_runtime, document
from meshwright.validation.rows.table import Row, split_list

QUANTISED = "fp8"
"""The recipe of a row that does not say which of its kind."""
HALF_OF_LAYERS = ("every-other-layer", "fraction-of-layers")
"""In place of modules: that some layers are recomputed whole; a fraction that is not printed is taken as a half."""


class Recipe(Spec):
    """The recipe that words mean, any of which `precision_detail` has."""

    says: tuple[str, ...]
    precision: str

    def is_said_of(self, row: Row) -> bool:
        """Whether the row has any of the words."""
        words = row["precision_detail"].lower()
        return any(each in words for each in self.says)


@cache
def _recipes() -> tuple[Recipe, ...]:
    return tuple(Recipe(**each) for each in document("frameworks")["recipes"])


def with_said_recipe(row: Row) -> Row:
    """The row with the fp8 recipe that its words name; as it is where they name none."""
    if row["precision"].partition("-")[0] != QUANTISED:
        return row
    meant = next((each.precision for each in _recipes() if each.is_said_of(row)), row["precision"])
    return row | {"precision": meant}


class Taken(NamedTuple):
    """What a row does not say in its columns and is taken all the same."""

    why: str
    columns: Row = {}
    behaviours: tuple[str, ...] = ()
    """`KEY=VALUE`, over what the column `with` says of the same keys."""


def said_layers(row: Row) -> list[Taken]:
    """That half of the layers of each chunk are recomputed whole, where the words of a row say that some are. Raises
    `UnknownName` for a runtime that the catalogue has not.
    """
    if row["recompute_modules"] not in HALF_OF_LAYERS or not row["layers"]:
        return []
    half = max(int(row["layers"]) // (2 * int(row["pp"] or 1) * int(row["vpp"] or 1)), 1)
    takes = base_runtime(row["runtime"]).plans.takes_recompute_layers
    columns = {"recompute": "full", "recompute_modules": "", "recompute_layers": str(half)}
    why = f"{half} layers of a chunk recomputed whole, by what the row says of them"
    return [Taken(why, columns, () if takes else ("takes_recompute_layers=true",))]


def said_stage(row: Row) -> list[Taken]:
    """The stage of ZeRO of a run on one accelerator whose framework shards there too, where the row names one that it
    has not. Raises `UnknownName` for a runtime that the catalogue has not.
    """
    plans, stage = base_runtime(row["runtime"]).plans, row["zero_stage"]
    alone = row["num_gpus"] == "1" and bool(stage) and plans.shards_one_rank
    if not alone or int(stage) in plans.zero_stages:
        return []
    most = str(max(plans.zero_stages))
    return [Taken(f"ZeRO {most}, as {row['runtime']} shards on one rank too", {"zero_stage": most})]


def with_behaviours_over(column: str, behaviours: Sequence[str]) -> str:
    """The column `with` and behaviours that go before what it says of the same keys.

    >>> with_behaviours_over("gradient_bytes=4; dropout=true", ["gradient_bytes=2"])
    'dropout=true;gradient_bytes=2'
    """
    keys = {each.partition("=")[0] for each in behaviours}
    kept = [part for part in split_list(column) if part.partition("=")[0].strip() not in keys]
    return ";".join([*kept, *behaviours])
