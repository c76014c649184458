"""Assumptions stand on the screens of the questions that rest on them, and on no others."""

from __future__ import annotations

from typing import get_args

import pytest

from meshwright.answers.basis.assumptions import assumptions
from meshwright.answers.basis.conditions import CONDITIONS
from meshwright.answers.screen import fit_words
from meshwright.cost.step import estimate_each
from meshwright.errors import InvalidSpec
from meshwright.layout.named import plan_of
from meshwright.specs.assumed import Condition
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.model import Model
from meshwright.specs.reading.accelerator import read_accelerator
from meshwright.specs.reading.cluster import read_cluster
from meshwright.specs.reading.model import read_model
from strategies import llama_8b, question

FP8 = "Products in fp8: held back by the power limit"
EXPERTS = "the host needs 1.7 to 2.1 times as long for an expert layer"
BLOCKWISE = "Products of blockwise fp8 take 1.1 times as long"
BESIDE = "up to 90 % of the compute beside it can hide a communication"


def test_every_condition_can_be_met() -> None:
    assert set(CONDITIONS) == set(get_args(Condition))


@pytest.mark.parametrize(
    ("model", "cluster", "precision", "shown"),
    [
        (llama_8b(), "1x8:h100", "bf16", {BESIDE}),
        (llama_8b(), "1x1:h100", "bf16", set()),
        (llama_8b(), "1x8:h100", "fp8-blockwise", {FP8, BLOCKWISE, BESIDE}),
        (read_model("mixtral-8x7b"), "1x8:h100", "bf16", {EXPERTS, BESIDE}),
    ],
)
def test_a_question_lists_what_it_rests_on(model: Model, cluster: str, precision: str, shown: set[str]) -> None:
    inputs = question(model, cluster, precision=precision)
    lines = assumptions(inputs)
    assert {each for each in (FP8, EXPERTS, BLOCKWISE, BESIDE) if any(line.startswith(each) for line in lines)} == shown


@pytest.mark.parametrize(
    ("dispatcher", "said"), [("all_to_all", "All-to-all between"), ("fused", "Token exchange"), ("all_gather", "")]
)
def test_experts_rest_on_the_kernels_of_their_dispatcher(dispatcher: str, said: str) -> None:
    inputs = question(read_model("mixtral-8x7b"), "2x8:h100")
    chosen = inputs.replace(runtime=inputs.runtime.replace(dispatcher=dispatcher))
    told = [line for line in assumptions(chosen) if line.startswith(("All-to-all between", "Token exchange"))]
    assert [line[: len(said)] for line in told] == ([said] if said else [])


@pytest.mark.parametrize("runtime", ["accelerate", "deepspeed", "pytorch-ddp", "pytorch-fsdp1"])
@pytest.mark.parametrize(
    ("release", "runs", "other"),
    [("", "as one product", "@transformers-4.57"), ("@transformers-4.57", "one after the other", "")],
)
def test_a_release_says_how_its_own_experts_run(runtime: str, release: str, runs: str, other: str) -> None:
    told = assumptions(question(read_model("mixtral-8x7b"), "2x8:h100", runtime + release))
    (line,) = [each for each in told if each.startswith("the experts of a layer run")]
    assert line.startswith(f"the experts of a layer run {runs}, as in transformers")
    assert line.endswith(f"--runtime {runtime}{other}")


@pytest.mark.parametrize(("release", "lines"), [("", 1), ("@transformers-4.57", 0)])
def test_expert_parallelism_is_told_where_the_runtime_has_it(release: str, lines: int) -> None:
    told = assumptions(question(read_model("mixtral-8x7b"), "2x8:h100", f"deepspeed{release}"))
    assert len([line for line in told if "AutoEP" in line]) == lines


def test_a_single_accelerator_waits_for_no_hop() -> None:
    told = [" ".join(read_cluster(name).assumptions) for name in ("1x1:h100", "1x2:h100")]
    assert ["Latency of one hop" in each for each in told] == [False, True]


@pytest.mark.parametrize("runtime", ["megatron-core", "megatron-bridge"])
def test_thousands_of_accelerators_are_told_what_runs_of_few_micro_batches_took(runtime: str) -> None:
    told = {
        nodes: [
            line for line in assumptions(question(llama_8b(), f"{nodes}x8:h100", runtime)) if "micro-batches" in line
        ]
        for nodes in (255, 256)
    }
    assert not told[255]
    assert ["longer than predicted" in line for line in told[256]] == [True]


@pytest.mark.parametrize("runtime", ["megatron-core", "megatron-bridge"])
@pytest.mark.parametrize("graphs", ["none", "parts", "iteration"])
def test_what_graphs_hold_is_told(runtime: str, graphs: str) -> None:
    inputs = question(llama_8b(), "1x8:h200", runtime, precision="bf16", global_batch=64)
    inputs = inputs.replace(runtime=with_behaviours(inputs.runtime, [f"host.graphs={graphs}"]))
    (estimate,) = estimate_each([plan_of(inputs)], inputs)
    assert estimate.verdict.fits
    assert ("one CUDA graph of the whole step" in fit_words(estimate, inputs)) == (graphs == "iteration")
    assert any(line.startswith("graphs of layers keep") for line in assumptions(inputs)) == (graphs != "none")


@pytest.mark.parametrize(
    ("runtime", "change", "sentence"),
    [
        ("accelerate", "fused_update=false", "AdamW updates a parameter in one kernel"),
        ("torchtitan", "compiled=false", "model and loss are compiled"),
        ("torchtitan", "cross_entropy=compiled", "head and loss go through the sequence in eight pieces"),
        ("torchtitan", "attention=newest", "attention is the default of each model"),
        ("torchtitan", "host.graphs=iteration", "there are no CUDA graphs"),
        ("megatron-core", "binds_ranks=false", "ranks run on the cores beside their accelerator"),
    ],
)
def test_what_a_question_replaces_is_not_assumed(runtime: str, change: str, sentence: str) -> None:
    usual = question(read_model("mixtral-8x7b"), "2x8:h100", runtime)
    changed = usual.replace(runtime=with_behaviours(usual.runtime, [change]))
    told = [any(line.startswith(sentence) for line in assumptions(inputs)) for inputs in (usual, changed)]
    assert told == [True, False]


def test_a_release_assumes_no_fused_update_that_it_has_not() -> None:
    told = assumptions(question(llama_8b(), "1x8:a100", "pytorch-ddp@torch-1.13"))
    assert not [line for line in told if "fused=True" in line]


def test_what_a_switch_replaces_is_told_with_the_switch() -> None:
    usual = question(read_model("mixtral-8x7b"), "2x8:h100")
    for change, said in (
        ("grouped_experts=off", ": grouped_experts off: host_s_per_looped_expert"),
        ("gradient_bytes=2", ": gradient_bytes 2 in place of 4"),
    ):
        (line,) = (
            line
            for line in assumptions(usual.replace(runtime=with_behaviours(usual.runtime, [change])))
            if line.startswith("replaced for this question")
        )
        assert said in line


def test_an_unknown_condition_is_refused() -> None:
    with pytest.raises(InvalidSpec, match="assumed"):
        read_accelerator({"like": "h100", "assumed": [{"weather": "it rains"}]})
