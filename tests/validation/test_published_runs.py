"""Published runs: every row priced or refused with a reason, and how far predictions are off."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from baseline import BASELINE, errors_by_source
from measured_orders import schedule_orders
from meshwright.answers.basis.conditions import THOUSANDS
from meshwright.cost.memory.fit import Verdict
from meshwright.errors import InvalidInput
from meshwright.search.published.runs import published_plans
from meshwright.specs.fitted import fitted_constants
from meshwright.specs.reading.cluster import read_cluster
from meshwright.specs.runtime import read_runtime
from meshwright.specs.weights import parameter_count
from meshwright.validation.outcomes import KINDS, Outcome, outcomes_of
from meshwright.validation.rows.configurations import configurations
from meshwright.validation.rows.reading import read_case
from meshwright.validation.rows.table import FREE_TEXT, Row, read_rows
from meshwright.validation.score.configurations_csv import configurations_csv
from meshwright.validation.score.score import Score, score_of

UNPUBLISHED = {"Nemotron3-22B"}
"""Models whose structure no source prints: the family's is assumed, and their parameters 3.3 % fewer than printed."""


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return read_rows()


@pytest.fixture(scope="module")
def outcomes(rows: list[Row]) -> list[Outcome]:
    return outcomes_of(configurations(rows))


@pytest.fixture(scope="module")
def score(outcomes: list[Outcome]) -> Score:
    return score_of(outcomes)


def test_97_percent_of_the_rows_are_represented(score: Score) -> None:
    assert score.rows == 2194
    assert score.represented >= 0.97 * score.rows


def test_only_a_framework_with_a_stand_in_has_runs_out_of_memory_called_safe(
    score: Score, outcomes: list[Outcome]
) -> None:
    """None but of Aleph Alpha's, one of twenty at most: a bound set after 6 of 192 had been seen. Of runs that their
    sources doubt two are called safe: one plan is assumed in part, the other's author found no cause.
    """
    failed = [each for each in outcomes if each.estimate and not each.configuration.fits]
    estimates = [(each.framework, each.estimate) for each in failed if each.estimate]
    safe = [(each.framework, each.sound) for each in failed if each.estimate and each.estimate.verdict == Verdict.SAFE]
    assert len(estimates) >= score.fit.oom == 255
    assert {name for name, sound in safe if sound} <= {"aa-scaling"}
    assert len([name for name, sound in safe if not sound]) <= 2
    assert len(safe) <= 0.05 * sum(name == "aa-scaling" for name, _ in estimates)
    assert score.fit.fitted_called_oom <= 0.02 * score.fit.fitted


def test_every_schedule_of_the_zero_bubble_paper_comes_out_in_the_measured_order(outcomes: list[Outcome]) -> None:
    """Qi et al., arXiv:2401.10241, tables 4, 6, 11 and 12: 1F1B, interleaved, ZB-1p, ZB-2p and ZB-V on 8 to 32 A100."""
    orders = [order for order in schedule_orders(outcomes) if order.dataset == "zerobubble"]
    assert len(orders) == 42
    assert [order for order in orders if not order.right] == []


def test_every_precision_of_bridge_is_represented(outcomes: list[Outcome]) -> None:
    bridge = [outcome for outcome in outcomes if outcome.configuration.dataset == "bridge"]
    priced = {outcome.case.inputs.job.precision for outcome in bridge if outcome.case}
    assert priced == {outcome.precision for outcome in bridge}
    assert priced == {"bf16", "fp8", "mxfp8", "nvfp4"}


def test_allocated_memory_of_a_node_of_b200_is_within_5_percent(score: Score) -> None:
    """12 layers of Llama-3 70B, Mixtral and DeepSeek-V2 on 8 B200 (SimuMax, torch max_allocated)."""
    errors = score.by["dataset"]["simumax-part"].memory
    assert errors is not None
    assert errors.mape < 0.05


def test_every_shipped_row_is_priced_or_listed_with_a_reason(rows: list[Row], outcomes: list[Outcome]) -> None:
    assert sorted(row["id"] for each in outcomes for row in each.configuration.rows) == sorted(
        row["id"] for row in rows
    )
    assert all((each.estimate is None) == bool(each.refusal) for each in outcomes)


