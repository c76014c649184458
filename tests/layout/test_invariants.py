"""Invariants: what any plan keeps, whatever rules the file of its runtime lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from meshwright.errors import IllegalPlan, InvalidSpec
from meshwright.layout.legality import check, faults, priced_anyway, require_legal, rules_of
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.layout.splits import layers_of_chunks
from meshwright.search.find import find
from meshwright.search.plan_space.space import space
from meshwright.specs import catalog
from meshwright.specs.inputs import Inputs
from meshwright.specs.runtime.capabilities import Enforcement, RuleReference
from strategies import llama_8b, mixture, question

RUNTIMES = catalog.names("runtimes")


def _without_rules(given: Inputs) -> Inputs:
    return given.replace(runtime=given.runtime.replace(checks={}, rules=()))


def _legal(given: Inputs) -> Plans:
    plans = Plans.join(space(given))
    return plans.take(check(plans, given).legal)


@pytest.mark.parametrize("name", RUNTIMES)
def test_every_plan_divides_what_the_formulas_divide_by_without_any_rule_of_its_runtime(name: str) -> None:
    """Of an odd question: 36 sequences of 12288 tokens on 3 nodes of 4."""
    given = _without_rules(question(llama_8b(), "3x4:h100", name, global_batch=36, sequence_length=12288))
    plans, (kind,) = _legal(given), given.model.layer_kinds
    assert len(plans)
    attention, ffn = kind.attention, kind.feed_forward.ffn_size
    assert (plans.tp * plans.cp * plans.pp * plans.dp == 12).all()
    assert (plans.micro_batch * plans.dp * plans.num_microbatches == 36).all()
    assert not (12288 % plans.cp).any()
    assert not (attention.heads % plans.tp).any()
    assert not (ffn % plans.tp).any()
    shared = attention.kv_heads % plans.tp
    assert not (shared * (plans.tp % attention.kv_heads if given.runtime.plans.replicates_kv_heads else 1)).any()
    assert not (plans.sp * (12288 % (plans.tp * plans.cp))).any()
    assert not (plans.dp * plans.cp % plans.dp_replicate).any()
    assert ((plans.vpp == 1) | (plans.pp > 1)).all()
    for row in range(0, len(plans), max(len(plans) // 50, 1)):
        layers = layers_of_chunks(given, plans[row])
        assert layers.sum() == given.model.num_layers
        assert (layers >= 0).all()


@pytest.mark.parametrize(
    "name", [name for name in RUNTIMES if question(llama_8b(), "1x8:h100", name).runtime.plans.experts]
)
def test_experts_divide_over_their_ranks_without_any_rule_of_their_runtime(name: str) -> None:
    given = _without_rules(question(mixture(), "3x4:h100", name, global_batch=36))
    plans, (kind,) = _legal(given), given.model.layer_kinds
    assert len(plans)
    assert not (kind.feed_forward.count % plans.ep).any()
    assert not (kind.feed_forward.ffn_size % plans.etp).any()
    assert not (12 % (plans.etp * plans.ep * plans.pp)).any()


@pytest.mark.parametrize("name", RUNTIMES)
def test_a_batch_is_planned_whole_or_refused(name: str) -> None:
    """36 sequences on 8 ranks are never planned as 32."""
    given = _without_rules(question(llama_8b(), "1x8:h100", name, global_batch=36))
    if given.runtime.plans.tensor_parallel:
        plan = find(given, top=1).best[0].plan
        assert plan.micro_batch * plan.dp * plan.num_microbatches == 36
        return
    with pytest.raises(IllegalPlan, match="global_batch 36 is not a multiple"):
        find(given, top=1)


@pytest.mark.parametrize("name", RUNTIMES)
def test_rules_of_a_runtime_only_take_plans_away(name: str) -> None:
    given = question(llama_8b(), "3x4:h100", name, global_batch=48, sequence_length=8192)
    plans = Plans.join(space(given))
    alone, whole = check(plans, _without_rules(given)).legal, check(plans, given).legal
    assert not (whole & ~alone).any()
    broken = [fault for row in np.flatnonzero(alone & ~whole)[:20] for fault in faults(plans[int(row)], given)]
    assert all(map(priced_anyway, broken)), "what a framework adds leaves a price"


def test_a_runtime_without_a_rule_refuses_what_no_formula_can_price() -> None:
    given = _without_rules(question(llama_8b(), "1x8:h100", "megatron-core", global_batch=36))
    with pytest.raises(IllegalPlan, match="global_batch 36 is not a multiple") as refused:
        require_legal(Plan(dp=8, num_microbatches=4), given)
    assert not any(map(priced_anyway, refused.value.faults))


@pytest.mark.parametrize(
    ("listed", "told"),
    [
        ({"name": "world_size"}, r"rules\[0\].name: 'world_size' holds for every runtime"),
        ({"name": "nope"}, r"rules\[0\].name: 'nope' is no rule; known: quantised_sizes"),
        (
            {"name": "zero_without_pipeline", "parameters": {"spare": 1}},
            r"rules\[0\].parameters: 'spare' is no parameter; known: none",
        ),
    ],
)
def test_a_file_that_calls_rules_by_wrong_names_is_refused(listed: dict[str, Any], told: str) -> None:
    given = question(llama_8b(), "1x8:h100")
    with pytest.raises(InvalidSpec, match=told):
        rules_of(given.replace(runtime=given.runtime.replace(rules=(RuleReference(source="x", **listed),))))


def test_a_file_that_says_who_checks_a_rule_of_its_own_is_refused() -> None:
    given = question(llama_8b(), "1x8:h100")
    given = given.replace(runtime=given.runtime.replace(checks={"zero_without_pipeline": Enforcement(source="x")}))
    with pytest.raises(
        InvalidSpec,
        match=r"checks\.zero_without_pipeline: 'zero_without_pipeline' is no rule that holds",
    ):
        rules_of(given)
