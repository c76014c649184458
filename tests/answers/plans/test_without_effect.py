"""What of a question changes nothing, told where it is answered."""

from __future__ import annotations

import pytest

from commands import asked
from meshwright.answers.plans.constraint_lines import constraint_lines
from meshwright.search.find import find
from meshwright.specs.behaviours import with_behaviours
from strategies import dense_model, question


@pytest.mark.parametrize(
    ("cluster", "change", "said"),
    [
        ("1x8:h100", "overlap.expert=0.5", "--with overlap.expert=0.5 has no effect: tiny has no experts."),
        ("1x8:h100", "expert_overlap=on", "--with expert_overlap=on has no effect: tiny has no experts."),
        (
            "1x8:h100",
            "keeps_transposed_weights=false",
            "--with keeps_transposed_weights=false has no effect: "
            "no weight is stored in quantised form alone (quantised_weights).",
        ),
        (
            "1x8:h100",
            "update_lists=2",
            "--with update_lists=2 has no effect: one kernel updates a parameter (fused_update).",
        ),
        (
            "1x8:h100",
            'quantised_weights=["fp8"]',
            '--with quantised_weights=["fp8"] has no effect: the job trains in fp16.',
        ),
        (
            "1x8:rtx-4090",
            "overlap.tensor_parallel=0.5",
            "--with overlap.tensor_parallel=0.5 has no effect: no rtx-4090-24gb writes to the memory of another.",
        ),
    ],
)
def test_behaviours_on_which_nothing_rests_have_no_effect(cluster: str, change: str, said: str) -> None:
    inputs = question(dense_model(name="tiny"), cluster, global_batch=64)
    inputs = inputs.replace(runtime=with_behaviours(inputs.runtime, [change]))
    assert constraint_lines(find(inputs), ()) == [said]


def test_so_they_are_where_one_plan_is_explained() -> None:
    words = ("explain", "llama-3.2-1b", "1x8:h100", "--seq-len", "2048", "--global-batch", "64")
    shown = " ".join(asked(*words, "--with", "expert_overlap=on").out.split())
    assert "--with expert_overlap=on has no effect: llama-3.2-1b has no experts." in shown


def test_a_switch_has_effect_where_some_of_what_it_sets_has() -> None:
    """torchtitan's `compiled` sets how expert layers are launched, and the loss and kernels of dense ones."""
    words = (
        "explain",
        "llama-3.2-1b",
        "1x1:h100",
        "--seq-len",
        "512",
        "--global-batch",
        "8",
        "--runtime",
        "torchtitan",
    )
    assert "has no effect" not in asked(*words, "--with", "compiled=false").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("llama-3.2-1b", "1x8:h100", "--network", "100Gb/s"), "--network has no effect within one node"),
        (("llama-3.2-1b", "2x8:h100", "--network", "100Gb/s"), ""),
        (("llama-3.2-1b", "1x8:h100", "--text-only"), "--text-only has no effect: llama-3.2-1b has no other towers"),
    ],
)
def test_what_changes_neither_model_nor_cluster_is_told(words: tuple[str, ...], said: str) -> None:
    answer = asked("explain", *words, "--seq-len", "2048", "--global-batch", "64")
    assert answer.err.strip() == (f"meshwright: {said}" if said else "")


QUESTION = ("plan", "llama-3.1-8b", "1x8:h100", "--seq-len", "4096", "--global-batch", "8", "--tp", "8", "--zero", "3")


def test_a_constraint_that_is_not_about_the_plan_is_told() -> None:
    """One data-parallel rank has nothing to shard its states with."""
    shown = " ".join(asked(*QUESTION).out.split())
    assert "--zero 3 says nothing of this plan: it is for plans with dp or cp 2 or more." in shown


def test_so_it_is_beside_all_runtimes() -> None:
    answer = asked(*QUESTION, "--runtime", "all", "--json").document["runtimes"]
    zero = {name: each["plans"][0]["plan"]["zero"] for name, each in answer.items() if "plans" in each}
    shown = " ".join(asked(*QUESTION, "--runtime", "all").out.split())
    line = shown.partition("--zero 3 says nothing of the plans of ")[2].partition(": ")[0]
    assert zero["megatron-core"] == 0
    assert zero["torchtitan"] == 3
    assert {*line.replace(" and ", ", ").split(", ")} == {name for name, stage in zero.items() if stage == 0}
