"""The score and its three forms: JSON, a screen, and one line per configuration."""

from __future__ import annotations

import csv
import io
import json

import pytest
from rich.console import Console

from meshwright.answers.document.terminal import terminal
from meshwright.answers.records import json_of
from meshwright.cost.memory.fit import Verdict
from meshwright.validation.outcomes import Outcome
from meshwright.validation.score.configurations_csv import COLUMNS, configurations_csv
from meshwright.validation.score.score import score_of, verdict_counts
from meshwright.validation.score.screen import score_screen
from tables import judged, llama, outcome, outcome_of_row

KEYS = {
    *("rows", "represented", "skipped", "step_time", "memory", "memory_by_kind", "mean_of_datasets", "judged_together"),
    "memory_not_scored",
    *("fit", "ranking", "by", "intervals", "apart"),
}


def _screen(outcomes: list[Outcome]) -> str:
    console = Console(width=80, file=io.StringIO(), markup=False, emoji=False, highlight=False)
    with console.capture() as printed:
        console.print(terminal(score_screen(score_of(outcomes))))
    assert max(map(len, printed.get().splitlines())) <= 80
    return printed.get()


def _mixed() -> list[Outcome]:
    refused = outcome_of_row(llama(id="lost", gpu="warp-9"))
    doubted = outcome((1.0, 3.0), (10.0, 30.0), quality="slow")
    runs = [outcome((10.0 + n, 11.0), (50.0, 40.0), memory_kind="reserved") for n in range(3)]
    return [refused, doubted, *runs, outcome(memory=(10.0, 12.0), dataset="theirs", runtime="torchtitan")]


def test_the_document_says_what_was_scored_and_what_was_not() -> None:
    document = json_of(score_of(_mixed()))
    assert set(document) == KEYS
    assert document["rows"] == 6
    assert [each["id"] for each in document["skipped"]] == ["lost"]
    assert "warp-9" in document["skipped"][0]["reason"]
    assert {kind: errors["n"] for kind, errors in document["memory_by_kind"].items()} == {"allocated": 1, "reserved": 3}
    assert document["mean_of_datasets"]["memory"] == pytest.approx(0.2)
    assert set(document["by"]) == {"dataset", "runtime", "accelerator", "precision"}
    assert set(document["by"]["runtime"]) == {"megatron-core", "torchtitan"}
    assert document["by"]["dataset"]["theirs"]["step_time"] is None
    assert set(document["judged_together"]) == {"dense, bf16 and fp16, Megatron"}
    assert [each["n"] for each in document["ranking"]] == [3]


def test_what_its_source_doubts_is_apart_and_in_nothing_else() -> None:
    document = json_of(score_of(_mixed()))
    assert document["apart"]["slow"]["step_time"]["mape"] == pytest.approx(2)
    assert document["step_time"]["n"] == document["by"]["dataset"]["mine"]["step_time"]["n"] == 3
    assert document["memory"]["n"] == 4
    assert document["step_time"]["mape"] < 0.2


@pytest.mark.parametrize("outcomes", [[], [outcome()], [outcome_of_row(llama(gpu="warp-9"))]])
def test_where_nothing_was_measured_the_score_is_null_and_not_nan(outcomes: list[Outcome]) -> None:
    document = json.loads(json.dumps(json_of(score_of(outcomes)), allow_nan=False))
    assert set(document) == KEYS
    assert document["step_time"] is document["memory"] is document["mean_of_datasets"]["memory"] is None
    assert f"of {len(outcomes)} row{' is' if len(outcomes) == 1 else 's are'} represented" in _screen(outcomes)


def test_verdicts_are_counted_beside_what_happened() -> None:
    ran_out = [judged(verdict, fits="no") for verdict in (Verdict.OUT_OF_MEMORY, Verdict.AT_RISK, Verdict.SAFE)]
    ran = [judged(verdict) for verdict in (Verdict.OUT_OF_MEMORY, Verdict.AT_RISK, Verdict.SAFE, Verdict.SAFE)]
    assert verdict_counts([*ran_out, *ran, outcome()]) == (3, 1, 4, 1)


@pytest.mark.parametrize("name", ["x" * 200, "a source of many words " * 9])
def test_the_screen_keeps_every_figure_at_80_columns(name: str) -> None:
    runs = [outcome((10.0, 11.0), (1e-9, 40.0), dataset=name, quality=quality) for quality in ("", name)]
    screen = _screen(runs)
    assert "…" not in screen
    assert screen.count("+10.0%") == 4
    assert screen.count("+4e+10") == 4


def test_the_screen_lists_reasons_once_with_the_rows_that_have_them() -> None:
    screen = _screen([outcome_of_row(llama(id=f"row-{n}", gpu="warp-9")) for n in range(6)])
    assert screen.count("warp-9") == 1
    assert "row-0, row-1, row-2, row-3 and 2 more" in screen


def test_the_rows_have_a_header_and_a_line_for_every_configuration() -> None:
    row = llama(notes='a "b", c', micro_batch_size="", step_time_s="", tokens_per_s_per_gpu="6553.6")
    outcomes = [*_mixed(), outcome_of_row(row)]
    lines = list(csv.DictReader(io.StringIO(configurations_csv(outcomes))))
    assert len(lines) == len(outcomes)
    assert (lines[0]["plan"], lines[0]["step_time_measured_s"]) == ("", "2.5")
    assert "warp-9" in lines[0]["not_represented"]
    assert lines[-1]["step_time_measured_s"] == "2.5"
    assert float(lines[-1]["step_time_error"]) == pytest.approx(
        float(lines[-1]["step_time_predicted_s"]) / 2.5 - 1, abs=1e-4
    )
    low, predicted, high = (float(lines[-1][f"step_time_{name}_s"]) for name in ("p10", "predicted", "p90"))
    assert low < predicted < high
    assert lines[0]["step_time_p10_s"] == ""
    assert "the fastest that fits" in lines[-1]["assumed"]
    assert configurations_csv([]).splitlines() == [",".join(COLUMNS)]