def test_every_priced_run_that_prints_a_figure_of_a_known_kind_is_scored(outcomes: list[Outcome]) -> None:
    priced = [each for each in outcomes if each.case]
    assert priced
    for each in priced:
        given = each.configuration
        assert each.case
        assert bool(each.step_time) == bool(given.step_time_s or given.tokens_per_s_per_gpu) or not each.case.timed
        assert bool(each.memory) == (given.memory_kind in KINDS)


def test_models_have_the_parameters_that_their_sources_print(outcomes: list[Outcome]) -> None:
    told = [(each.configuration.rows[0], each.case.inputs.model) for each in outcomes if each.case]
    printed = [(row, model) for row, model in told if row["params_b"] and row["model"] not in UNPUBLISHED]
    assert printed
    for row, model in printed:
        assert parameter_count(model) == pytest.approx(float(row["params_b"]) * 1e9, rel=0.03), row["id"]


def test_the_rows_are_written_one_line_per_configuration(outcomes: list[Outcome]) -> None:
    lines = list(csv.DictReader(configurations_csv(outcomes).splitlines()))
    assert [line["id"] for line in lines] == [outcome.configuration.id for outcome in outcomes]
    assert all(bool(line["plan"]) != bool(line["not_represented"]) for line in lines)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "DeepEP disabled; no capacity limit (not token-drop moe); not power limited; first 3 layers dense; rank 3; fp8",
        "Megatron-Bridge, NeMo 24.07, torchtitan (#1690) graph_trainer, fms-fsdp, large scale, >= 128 gpus, "
        "llm-foundry, w/o mtp; recipe moe_a2a_overlap=True; consistent with full recompute",
    ],
)
def test_free_text_changes_no_configuration(outcomes: list[Outcome], text: str) -> None:
    said = dict.fromkeys((*FREE_TEXT, "id", "quality"), text)
    for outcome in outcomes:
        row = outcome.configuration.rows[0] | said
        if outcome.case:
            assert read_case(row) == outcome.case
        else:
            with pytest.raises(InvalidInput):
                read_case(row)


def test_the_name_of_a_model_changes_nothing_but_that_name(outcomes: list[Outcome]) -> None:
    """Every shipped row but two names in a column what its model consists of."""
    named = [each for each in outcomes if each.case and each.configuration.rows[0]["architecture"]]
    assert len(named) >= len([each for each in outcomes if each.case]) - 2
    for outcome in named[::5]:
        assert outcome.case
        renamed = read_case(outcome.configuration.rows[0] | {"model": "Llama-3.2-1B"})
        model = outcome.case.inputs.model.replace(name="Llama-3.2-1B")
        assert renamed.plan == outcome.case.plan
        assert renamed.inputs == outcome.case.inputs.replace(model=model)


def test_rows_of_one_configuration_are_the_same_when_free_text_is_left_out(rows: list[Row]) -> None:
    blank = [row | dict.fromkeys(FREE_TEXT, "") for row in rows]
    names = [[[row["id"] for row in each.rows] for each in configurations(given)] for given in (rows, blank)]
    assert names[0] == names[1]


def test_nothing_depends_on_the_name_of_a_dataset(rows: list[Row]) -> None:
    """The same predictions where every source is called something else."""
    some = rows[::40]
    renamed = [row | {"dataset": f"other {row['dataset']}"} for row in some]
    figures = [
        [(each.refusal, each.step_time, each.memory) for each in outcomes_of(configurations(given))]
        for given in (some, renamed)
    ]
    assert figures[0] == figures[1]


def test_no_source_is_predicted_worse_than_before_without_saying_so(score: Score) -> None:
    """Where a change is right all the same: make baseline, and name the source in docs/choices.md."""
    before = json.loads(BASELINE.read_text("utf-8"))
    now = errors_by_source(score)
    worse = [
        f"{source} {quantity}: {now[source][quantity]:.2%} after {error:.2%}"
        for source, errors in before.items()
        for quantity, error in errors.items()
        if now[source][quantity] > error + 0.001
    ]
    assert not worse
    assert now.keys() == before.keys()


def test_fifteen_constants_at_most_are_fitted_to_training_runs() -> None:
    assert len(fitted_constants()) <= 15


