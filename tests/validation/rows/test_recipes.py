"""Recipes of Megatron-Bridge: what a release does not print is taken from an earlier one of the same layout."""

from __future__ import annotations

from meshwright.validation.rows.recipes import LAYOUT, NAMED, with_recipes
from meshwright.validation.rows.table import Row
from tables import llama

RECIPE = "from the tables; recipe moe_a2a_overlap=True; recompute mlp"


def _bridge(release: str, **changes: str) -> Row:
    return llama(runtime_detail="Megatron-Bridge", moe_experts="8", software_release=release, **changes)


def test_a_later_release_of_a_layout_keeps_its_recipe() -> None:
    printed = _bridge("25.09", notes=RECIPE, recompute="selective", recompute_modules="mlp")
    later = with_recipes([_bridge("25.11", notes="a note", recompute=""), printed])[0]
    assert later["notes"] == "a note; as release 25.09: moe_a2a_overlap=True"
    assert (later["recompute"], later["recompute_modules"]) == ("selective", "mlp")


def test_an_earlier_release_another_layout_and_another_framework_do_not() -> None:
    printed = _bridge("25.09", notes=RECIPE)
    others = [_bridge("25.07"), _bridge("25.11", tp="4"), _bridge("25.11") | {"runtime_detail": "NeMo"}]
    assert with_recipes([*others, printed]) == [*others, printed]


def test_a_recipe_that_only_a_configuration_names_is_taken_from_there() -> None:
    layout, (said, modules) = next(iter(NAMED.items()))
    (row,) = with_recipes([_bridge("25.07", **dict(zip(LAYOUT, layout, strict=True)))])
    assert row["notes"].endswith(f"recipe: {said}")
    assert row["recompute_modules"] == modules
