"""Legality: whole tables and single plans are judged alike, and every refusal names a change that is legal."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from commands import hangs_after
from hints import leads_to_legal
from meshwright.errors import IllegalPlan
from meshwright.layout.legality import RULES, check, faults, may_be_legal, require_legal, rules_of
from meshwright.layout.legality.rule import divisors, nearest
from meshwright.layout.plan import KINDS, MAX_COUNT, Plan
from meshwright.layout.plans import Plans
from meshwright.schedules.records import Schedule
from meshwright.search.plan_space.space import space
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from strategies import any_plans, dense_model, inputs, legal_plans, question, questions, ruled

INPUTS = inputs()


@pytest.mark.parametrize("name", questions())
def test_tables_and_single_plans_are_judged_alike(name: str) -> None:
    given = questions()[name]
    plans = Plans.join(space(given))
    legality = check(plans, given)
    for row in np.random.default_rng(0).permutation(len(plans))[:400]:
        broken = faults(plans[int(row)], given)
        assert legality.legal[row] == (not broken)
        assert {fault.where for fault in broken} <= set(legality.refused)
    for rule in rules_of(given):
        alone = [bool(rule.legal(plans[row], given)) for row in range(0, len(plans), 97)]
        assert alone == np.broadcast_to(rule.legal(plans, given), len(plans))[::97].tolist()


@settings(max_examples=40)
@given(ruled(), st.lists(any_plans(), min_size=1, max_size=20))
def test_no_plan_is_legal_whose_degrees_are_refused_alone(given: Inputs, rows: list[Plan]) -> None:
    for plan in rows:
        alone = Plan(tp=plan.tp, dp=plan.dp * plan.micro_batch, etp=plan.etp, num_microbatches=plan.num_microbatches)
        assert may_be_legal(alone, given) or faults(plan, given)


@settings(max_examples=40)
@given(ruled(), st.lists(any_plans(), min_size=1, max_size=20))
def test_every_rule_judges_columns_as_it_judges_their_plans(given: Inputs, rows: list[Plan]) -> None:
    plans = Plans.of(rows)
    for rule in RULES.values():
        column = np.broadcast_to(rule.legal(plans, given), len(plans))
        assert column.tolist() == [bool(rule.legal(row, given)) for row in rows], rule.name


@settings(max_examples=100)
@given(ruled(), st.data())
def test_the_largest_numbers_that_a_plan_can_hold_are_judged(given: Inputs, data: st.DataObject) -> None:
    counts = [name for name, kind in KINDS.items() if kind is int and name != "zero"]
    huge = data.draw(st.dictionaries(st.sampled_from(counts), st.sampled_from([MAX_COUNT, MAX_COUNT - 1]), min_size=1))
    assert faults(replace(Plan(), **huge), given)


@pytest.mark.parametrize(
    ("rule", "degrees"),
    [
        ("layers_fill_chunks", {"pp": MAX_COUNT, "dp": MAX_COUNT}),
        ("replicas", {"dp": MAX_COUNT, "cp": MAX_COUNT, "dp_replicate": MAX_COUNT - 1}),
        ("tokens_per_microbatch", {"cp": MAX_COUNT, "micro_batch": MAX_COUNT - 1}),
        ("expert_shard_group", {"tp": MAX_COUNT, "cp": MAX_COUNT, "ep": MAX_COUNT - 1}),
    ],
)
def test_products_of_the_largest_numbers_are_judged_in_no_time(rule: str, degrees: dict[str, int]) -> None:
    """In seconds of processor time; one by one, the divisors of such a product take minutes."""
    given = questions()["llama on h100"]
    with hangs_after(5):
        reason = RULES[rule].reason(Plan(**degrees), given)
    assert str(MAX_COUNT) in reason


@settings(max_examples=40)
@given(INPUTS, st.lists(any_plans(), min_size=1, max_size=20))
def test_counts_of_refusals_are_those_of_the_single_plans(given: Inputs, rows: list[Plan]) -> None:
    legality = check(Plans.of(rows), given)
    broken = [{fault.where for fault in faults(row, given)} for row in rows]
    assert legality.refused == {rule.name: sum(rule.name in each for each in broken) for rule in rules_of(given)}
    assert legality.legal.tolist() == [not each for each in broken]


@pytest.mark.parametrize("name", questions())
def test_a_legal_plan_is_accepted_and_an_illegal_one_refused_with_all_its_faults(name: str) -> None:
    given = questions()[name]
    legal = legal_plans(given)[0]
    require_legal(legal, given)
    wrong = replace(legal, dp=legal.dp + 1, vpp=legal.vpp * 7)
    with pytest.raises(IllegalPlan) as refused:
        require_legal(wrong, given)
    assert refused.value.faults == tuple(faults(wrong, given))
    assert len(refused.value.faults) >= 2


@settings(max_examples=400)
@given(given=ruled(), plan=any_plans())
def test_every_refusal_names_its_values_and_changes_that_keep_the_rule(given: Inputs, plan: Plan) -> None:
    """Where several degrees have to change, each step names one of them: cp, then pp, then tp, then dp; without
    chunks, groups of micro-batches go too."""
    steps = {"world_size": 4, "global_batch": 2, "expert_world_size": 3, "experts_present": 2, "layers_fill_chunks": 3}
    steps |= {"microbatch_groups": 2, "schedule_both_ways": 2}
    for rule in RULES.values():
        if not rule.legal(plan, given):
            reason = rule.reason(plan, given)
            assert leads_to_legal(rule, plan, given, steps.get(rule.name, 1)), f"{rule.name}: {reason}"
            assert re.search(r"\d", reason)
            assert "\n" not in reason
            assert not re.search(r"\bnan\b", reason.lower())
            assert not re.search(r"nearest \w+: *([,;(]|$)", reason), "a hint without a value"


def test_the_hints_for_dp_and_micro_batches_can_be_followed_together() -> None:
    given = question(dense_model(), "8x8:h100")
    batch, plan = given.job.global_batch, Plan(tp=8, num_microbatches=3)
    told = {fault.where: fault.what for fault in faults(plan, given)}
    assert "dp 8 makes it 64" in told["world_size"]
    assert f"; with dp 8, num_microbatches {batch // 8} makes it so" in told["global_batch"]
    both = {fault.where for fault in faults(replace(plan, dp=8, num_microbatches=batch // 8), given)}
    assert not both & {"world_size", "global_batch"}
    uneven = {fault.where: fault.what for fault in faults(replace(plan, micro_batch=7), given)}
    assert f"with dp 8, global_batch {batch} is not a multiple of micro_batch 7 x dp 8" in uneven["global_batch"]


def test_the_hint_for_key_value_heads_is_legal_for_every_kind_of_layer() -> None:
    given = question(dense_model(heads=24, kv_heads=12, ffn_size=9216), "8x8:h100")
    (kind,) = given.model.layer_kinds
    other = kind.replace(name="other", attention=kind.attention.replace(kv_heads=8))
    given = given.replace(model=given.model.replace(layer_kinds=(kind, other), layer_pattern=(0, 1) * 12))
    rule = RULES["kv_heads"]
    for tp in range(1, 49):
        plan = Plan(tp=tp)
        assert leads_to_legal(rule, plan, given, steps=1), rule.reason(plan, given)


def test_the_hint_for_sequence_parallelism_is_a_degree_that_can_be_sequence_parallel() -> None:
    given = question(dense_model(), "8x8:h100", sequence_length=4095)
    rule, plan = RULES["sequence_parallel"], Plan(tp=2, sp=True)
    assert leads_to_legal(rule, plan, given, steps=1), rule.reason(plan, given)


def test_the_hint_for_a_pipeline_that_cannot_divide_the_cluster_names_the_nearest_one() -> None:
    given = question(dense_model(), "8x8:h100")
    rule, plan = RULES["world_size"], Plan(pp=12)
    assert leads_to_legal(rule, plan, given, steps=3), rule.reason(plan, given)


@pytest.mark.parametrize("field", ["tp", "pp", "dp", "vpp", "micro_batch", "num_microbatches"])
@pytest.mark.parametrize("value", [0, -1])
def test_a_degree_below_one_is_refused_before_any_rule_divides_by_it(field: str, value: int) -> None:
    with pytest.raises(IllegalPlan, match=f"{field}: is {value}"):
        require_legal(replace(Plan(), **{field: value}), questions()["llama on h100"])


def test_what_a_runtime_does_not_have_is_refused() -> None:
    old = questions()["gpt on v100, megatron-lm"]
    with pytest.raises(IllegalPlan, match="ZeRO 1"):
        require_legal(Plan(dp=32, zero=1), old)
    without = old.replace(runtime=old.runtime.replace(recompute=("none", "full")))
    with pytest.raises(IllegalPlan, match="recompute selective"):
        require_legal(Plan(dp=32, recompute=Recompute.SELECTIVE), without)


@pytest.mark.parametrize(
    ("name", "modules", "told"),
    [
        (
            "gpt on v100, megatron-lm",
            ["core_attn", "mlp"],
            "recompute_modules mlp is not modelled for megatron-lm",
        ),
        ("llama on h100, torchtitan", ["layernorm"], "recompute_modules layernorm is not modelled for torchtitan"),
        ("llama on h100", [], "recompute_modules names 0 modules; it has 7: core_attn,layernorm"),
    ],
)
def test_modules_that_a_runtime_does_not_have_are_refused(name: str, modules: list[str], told: str) -> None:
    given, fields = questions()[name], {"recompute": "selective", "recompute_modules": modules}
    with pytest.raises(IllegalPlan, match=told):
        require_legal(Plan(dp=given.cluster.num_gpus, **fields), given)


def test_a_runtime_that_chooses_for_itself_takes_the_default_modules() -> None:
    given = questions()["llama on h100, torchtitan"]
    require_legal(Plan(dp=16, zero=3, num_microbatches=4, recompute=Recompute.SELECTIVE), given)


def test_a_runtime_without_sequence_parallelism_refuses_it() -> None:
    old = questions()["gpt on v100, megatron-lm"]
    plain = Plan(tp=2, dp=4, pp=4, num_microbatches=16)
    require_legal(plain, old)
    with pytest.raises(IllegalPlan):
        require_legal(replace(plain, sp=True), old)


def test_a_runtime_without_the_interleaved_schedule_refuses_it() -> None:
    given = questions()["llama on h100"]
    without = given.replace(runtime=given.runtime.replace(schedules=("1f1b",)))
    chunked = Plan(tp=2, dp=4, pp=4, num_microbatches=16, vpp=2, schedule=Schedule.INTERLEAVED)
    require_legal(chunked, given)
    with pytest.raises(IllegalPlan):
        require_legal(chunked, without)


@given(st.integers(1, 5000), st.integers(1, 10))
def test_divisors_are_all_of_them_in_order(number: int, factor: int) -> None:
    every = [each for each in range(1, number * factor + 1) if number * factor % each == 0]
    assert divisors(number * factor) == every
    assert divisors(number, factor) == every


@given(st.integers(1, 100), st.lists(st.integers(1, 100), unique=True, max_size=8).map(sorted))
def test_the_nearest_choices_are_the_ones_next_to_the_value(value: int, choices: list[int]) -> None:
    below, above = [each for each in choices if each < value], [each for each in choices if each > value]
    named = nearest(value, choices).split(" or ")
    assert named == ([str(max(below))] if below else []) + ([str(min(above))] if above else []) or named == [""]


@pytest.mark.parametrize(("layers", "legal"), [(80, False), (78, True)])
def test_both_ends_as_layers_divide_as_megatron_tried(layers: int, legal: bool) -> None:
    """PP 2 with 4 virtual stages: (80 + 2) / 2 = 41 is not divisible by 4, (78 + 2) / 2 = 40 does."""
    given = question(dense_model(layers=layers), "8x8:h100", global_batch=64)
    ends = {"embedding_as_layer": True, "head_as_layer": True}
    plan = Plan(pp=2, vpp=4, dp=32, num_microbatches=2, schedule=Schedule.INTERLEAVED, **ends)
    assert (not faults(plan, given)) == legal


def test_a_published_layout_of_126_layers_is_legal() -> None:
    given = question(dense_model(layers=126, heads=128, kv_heads=8, ffn_size=53248), "16x8:h100", global_batch=16)
    plan = Plan(tp=8, pp=16, num_microbatches=16, embedding_as_layer=True, head_as_layer=True)
    assert not faults(plan, given)
