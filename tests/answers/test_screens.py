"""The screens: at 80 columns, without colour, they hold the facts that a person looks for."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace

import pytest
from rich.console import Console

from meshwright.answers.basis.assumptions import assumptions
from meshwright.answers.catalog_table import catalog_document, catalog_screen
from meshwright.answers.document.blocks import Block
from meshwright.answers.document.terminal import terminal
from meshwright.answers.explain.table import explain_screen
from meshwright.answers.model_table import dividing_degrees, model_document, model_screen
from meshwright.answers.pace import pace_of
from meshwright.answers.plans.table import plan_screen
from meshwright.answers.screen import headline
from meshwright.answers.step_parts import named_parts, why_lost
from meshwright.cost.memory.fit import Verdict
from meshwright.cost.step import estimate_each
from meshwright.layout.named import plan_of
from meshwright.search.find import SearchResult, find
from meshwright.search.ranking.rank import Difference
from meshwright.specs import catalog
from meshwright.specs.job import job_of
from meshwright.specs.reading.model import read_model
from meshwright.units import format_seconds
from strategies import llama_8b, llama_70b, question

WIDTH = 80


def shown(screen: tuple[Block, ...]) -> str:
    """What a terminal of 80 columns without colour shows."""
    out = io.StringIO()
    Console(file=out, width=WIDTH, color_system=None, force_terminal=False).print(terminal(screen), highlight=False)
    return out.getvalue()


def told(screen: tuple[Block, ...]) -> str:
    """The same as running text."""
    return " ".join(shown(screen).split())


@pytest.fixture(scope="module")
def found() -> SearchResult:
    return find(question(llama_70b(), "8x8:h100", global_batch=256, sequence_length=8192), top=3)


def test_the_plan_screen_answers(found: SearchResult) -> None:
    text, best = told(plan_screen(found)), found.best[0]
    for fact in (
        "70.55B",
        "8 x 8 h100-sxm-80gb",
        "256 sequences of 8192",
        "megatron-core",
        str(best.plan),
        format_seconds(best.step_time_s),
        f"{best.mfu:.1%}",
        "safe",
        f"{best.memory.device / 2**30:.1f}",
        f"{found.considered:,}",
        f"{found.legal:,}",
        f"{found.fitting:,}",
    ):
        assert fact in text
    assert all(line in text for line in assumptions(found.inputs))


def test_the_plan_screen_says_why_each_runner_up_lost(found: SearchResult) -> None:
    rows = shown(plan_screen(found)).splitlines()
    text = " ".join(" ".join(rows).split())
    assert len(found.best) > 1
    for estimate in found.best[1:]:
        share = estimate.step_time_s / found.best[0].step_time_s - 1
        assert pace_of(share) in text or "as fast" in text


def test_the_explain_screen_shows_every_stage() -> None:
    inputs = question(llama_70b(), "8x8:h100", global_batch=256, sequence_length=8192)
    estimate = estimate_each([plan_of(inputs, tp=8, pp=4)], inputs)[0]
    text = told(explain_screen(estimate, inputs))
    for fact in ("tp8 sp pp4 dp2 zero1 mbs1 m128", format_seconds(estimate.step_time_s), str(estimate.verdict)):
        assert fact in text
    rows = [row.split() for row in shown(explain_screen(estimate, inputs)).splitlines()]
    assert {row[0] for row in rows if row[1:2] == ["20"]} == {"0", "1", "2", "3"}
    assert all(f"{stage.memory.device / 2**30:.1f}" in text for stage in estimate.stages)
    assert all(line in text for line in assumptions(inputs))


def test_the_explain_screen_says_out_of_memory() -> None:
    inputs = question(llama_70b(), "1x8:h100", global_batch=8, sequence_length=8192)
    assert "out-of-memory" in told(explain_screen(estimate_each([plan_of(inputs, tp=8)], inputs)[0], inputs))


@pytest.mark.parametrize("micro_batch", [3, 4, 5])
def test_a_plan_at_risk_says_what_it_waits_for(micro_batch: int) -> None:
    inputs = question(llama_8b(), "1x8:h100", "accelerate", global_batch=8 * micro_batch, sequence_length=8192)
    (estimate,) = estimate_each([plan_of(inputs, zero=3, micro_batch=micro_batch, recompute="full")], inputs)
    tensors = estimate.memory.device - estimate.memory.fragmentation
    waits = estimate.verdict == Verdict.AT_RISK and tensors <= estimate.fit.visible_bytes < estimate.memory.device
    assert ("PyTorch gives back" in told(explain_screen(estimate, inputs))) == waits == (micro_batch == 4)


@pytest.mark.parametrize("name", ["llama-3.1-70b", "mixtral-8x7b", "deepseek-v3", "gpt2", "gemma-2-9b"])
def test_the_model_screen_counts(name: str) -> None:
    model = read_model(name)
    document, text = model_document(model), told(model_screen(model))
    assert str(document["parameters"]) in text
    assert sum(document["by_part"].values()) == document["parameters"]
    assert document["active_parameters"] <= document["parameters"]
    assert str(document["active_parameters"]) in text
    assert all(part.replace("_", " ") in text for part in document["by_part"])


def test_the_legal_degrees_are_each_runtimes_own() -> None:
    """KV heads may be shared by ranks in Megatron and not in torchtitan; 126 layers and two ends divide by 16."""
    document = model_document(read_model("llama-3.1-405b"))
    assert document["legal_degrees"]["megatron-core"]["tp"] == [1, 2, 4, 8, 16, 32, 64, 128]
    assert document["legal_degrees"]["torchtitan"]["tp"] == [1, 2, 4, 8]
    assert 16 in document["legal_degrees"]["megatron-core"]["pp"]
    assert 16 not in document["legal_degrees"]["megatron-lm"]["pp"]
    assert document["legal_degrees"]["pytorch-fsdp1"]["pp"] == [1]


def test_degrees_are_told_of_the_runtimes_that_have_such_models() -> None:
    dense, mixture = (model_document(read_model(name))["legal_degrees"] for name in ("llama-3.1-8b", "mixtral-8x7b"))
    assert dense.keys() - mixture.keys() == {"llm-foundry", "megatron-lm", "nanotron", "zero-bubble"}


def test_the_degrees_of_a_model_are_those_that_its_legality_rules_accept() -> None:
    assert dividing_degrees(read_model("llama-3.1-8b")) == {
        "tp": [1, 2, 4, 8, 16, 32],
        "tp_without_replicated_kv": [1, 2, 4, 8],
        "pp": [1, 2, 4, 8, 16, 32],
    }
    assert dividing_degrees(read_model("mixtral-8x7b"))["ep"] == [1, 2, 4, 8]
    assert dividing_degrees(read_model("falcon-7b"))["tp"] == [1, 71]


@pytest.mark.parametrize("kind", ["models", "accelerators", "clusters", "runtimes"])
def test_the_catalogue_lists_every_entry(kind: catalog.Kind) -> None:
    rows = [row.split()[:1] for row in shown(catalog_screen(kind, None)).splitlines()]
    names = [entry["id"] for entry in catalog_document(kind, None)]
    assert names == list(catalog.names(kind))
    assert [name for name in names if [name] not in rows] == []


@pytest.mark.parametrize(("kind", "name"), [("accelerators", "h100"), ("clusters", "selene"), ("runtimes", "mcore")])
def test_an_entry_shows_its_sources(kind: catalog.Kind, name: str) -> None:
    document = catalog_document(kind, name)
    text = told(catalog_screen(kind, name))
    assert document["id"] in text
    assert [key for key in document["sources"] if f"sources.{key}" not in text] == []


@pytest.mark.parametrize(
    "screen",
    [
        lambda: model_screen(read_model("deepseek-v3")),
        lambda: catalog_screen("models", None),
        lambda: catalog_screen("clusters", None),
        lambda: catalog_screen("runtimes", "megatron-core"),
        lambda: catalog_screen("accelerators", "gb300"),
        lambda: plan_screen(find(question(llama_8b(), "2x8:h100"), top=5)),
    ],
)
def test_screens_keep_to_the_width(screen: Callable[[], tuple[Block, ...]]) -> None:
    assert max(len(line.rstrip()) for line in shown(screen()).splitlines()) <= WIDTH


def test_a_plan_that_lost_says_how_much_and_to_what(found: SearchResult) -> None:
    inputs = found.inputs
    best, slow = estimate_each([plan_of(inputs, tp=8, pp=2), plan_of(inputs, tp=8, pp=2, recompute="full")], inputs)
    share = slow.step_time_s / best.step_time_s - 1
    assert why_lost(slow, best).startswith(f"{share:.1%} slower: ")
    assert "more compute" in why_lost(slow, best)


def test_a_faster_plan_at_risk_lost_to_its_memory(found: SearchResult) -> None:
    assert found.at_risk
    best = found.best[0]
    text = why_lost(found.at_risk, best)
    assert "at risk of running out of memory" in text
    assert f"{found.at_risk.memory.device / 2**30:.1f} GiB" in text
    assert ("faster" in text) == (found.at_risk.step_time_s < best.step_time_s)


def test_an_equal_plan_differs_in_memory_alone() -> None:
    inputs = question(llama_8b(), "1x8:h100", global_batch=64, sequence_length=8192)
    estimate = estimate_each([plan_of(inputs, tp=2)], inputs)[0]
    assert why_lost(estimate, estimate).startswith("as fast")


def test_plans_that_differ_by_less_than_a_gain_tie() -> None:
    inputs = question(llama_8b(), "1x8:h100", global_batch=64, sequence_length=8192)
    estimate = estimate_each([plan_of(inputs, tp=2)], inputs)[0]
    time = estimate.time
    slower = replace(estimate, time=time._replace(compute_s=time.compute_s + 0.002 * estimate.step_time_s))
    assert why_lost(slower, estimate) == "0.2% slower, a tie"
    assert why_lost(estimate, slower) == "0.2% faster, a tie"


@pytest.mark.parametrize(
    ("parts", "most", "named"),
    [
        ({"exposed_dp_s": 9.0, "compute_s": -8.0, "bubble_s": -0.4}, 1, ["exposed_dp_s", "compute_s"]),
        (
            {"exposed_dp_s": 9.0, "exposed_tp_s": 3.0, "compute_s": -11.4},
            2,
            ["exposed_dp_s", "exposed_tp_s", "compute_s"],
        ),
        ({"compute_s": -9.0, "exposed_dp_s": 8.4}, 1, ["compute_s", "exposed_dp_s"]),
        ({"compute_s": 0.7, "bubble_s": -0.1}, 1, ["compute_s"]),
        ({"compute_s": 0.4, "bubble_s": 0.2}, 1, ["compute_s"]),
        ({"exposed_dp_s": 9.0, "compute_s": -8.0, "bubble_s": -0.4}, None, ["exposed_dp_s", "compute_s", "bubble_s"]),
    ],
)
def test_what_offsets_a_part_that_exceeds_the_difference_is_named(
    parts: dict[str, float], most: int | None, named: list[str]
) -> None:
    lost = Difference(seconds=sum(parts.values()), share=0.01, memory_bytes=0.0, parts=parts)
    assert [name for name, _ in named_parts(lost, most)] == named


@pytest.mark.parametrize(
    ("precision", "said"),
    [
        ("bf16", "bf16 weights and activations, 4-byte gradients"),
        ("mxfp8", "bf16 weights and activations, products in fp8 (recipe mxfp8), 4-byte gradients"),
    ],
)
def test_assumptions_tell_products_from_what_is_kept(precision: str, said: str) -> None:
    given = question(llama_8b(), "1x8:b200", precision=precision)
    assert any(line.startswith(said) for line in assumptions(given))


def test_assumptions_tell_what_the_command_guessed() -> None:
    job = job_of(8192, None, "4M")
    inputs = question(llama_8b(), "2x8:h100").replace(job=job)
    assert (job.global_batch, job.tokens_per_step) == (512, 2**22)
    told_of = assumptions(inputs)
    assert any("4M" in line and str(2**22) in line for line in told_of)
    assert any("Network" in line and "50 GB/s" in line for line in told_of)
    assert any("megatron-core" in line for line in told_of)
    assert len(told_of) == len(set(told_of))


def test_a_batch_of_whole_sequences_is_no_assumption() -> None:
    assert job_of(8192, None, "81920").assumptions == ()
    assert not any("in a batch" in line for line in assumptions(question(llama_8b(), "2x8:h100")))


@pytest.mark.parametrize(
    ("name", "watts", "times"), [("h100", None, "1.18 times"), ("h100", 500, "1.5 times"), ("a100", None, "")]
)
def test_what_the_power_limit_costs_products_is_said_where_it_is_known(
    name: str, watts: float | None, times: str
) -> None:
    inputs = question(llama_8b(), f"1x8:{name}")
    capped = inputs.replace(cluster=inputs.cluster.replace(power_limit_w=watts))
    lines = [line for line in assumptions(capped) if line.startswith("large matrix products take ")]
    assert len(lines) == bool(times)
    assert all(times in line for line in lines)


@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        ("2x8:h100", "nvlink 450 GB/s (344 reached), fabric 50 GB/s (48.6 reached)"),
        ("1x8:l40s", "pcie 32 GB/s (12.7 reached)"),
    ],
)
def test_the_head_shows_what_collectives_reach_of_each_level(cluster: str, said: str) -> None:
    assert f"Links per GPU, one direction: {said}" in headline(question(llama_8b(), cluster)).lines


def test_the_head_of_one_accelerator_shows_no_links() -> None:
    assert not any("Links" in line for line in headline(question(llama_8b(), "1x1:h100")).lines)


@pytest.mark.parametrize(
    ("cluster", "told"),
    [
        ("8xgb200-nvl72", " (8 trays in 1 rack of 18)"),
        ("gb300-nvl72", " (18 trays in 1 rack of 18)"),
        ("19x4:gb200", " (19 trays in 2 racks of 18)"),
        ("128x4:gb200", " (128 trays in 8 racks of 18, 16 in each)"),
        ("12x72:gb300", ""),
        ("16xdgx-h100", ""),
    ],
)
def test_the_first_line_says_in_how_many_racks_the_nodes_stand(cluster: str, told: str) -> None:
    """Eight times the name of a rack are eight trays of it."""
    inputs = question(llama_8b(), cluster, global_batch=864)
    first, *_ = headline(inputs).lines
    assert first.rpartition("**")[2] == told
