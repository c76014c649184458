"""Answers with experts: one line and one entry on how unequal the ranks are, beside even routing."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from meshwright.answers.basis.assumptions import assumptions
from meshwright.answers.basis.uncertainty import step_time_interval
from meshwright.answers.experts.routing import rank_imbalance, routing_lines
from meshwright.answers.explain.table import explain_document
from meshwright.answers.plan_file import json_schema
from meshwright.cost.estimate import Estimate
from meshwright.cost.step import estimate_each
from meshwright.layout.plan import Plan
from meshwright.specs.inputs import Inputs
from strategies import llama_8b, mixture, question

PLAN = Plan(dp=16, ep=8, zero=1, num_microbatches=4)


def _asked(**job: Any) -> Inputs:
    return question(mixture(), "2x8:h100", **{"global_batch": 64, "expert_imbalance": None, **job})


def _priced(inputs: Inputs, plan: Plan = PLAN) -> Estimate:
    return estimate_each([plan], inputs)[0]


def test_a_plan_with_experts_tells_both_cases_in_one_line() -> None:
    inputs = _asked()
    (line,) = routing_lines(_priced(inputs), inputs)
    assert "1.32 times the mean tokens, as is usual (1.07 to 1.58 in 8 of 10 runs); with even" in line
    (bullet,) = [each for each in assumptions(inputs) if "standard deviation" in each]
    assert "5 measured runs" in bullet


@pytest.mark.parametrize(
    ("inputs", "plan"),
    [
        (_asked(), Plan(dp=16, zero=1, num_microbatches=4)),
        (_asked(expert_imbalance=1.0), PLAN),
        (_asked(expert_capacity=1.0), PLAN),
        (question(llama_8b(), "2x8:h100", global_batch=64), Plan(dp=16, zero=1, num_microbatches=4)),
    ],
)
def test_where_all_ranks_are_alike_nothing_is_told(inputs: Inputs, plan: Plan) -> None:
    assert routing_lines(_priced(inputs, plan), inputs) == []


def test_tokens_that_a_runtime_drops_are_told() -> None:
    inputs = question(mixture(), "2x8:h100", "internevo", global_batch=64, expert_imbalance=None)
    (line,) = routing_lines(_priced(inputs), inputs)
    assert (
        line
        == "An expert takes at most 1 x its equal share of tokens; the rest are dropped, as internevo does by default"
    )


def test_tokens_that_a_capacity_below_1_drops_are_told() -> None:
    inputs = _asked(expert_capacity=0.1)
    (line,) = routing_lines(_priced(inputs), inputs)
    assert line == (
        "An expert takes at most 0.1 x its equal share of tokens; the rest are dropped, as you asked. That is at least "
        "90%, which MFU does not count"
    )


def test_an_imbalance_that_the_job_gives_is_told_as_its_own() -> None:
    inputs = _asked(expert_imbalance=1.5)
    (line,) = routing_lines(_priced(inputs), inputs)
    assert "1.50 times the mean tokens, as you asked" in line
    assert not any("standard deviation" in each for each in assumptions(inputs))


def test_the_plan_file_has_both_cases() -> None:
    inputs = _asked()
    estimate, even = _priced(inputs), _priced(inputs.with_even_routing())
    document = json.loads(json.dumps(explain_document(estimate, inputs), allow_nan=False))
    jsonschema.Draft202012Validator(json_schema()).validate(document)
    entry = document["plans"][0]
    assert entry["routing"]["even"]["step_time_s"] == even.step_time_s < entry["step_time_s"]
    assert entry["routing"]["even"]["device_bytes"] == even.memory.device < entry["memory"]["device_bytes"]
    assert entry["routing"]["p10"] < entry["routing"]["expert_imbalance"] < entry["routing"]["p90"]
    again = Inputs(**document["inputs"])
    assert again.routes_as_usual


def test_the_interval_of_a_step_is_wider_than_if_its_routing_were_known() -> None:
    inputs = _asked()
    estimate = _priced(inputs)
    unknown, known = (step_time_interval(estimate, each) for each in (inputs, inputs.with_even_routing()))
    assert unknown.p10 < known.p10 < known.p90 < unknown.p90


def test_a_model_without_experts_has_no_entry() -> None:
    inputs = question(llama_8b(), "2x8:h100", global_batch=64)
    estimate = _priced(inputs, Plan(dp=16, zero=1, num_microbatches=4))
    assert rank_imbalance(estimate, inputs) is None
    assert "routing" not in explain_document(estimate, inputs)["plans"][0]
