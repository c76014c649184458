"""What compared plans and clusters rest on is told once, with the sides that it holds for where these are not all."""

from __future__ import annotations

from meshwright.answers.basis.assumptions import assumptions
from meshwright.answers.compare.attributed import attributed
from meshwright.answers.compare.clusters import Wishes, compare_clusters
from meshwright.answers.compare.clusters_table import clusters_screen
from meshwright.answers.compare.named import named_plans
from meshwright.answers.compare.plans import compare_plans
from meshwright.answers.compare.plans_table import plans_document, plans_screen
from meshwright.answers.document.blocks import Bullets
from strategies import llama_8b, question

INPUTS = question(llama_8b(), "1x8:h100", global_batch=16, sequence_length=8192, precision="bf16")


def test_lines_of_the_same_sides_stand_together_and_shared_ones_first() -> None:
    lines = {"A": ["a", "all", "a too"], "B": ["some", "all", "b"], "C": ["all", "b only not", "some", "all"]}
    assert attributed(lines) == ["all", "A: a", "A: a too", "B, C: some", "B: b", "C: b only not"]
    assert attributed({"A": ["x", "x"]}) == ["x"]


def test_what_holds_for_every_plan_has_no_name() -> None:
    comparison = compare_plans(named_plans(["tp=2", "tp=4"], INPUTS), INPUTS)
    assert plans_document(comparison)["assumptions"] == assumptions(INPUTS)


def test_what_holds_for_one_plan_is_told_to_be_its_own() -> None:
    comparison = compare_plans(named_plans(["tp=2", "wide:tp=4,runtime=torchtitan"], INPUTS), INPUTS)
    first, second = (assumptions(column.named.inputs) for column in comparison.columns)
    told = plans_document(comparison)["assumptions"]
    assert {line for line in told if line.startswith("A: ")} == {f"A: {line}" for line in first if line not in second}
    assert {line for line in told if line.startswith("wide: ")} == {
        f"wide: {line}" for line in second if line not in first
    }
    assert any("the runtime is torchtitan" in line for line in told if line.startswith("wide: "))
    assert list(plans_screen(comparison)[-1].items) == told  # type: ignore[union-attr]


def test_clusters_own_what_differs_between_them() -> None:
    other = question(llama_8b(), "2x8:a100", global_batch=16, sequence_length=8192, precision="bf16")
    comparison = compare_clusters([(each.cluster, each) for each in (INPUTS, other)], Wishes())
    (bullets,) = (each for each in clusters_screen(comparison) if isinstance(each, Bullets))
    slowest = [line for line in bullets.items if "waiting for the slowest" in line]
    assert [line.split(": waiting")[0] for line in slowest] == [INPUTS.cluster.name, other.cluster.name]
    assert sum("every sequence is full" in line for line in bullets.items) == 1
