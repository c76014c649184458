"""Why a question has no plan that keeps its constraints: the rule that the nearest breaks, and what works."""

from __future__ import annotations

import re

import pytest

from meshwright import IllegalPlan
from meshwright.search.find import find
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.constraints import Constraints
from meshwright.specs.inputs import Inputs
from strategies import llama_8b, question

pytestmark = pytest.mark.slow

ASKED = question(llama_8b(), "2x8:h100", global_batch=32, sequence_length=8192)


def within(inputs: Inputs, **constraints: object) -> Inputs:
    return inputs.replace(constraints=Constraints(**constraints))


@pytest.mark.parametrize(
    ("constraints", "rule"),
    [
        ({"tp": 3}, "tp x cp x pp x dp must make the 16 accelerators"),
        ({"tp": 3, "zero": 1}, "tp x cp x pp x dp must make the 16 accelerators"),
        ({"tp": 8, "pp": 16}, "tp x cp x pp x dp must make the 16 accelerators"),
        ({"tp": 8, "pp": 2, "vpp": 7, "even_chunks": True}, "pp x vpp chunks share 32 layers, and vpp is 1 without a"),
        ({"ep": 4}, "experts_present: ep 4, but llama has no experts"),
        ({"zero": 2, "pp": 2, "dp": 2}, "zero_without_pipeline: zero 2 does not go with pp 2 in megatron-core"),
        ({"pp": 1, "vpp": 2}, "interleaving: vpp 2 needs pp 2 or more"),
    ],
)
def test_an_impossible_combination_names_the_rule_and_what_works(constraints: dict[str, int], rule: str) -> None:
    with pytest.raises(IllegalPlan) as raised:
        find(within(ASKED, **constraints))
    [broken] = [line for line in str(raised.value).split("\n  - ")[1:] if not line.startswith("--")]
    assert broken.startswith(rule)
    hints = re.findall(r"--([a-z-]+) \S+: no legal plan has it.*?; nearest [a-z-]+: ([\d, ]+)", str(raised.value))
    assert hints
    for name, values in hints:
        for value in values.split(", "):
            find(within(ASKED, **{**constraints, name.replace("-", "_"): int(value)}))


def test_of_several_constraints_each_that_leaves_no_plan_by_itself_is_told() -> None:
    inputs = question(llama_8b(), "1x8:h100", "pytorch-ddp", global_batch=32)
    with pytest.raises(IllegalPlan) as raised:
        find(within(inputs, pp=4, zero=3, tp=1))
    told = [fault.where for fault in raised.value.faults]
    assert told == ["pipeline_parallel", "--pp 4", "zero", "--zero 3"]


def test_a_schedule_that_settings_rule_out_names_them() -> None:
    inputs = question(llama_8b(), "2x8:h100", "torchtitan", global_batch=32, sequence_length=8192)
    wanted = {"schedule": "zb-v", "pp": 4}
    with pytest.raises(IllegalPlan, match="split_backward_compiled") as raised:
        find(within(inputs, **wanted))
    settings = re.findall(r"--with (\S+)", str(raised.value))
    assert settings == ["compiled=false", "cross_entropy=eager"]
    find(within(inputs.replace(runtime=with_behaviours(inputs.runtime, settings)), **wanted))