@pytest.mark.parametrize(
    ("runtime", "model", "accelerator", "most_micro_batches", "told"),
    [
        ("megatron-core", "GPT3-175B", "H100", 16, "6 to 16 micro-batches {} took 11 to 19 % longer"),
        ("megatron-bridge", "DeepSeek-V3", "GB200", 60, "16 to 60 micro-batches {} took 19 to 57 % longer"),
    ],
)
def test_answers_say_how_far_off_runs_of_few_micro_batches_are(
    outcomes: list[Outcome], runtime: str, model: str, accelerator: str, most_micro_batches: int, told: str
) -> None:
    """What the runtimes' files tell questions of thousands of accelerators, at the constants of the catalogue."""
    longer, micro_batches = [], []
    for each in outcomes:
        row = each.configuration.rows[0]
        if row["dataset"] != "mlperf" or row["model"] != model or not row["gpu"].startswith(accelerator):
            continue
        if int(row["num_gpus"]) >= THOUSANDS and each.case and each.case.plan.num_microbatches <= most_micro_batches:
            assert each.step_time
            longer.append(100 * (each.step_time.measured / each.step_time.predicted - 1))
            micro_batches.append(each.case.plan.num_microbatches)
    (sentence,) = (
        each["thousands_of_accelerators"]
        for each in read_runtime(runtime).assumed
        if isinstance(each, dict) and "thousands_of_accelerators" in each
    )
    before, after = told.split(" {} ")
    assert before in sentence
    assert after in sentence
    numbers = [int(word) for word in told.replace("micro-batches", "").split() if word.isdecimal()]
    assert numbers == [min(micro_batches), max(micro_batches), round(min(longer)), round(max(longer))]


def test_the_page_says_how_much_runs_with_liger_allocated(outcomes: list[Outcome]) -> None:
    its_loss = ("liger=on", "cross_entropy=fused_linear")
    with_it = [each for each in outcomes if any(name in each.configuration.rows[0]["with"] for name in its_loss)]
    held = [
        100 * (each.memory.measured / each.memory.predicted - 1)
        for each in with_it
        if each.memory and each.configuration.memory_kind == "allocated"
    ]
    page = " ".join((Path(__file__).parents[2] / "docs" / "fine-tuning.md").read_text("utf-8").split())
    assert f"The {len(held)} measured runs with it whose allocated memory is printed" in page
    assert f"{-min(held):.1f} % less to {max(held):.1f} % more than is predicted" in page


def test_answers_say_how_much_longer_all_to_alls_over_efa_make_a_step(outcomes: list[Outcome]) -> None:
    """What the library's file tells questions with experts on several nodes, at the constants of the catalogue."""
    rows = ((each, each.configuration.rows[0]) for each in outcomes)
    longer = [
        100 * (each.step_time.measured / each.step_time.predicted - 1)
        for each, row in rows
        if each.step_time and (row["dataset"], row["micro_batch_size"]) == ("aws-bridge", "4")
        if "no-expert-overlap" in row["settings"]
    ]
    told = str(read_cluster("2xaws-p5").library.all_to_all.assumed)
    assert f"{min(longer):.0f} to {max(longer):.0f} % longer than predicted" in told


def test_answers_say_how_much_less_deepseek_v3_took_on_gb300(outcomes: list[Outcome]) -> None:
    """The other half of what Megatron-Bridge's file tells questions of thousands of accelerators."""
    rows = ((each, each.configuration.rows[0]) for each in outcomes if each.step_time)
    less = [
        100 * (1 - each.step_time.measured / each.step_time.predicted)
        for each, row in rows
        if each.step_time and (row["dataset"], row["model"]) == ("mlperf", "DeepSeek-V3")
        if row["gpu"].startswith("GB300") and int(row["num_gpus"]) >= THOUSANDS
    ]
    told = str(read_runtime("megatron-bridge").assumed)
    assert f"{min(less):.0f} to {max(less):.0f} % less on GB300" in told


def test_answers_say_what_is_predicted_for_the_runs_that_they_name(outcomes: list[Outcome]) -> None:
    """`make published` writes it anew where prices changed."""
    priced = {each.configuration.id: each.step_time for each in outcomes if each.step_time}
    timed = [each for each in published_plans().layouts if each.step_time_s]
    assert all(each.predicted_s for each in timed)
    told = {each.run: each.predicted_s for each in timed if each.run in priced}
    assert len(told) > len(timed) / 2
    assert told == pytest.approx({name: priced[name].predicted for name in told}, rel=0.01)
