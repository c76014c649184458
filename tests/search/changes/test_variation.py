"""What if: a varied plan is priced as the same plan by itself, says what follows, and names the nearest that works."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pytest

import meshwright
from commands import LLAMA, asked
from commands import question as options
from meshwright.answers.explain.table import explain_document
from meshwright.answers.explain.vary import varied_by_names
from meshwright.answers.plan_file import json_schema
from meshwright.cost.step import estimate_each
from meshwright.errors import IllegalPlan, UnknownName
from meshwright.layout.legality import faults
from meshwright.layout.plan import Plan
from meshwright.search.changes.nearest import nearest_legal
from meshwright.specs.constraints import Constraints
from strategies import llama_70b, question

INPUTS = question(llama_70b(), "4x8:h100", global_batch=64, sequence_length=8192)
PLAN = Plan(tp=4, sp=True, pp=2, dp=4, zero=1, num_microbatches=16)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of an explained plan of Llama 3.1 8B on one node."""
    path = tmp_path_factory.mktemp("saved") / "plan.json"
    path.write_text(asked("explain", *LLAMA, "--tp", "2", "--json").out, "utf-8")
    return path


def test_dp_and_micro_batches_follow_from_a_degree() -> None:
    variation = varied_by_names(PLAN, INPUTS, tp=8)
    assert variation.plan == Plan(tp=8, sp=True, pp=2, dp=2, zero=1, num_microbatches=32)
    assert [str(each) for each in variation.named] == ["tp 4 -> 8"]
    assert [str(each) for each in variation.follows] == ["dp 4 -> 2", "m 16 -> 32"]
    assert variation.estimate.step_time_s == estimate_each([variation.plan], INPUTS)[0].step_time_s
    assert variation.saved_estimate.step_time_s == estimate_each([PLAN], INPUTS)[0].step_time_s


def test_the_question_changes_and_the_plan_stays() -> None:
    variation = varied_by_names(PLAN, INPUTS, precision="fp8", behaviours=["overlap.tensor_parallel=0.5"])
    assert variation.plan == PLAN
    assert variation.inputs.job == INPUTS.job.replace(precision="fp8")
    assert variation.inputs.runtime.overlap.tensor_parallel == 0.5
    assert [str(each) for each in variation.named] == [
        "precision fp16 -> fp8",
        "overlap.tensor_parallel 0 -> 0.5",
    ]


def test_chunks_bring_their_schedule_and_layers_that_were_named_give_way() -> None:
    unequal = Plan(tp=4, sp=True, pp=2, dp=4, zero=1, num_microbatches=16, first_stage_layers=39)
    variation = varied_by_names(unequal, INPUTS, vpp=4)
    assert (variation.plan.schedule.record.name, variation.plan.first_stage_layers) == ("interleaved", 0)
    assert str(variation.named[0]) == "vpp 1 -> 4"
    assert not faults(variation.plan, INPUTS)


def test_more_nodes_go_to_dp() -> None:
    assert varied_by_names(PLAN, INPUTS, cluster="8x8:h100").plan.dp == 8


@pytest.mark.parametrize(
    "changes", [{"tp": 3}, {"tp": 16, "dp": 4}, {"pp": 7}, {"zero": 3}, {"micro_batch": 5}, {"vpp": 83}]
)
def test_the_nearest_plan_is_legal_and_has_what_was_asked_where_any_has(changes: dict[str, int]) -> None:
    variation = varied_by_names(PLAN, INPUTS, **changes)
    broken = faults(variation.plan, variation.inputs)
    with pytest.raises(IllegalPlan, match="nearest plan that works: ") as raised:
        _ = variation.estimate
    assert raised.value.faults[:-1] == tuple(broken)
    assert not faults(variation.nearest, variation.inputs)


def test_the_nearest_plan_changes_least() -> None:
    wrong = Plan(tp=4, sp=True, pp=2, dp=4, zero=3, num_microbatches=16)
    assert nearest_legal(wrong, INPUTS) == PLAN
    assert nearest_legal(wrong, INPUTS, ["zero"]).zero == 3


def test_a_constraint_that_the_variation_breaks_is_left_out() -> None:
    within = INPUTS.replace(constraints=Constraints(tp=4, cp=1))
    variation = varied_by_names(PLAN, within, tp=8)
    assert variation.inputs.constraints == Constraints(cp=1)
    assert str(variation.follows[-1]) == "--tp 4 left out"


def test_a_count_below_one_and_an_unknown_field_are_refused() -> None:
    with pytest.raises(IllegalPlan, match="tp: is 0; it must be 1 or more"):
        varied_by_names(PLAN, INPUTS, tp=0)
    with pytest.raises(UnknownName, match="precision"):
        varied_by_names(PLAN, INPUTS, precison="fp8")


def test_the_entry_adds_up_and_keeps_the_schema() -> None:
    variation = varied_by_names(PLAN, INPUTS, tp=8, precision="fp8")
    document = json.loads(json.dumps(explain_document(variation.estimate, variation.inputs, variation=variation)))
    assert list(jsonschema.Draft202012Validator(json_schema()).iter_errors(document)) == []
    differences = document["variation"]["differences"]
    more = document["plans"][0]["step_time_s"] - document["variation"]["saved"]["step_time_s"]
    assert sum(differences["from_peak"].values()) == pytest.approx(more)
    assert sum(differences["memory"].values()) == pytest.approx(differences["device_bytes"])


def test_a_saved_plan_is_explained_with_another_degree(saved: Path) -> None:
    answer = asked("explain", str(saved), "--tp", "4", "--precision", "fp8")
    assert "Changed: precision bf16 -> fp8, tp 2 -> 4" in answer.out
    assert "This also changes: dp 4 -> 2, m 16 -> 32" in answer.out
    assert "Against the saved plan" in answer.out
    anew = asked("explain", *LLAMA, "--tp", "4", "--precision", "fp8", "--json").document
    varied = asked("explain", str(saved), "--tp", "4", "--precision", "fp8", "--json").document
    assert varied["plans"] == anew["plans"]
    assert meshwright.vary(saved, tp=4, precision="fp8").estimate.step_time_s == anew["plans"][0]["step_time_s"]


def test_check_holds_a_saved_plan_against_another_runtime(saved: Path) -> None:
    answer = asked("check", str(saved), "--runtime", "torchtitan", "--json")
    assert answer.code == 2
    assert answer.document["runtime"] == "torchtitan"
    nearest = Plan.from_dict(answer.document["variation"]["nearest"])
    assert not faults(nearest, meshwright.vary(saved, runtime="torchtitan").inputs)
    assert (
        "To make it legal: nearest plan that works: zero 1 -> 2"
        in asked("check", str(saved), "--runtime", "torchtitan").out
    )


def test_a_dash_is_standard_input(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(saved.read_bytes())))
    assert "tp2 sp pp1 dp4" in asked("check", "-").out


def test_what_has_no_meaning_beside_a_plan_file_is_refused(saved: Path) -> None:
    assert "add --model" in asked("explain", str(saved), "--text-only").message
    assert "--measured" in asked("explain", str(saved), "--measured", "runs.csv").message
    assert asked("explain", *options(model=None)).code == 2
