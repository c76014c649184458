"""One plan: values of the wrong kind are refused where it is made, names stand for codes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from meshwright.errors import InvalidSpec
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.schedules.records import SCHEDULE_NAMES, Schedule
from meshwright.specs.choices import Recompute

MODULES = "core_attn, layernorm, moe_act, mla_up_proj, mlp, moe, shared_experts"


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"tp": "8"}, "tp: must be a whole number of at most 2147483647 (given: '8')"),
        ({"tp": 8.0}, "tp: must be a whole number of at most 2147483647 (given: 8.0)"),
        ({"dp": True}, "dp: must be a whole number of at most 2147483647 (given: True)"),
        ({"micro_batch": None}, "micro_batch: must be a whole number of at most 2147483647 (given: None)"),
        ({"pp": 2**31}, "pp: must be a whole number of at most 2147483647 (given: 2147483648)"),
        ({"tp": 10**5000}, "tp: must be a whole number of at most 2147483647 (given: an integer of 16610 bits)"),
        ({"sp": 1}, "sp: must be True or False (given: 1)"),
        ({"sp": "yes"}, "sp: must be True or False (given: 'yes')"),
        ({"recompute": "ful"}, "recompute: must be one of none, selective, full (given: 'ful')"),
        ({"recompute": 3}, "recompute: must be one of none, selective, full (given: 3)"),
        ({"recompute": True}, "recompute: must be one of none, selective, full (given: True)"),
        ({"recompute": []}, "recompute: must be one of none, selective, full (given: [])"),
        ({"recompute_modules": "mlp"}, f"recompute_modules: must be a list of {MODULES} (given: 'mlp')"),
        (
            {"recompute_modules": ["mlp", "x"]},
            f"recompute_modules: must be a list of {MODULES} (given: ['mlp', 'x'])",
        ),
        ({"recompute_modules": [["mlp"]]}, f"recompute_modules: must be a list of {MODULES} (given: [['mlp']])"),
        ({"recompute_modules": 128}, f"recompute_modules: must be a list of {MODULES} (given: 128)"),
        (
            {"schedule": "afab"},
            f"schedule: must be one of {', '.join(SCHEDULE_NAMES.values())} (given: 'afab')",
        ),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        Plan(**fields)
    assert [str(fault) for fault in refused.value.faults] == [told]


def test_every_fault_of_a_plan_is_told_at_once() -> None:
    wrong: dict[str, Any] = {"tp": "8", "sp": 0, "schedule": "none"}
    with pytest.raises(InvalidSpec) as refused:
        Plan(**wrong)
    assert [fault.where for fault in refused.value.faults] == ["tp", "sp", "schedule"]


def test_names_and_codes_become_members() -> None:
    given: dict[str, Any] = {"recompute": "full", "schedule": 1, "vpp": np.int64(2)}
    plan = Plan(**given)
    assert plan.recompute is Recompute.FULL
    assert plan.schedule is Schedule.INTERLEAVED
    assert type(plan.vpp) is int
    assert Plan.from_dict(plan.to_dict()) == plan


def test_a_plan_reads_as_people_write_it() -> None:
    plan = Plan(tp=8, sp=True, pp=2, vpp=4, dp=4, zero=1, num_microbatches=64)
    assert str(plan) == "tp8 sp pp2 vpp4 dp4 zero1 mbs1 m64"
    assert str(plan) in (Plan.__str__.__doc__ or "")


@pytest.mark.parametrize(
    ("recompute", "modules", "words"),
    [
        ("none", ["layernorm"], ""),
        ("full", ["layernorm"], " recompute-full"),
        ("selective", ["core_attn"], " recompute-selective"),
        ("selective", ["moe_act", "layernorm"], " recompute-selective(layernorm,moe_act)"),
    ],
)
def test_modules_are_named_where_selective_recomputation_has_more_than_the_attention_core(
    recompute: Any, modules: Any, words: str
) -> None:
    plan = Plan(recompute=recompute, recompute_modules=modules)
    assert str(plan) == f"{Plan()}{words}"
    assert Plan.from_dict(plan.to_dict()) == plan
    assert set(plan.to_dict()["recompute_modules"]) == set(modules)
    assert Plans.of([plan])[0] == plan


def test_named_layers_and_groups_are_told_and_read_back() -> None:
    plan = Plan(pp=2, vpp=3, chunk_layers=[4, 4, 4, 5, 4, 4], num_microbatches=7, microbatch_group=3, schedule=1)
    assert "chunks(4*3,5,4*2)" in str(plan)
    assert "m7 group3" in str(plan)
    assert Plan.from_dict(plan.to_dict()) == plan
    assert str(Plan(pp=2, first_stage_layers=3, last_stage_layers=5)).startswith("tp1 pp2 first3 last5 dp1")


def test_layers_of_chunks_are_whole_numbers() -> None:
    with pytest.raises(InvalidSpec, match="chunk_layers: must be a list of whole numbers"):
        Plan(pp=2, chunk_layers=(1.5, 2))  # type: ignore[arg-type]
