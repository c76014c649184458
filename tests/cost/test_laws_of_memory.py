"""Laws that every plan's memory obeys: what is split falls with its own degree, and totals contain their parts."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.cost.memory.activations import layer_memory
from meshwright.cost.memory.components import Components, communicator_bytes
from meshwright.cost.memory.ends import head_memory
from meshwright.cost.memory.fit import Verdict, bounds, eighty_percent_verdict, verdict
from meshwright.cost.memory.parameters import layer_parameters
from meshwright.cost.step import estimate_plans
from meshwright.layout.legality.rule import divisors
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import Model
from strategies import Planned, dense_model, models, planned, question, questions, some_legal_plans

CLUSTER = "8x8:h100"
RUNTIMES = ("megatron-core", "megatron-lm")
RECOMPUTE = tuple(Recompute)


def _stages(plan: Plan, inputs: Inputs) -> Components:
    """Components of all stages of one plan, first stage first."""
    return estimate_plans(Plans.of([plan]), inputs, keep_all_stages=True).memory


def _tensor_degrees(model: Model) -> list[int]:
    kind = model.layer_kinds[0]
    attention = kind.attention
    common = divisors(int(np.gcd(attention.heads, kind.feed_forward.ffn_size)))
    return [tp for tp in common if attention.kv_heads % tp == 0 or tp % attention.kv_heads == 0]


@settings(max_examples=60)
@given(planned())
def test_allocated_is_within_reserved_and_reserved_within_device_memory(case: Planned) -> None:
    memory = estimate_plans(case.plans, case.inputs).memory
    assert all((part >= 0).all() for part in memory)
    assert (memory.states <= memory.allocated).all()
    assert (memory.allocated <= memory.reserved).all()
    assert (memory.reserved <= memory.device).all()
    np.testing.assert_allclose(sum(memory), memory.device, rtol=1e-12)


@settings(max_examples=60)
@given(models(), st.sampled_from(RUNTIMES), st.sampled_from(RECOMPUTE), st.booleans())
def test_everything_split_by_tensor_parallelism_falls_with_its_degree(
    model: Model, runtime: str, recompute: Recompute, sp: bool
) -> None:
    inputs = question(model, CLUSTER, runtime)
    degrees = _tensor_degrees(model)
    for low, high in pairwise(degrees):
        few, many = (Plan(tp=tp, sp=sp, dp=2, zero=1, recompute=recompute) for tp in (low, high))
        less, more = _stages(many, inputs), _stages(few, inputs)
        for name in ("parameters", "gradients", "optimizer_states"):
            assert (getattr(less, name) < getattr(more, name)).all(), (name, low, high)
        whole = recompute == Recompute.FULL and not sp
        assert (less.activations == more.activations if whole else less.activations < more.activations).all()
        assert (less.logits + less.temporaries < more.logits + more.temporaries).all()
        assert head_memory(many, inputs).working <= head_memory(few, inputs).working


@settings(max_examples=60)
@given(models(), st.sampled_from(RUNTIMES), st.sampled_from(RECOMPUTE))
def test_sequence_parallelism_keeps_less_activations_and_the_same_states(
    model: Model, runtime: str, recompute: Recompute
) -> None:
    inputs = question(model, CLUSTER, runtime)
    for tp in _tensor_degrees(model)[1:]:
        whole = Plan(tp=tp, recompute=recompute)
        with_sp, without = _stages(replace(whole, sp=True), inputs), _stages(whole, inputs)
        assert (with_sp.activations < without.activations).all()
        np.testing.assert_array_equal(with_sp.states, without.states)


@settings(max_examples=40)
@given(models(), st.integers(1, 64), st.integers(2, 8))
def test_only_zero_divides_the_optimizer_states_by_the_data_parallel_ranks(model: Model, dp: int, factor: int) -> None:
    inputs = question(model, CLUSTER)
    for zero in (0, 1):
        few, many = (_stages(Plan(dp=degree, zero=zero), inputs) for degree in (dp, dp * factor))
        share = factor if zero else 1
        np.testing.assert_allclose(many.optimizer_states * share, few.optimizer_states, rtol=1e-12)
        for name in ("parameters", "gradients", "activations", "logits", "temporaries"):
            np.testing.assert_array_equal(getattr(many, name), getattr(few, name))


@settings(max_examples=40)
@given(models())
def test_parameters_of_middle_stages_fall_with_the_pipeline_degree(model: Model) -> None:
    inputs = question(model, CLUSTER)
    degrees = [pp for pp in divisors(model.num_layers) if pp > 2]
    middle = [_stages(Plan(pp=pp, num_microbatches=2 * pp), inputs).parameters[1:-1].max() for pp in degrees]
    assert (np.diff(middle) < 0).all()


@pytest.mark.parametrize("name", questions())
def test_the_first_stage_of_1f1b_keeps_as_many_layer_activations_whatever_the_pipeline_degree(name: str) -> None:
    inputs = questions()[name]
    layers = inputs.model.num_layers
    for pp in divisors(layers):
        equal = () if pp == 1 else (layers // pp,) * pp
        plans = Plans.of([Plan(pp=pp, num_microbatches=2 * pp, chunk_layers=equal)])
        stages = estimate_plans(plans, inputs, keep_all_stages=True).stages
        assert stages.in_flight_layers[0].sum() == layers
        assert stages.in_flight_layers[-1].sum() == layers // pp


@settings(max_examples=60)
@given(models(), st.sampled_from(RUNTIMES), st.integers(1, 4), st.booleans())
def test_full_recomputation_keeps_less_than_selective_and_selective_less_than_none(
    model: Model, runtime: str, micro_batch: int, sp: bool
) -> None:
    inputs = question(model, CLUSTER, runtime)
    for tp in _tensor_degrees(model):
        plan = Plan(tp=tp, sp=sp and tp > 1, micro_batch=micro_batch)
        for kind in model.layer_kinds:
            none, selective, full = (layer_memory(replace(plan, recompute=each), inputs, kind) for each in RECOMPUTE)
            assert full.saved < selective.saved < none.saved
            alive = {round(float(each.saved + each.again)) for each in (none, selective, full)}
            assert len(alive) == 1, "while one layer's backward works, all of it is alive"


@settings(max_examples=40)
@given(models(), st.sampled_from(RUNTIMES), st.sampled_from(RECOMPUTE), st.integers(2, 5))
def test_saved_activations_are_proportional_to_the_micro_batch(
    model: Model, runtime: str, recompute: Recompute, factor: int
) -> None:
    inputs = question(model, CLUSTER, runtime)
    one, many = (_stages(Plan(micro_batch=b, recompute=recompute), inputs).activations for b in (1, factor))
    np.testing.assert_allclose(many, factor * one, rtol=1e-12)


def test_key_and_value_weights_are_split_also_beyond_the_number_of_their_heads() -> None:
    inputs = question(dense_model(heads=16, kv_heads=4, ffn_size=4096), CLUSTER)
    (kind,) = inputs.model.layer_kinds
    hidden = inputs.model.hidden_size
    matrices = 2 * hidden * 16 * 128 + 2 * hidden * 4 * 128 + 3 * hidden * 4096
    for tp in (1, 2, 4, 8, 16):
        assert layer_parameters(Plan(tp=tp), inputs, kind) == matrices // tp + 2 * hidden


def test_a_single_rank_has_no_communicators() -> None:
    assert communicator_bytes(Plan(), questions()["llama on h100"]) == 0


def test_every_group_of_two_or_more_ranks_has_one_communicator() -> None:
    inputs = questions()["llama on h100"]
    one, pair = inputs.runtime.memory.communicator_bytes, inputs.runtime.memory.pair_communicator_bytes
    expected = {
        Plan(dp=8): 2 * one,
        Plan(tp=8): 3 * one,
        Plan(pp=2): 2 * one + pair,
        Plan(pp=8): 2 * one + 2 * pair,
        Plan(tp=2, dp=2): 4 * one,
        Plan(tp=2, dp=2, pp=2): 4 * one + pair,
    }
    assert {plan: communicator_bytes(plan, inputs) for plan in expected} == expected


def test_tied_embeddings_on_two_stages_have_a_communicator_of_their_own() -> None:
    inputs = questions()["gemma on b200"]
    untied = inputs.replace(model=inputs.model.replace(tied_embeddings=False))
    extra = inputs.runtime.memory.communicator_bytes
    assert communicator_bytes(Plan(pp=4), inputs) - communicator_bytes(Plan(pp=4), untied) == extra
    assert communicator_bytes(Plan(dp=4), inputs) == communicator_bytes(Plan(dp=4), untied)


@pytest.mark.parametrize("name", questions())
def test_the_verdict_never_improves_with_more_memory(name: str) -> None:
    inputs = questions()[name]
    visible, memory = inputs.cluster.accelerator.visible_memory_bytes, inputs.runtime.memory
    allocated = np.linspace(0, 1.5 * visible, 1000)
    reserved = (1 + memory.fragmentation) * allocated
    for communicators in (0.0, 3e9):
        codes = verdict(bounds(allocated, reserved, communicators, inputs), inputs)
        assert (np.diff(codes) >= 0).all()
        assert set(codes) == set(Verdict)
        assert (verdict(bounds(allocated, reserved, communicators + 1e9, inputs), inputs) >= codes).all()
        assert (verdict(bounds(allocated, reserved + 1e9, communicators, inputs), inputs) >= codes).all()
    assert (np.diff(eighty_percent_verdict(allocated, inputs)) >= 0).all()


@pytest.mark.parametrize("name", questions())
def test_no_plan_that_fills_more_than_the_device_is_safe(name: str) -> None:
    inputs = questions()[name]
    estimates = estimate_plans(some_legal_plans(name, 1000), inputs)
    likely = estimates.worst_memory
    least = likely.allocated + likely.context + likely.communicators
    visible = inputs.cluster.accelerator.visible_memory_bytes
    assert (estimates.verdict[least > visible] != Verdict.SAFE).all()
    assert (likely.device[estimates.verdict == Verdict.SAFE] <= visible).all()
    assert (likely.device[estimates.verdict == Verdict.OUT_OF_MEMORY] > visible).all()


def test_the_80_percent_rule_turns_at_80_and_100_percent_of_the_label() -> None:
    inputs = questions()["llama on h100"]
    label = inputs.cluster.accelerator.memory_bytes
    codes = [int(eighty_percent_verdict(share * label, inputs)) for share in (0.79, 0.8, 0.81, 1.0, 1.01)]
    assert codes == [Verdict.SAFE, Verdict.SAFE, Verdict.AT_RISK, Verdict.AT_RISK, Verdict.OUT_OF_MEMORY]
