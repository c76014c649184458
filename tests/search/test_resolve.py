"""Resolve: the stages that cost chooses are those that trying every split would choose."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.cost.memory.device import Verdict, verdict
from meshwright.cost.step import estimate_plans
from meshwright.layout.legality import faults
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.search.find import LEAST_GAIN, find
from meshwright.search.resolve import best_split
from meshwright.specs.inputs import Inputs
from strategies import alternating, dense_model, latent, llama_8b, question


def _judged(plans: Plans, inputs: Inputs) -> list[tuple[int, float, float]]:
    """Verdict, seconds of the slowest stage and bytes of the fullest one, of every plan."""
    priced = estimate_plans(plans, inputs, keep_all_stages=True)
    memory, start = priced.memory, priced.stages.start
    each = verdict(memory.allocated, memory.reserved, memory.communicators, inputs)
    columns = [np.maximum.reduceat(values, start) for values in (each, priced.works.total[priced.work], memory.device)]
    return [(int(row[0]), float(row[1]), float(row[2])) for row in zip(*columns, strict=True)]


def _every_split(plan: Plan, layers: int) -> Plans:
    """Every number of layers for every stage; those between the ends hold one or more."""
    cuts = itertools.combinations_with_replacement(range(layers + 1), plan.pp - 1)
    sizes = (tuple(np.diff([0, *cut, layers]).tolist()) for cut in cuts)
    return Plans.of(replace(plan, chunk_layers=each) for each in sizes if all(each[1:-1]))


@st.composite
def small(draw: st.DrawFn) -> tuple[Inputs, Plan]:
    """A pipeline of a small model: one kind of layer, windowed ones between, or experts behind dense layers."""
    layers, pp = draw(st.integers(3, 8)), draw(st.integers(2, 4))
    wide = dense_model(layers=layers, vocab_size=draw(st.sampled_from([8_000, 128_000, 500_000])))
    experts = latent().replace(layer_pattern=(0, *(1,) * (layers - 1)))
    model = draw(st.sampled_from([wide, alternating(wide, window=512), experts]))
    length = draw(st.sampled_from([4096, 16384, 65536]))
    inputs = question(model, f"1x{2 * pp}:h100", global_batch=16, sequence_length=length, precision="bf16")
    inputs = inputs.replace(job=inputs.job.replace(mtp_layers=draw(st.sampled_from([0, 0, 1]))))
    recompute = draw(st.sampled_from(["none", "full"]))
    return inputs, Plan(pp=pp, dp=2, zero=1, num_microbatches=draw(st.sampled_from([1, 2, 8])), recompute=recompute)


@settings(max_examples=200)
@given(small())
def test_the_stages_chosen_are_the_best_of_all(drawn: tuple[Inputs, Plan]) -> None:
    """As safe as can be, then the fastest slowest stage, then the leanest fullest one."""
    inputs, plan = drawn
    chosen = best_split(plan, inputs)
    (found,) = _judged(Plans.of([chosen]), inputs)
    best = min(_judged(_every_split(plan, inputs.model.num_layers), inputs))
    if best[0] == Verdict.OUT_OF_MEMORY:
        assert chosen == plan
    else:
        assert found == pytest.approx(best, rel=1e-12)


@settings(max_examples=60)
@given(small())
def test_the_stages_chosen_are_legal_and_never_slower_at_the_slowest_than_those_of_the_runtime(
    drawn: tuple[Inputs, Plan],
) -> None:
    inputs, plan = drawn
    if inputs.model.num_layers < plan.pp:
        return
    chosen = best_split(plan, inputs)
    before, after = _judged(Plans.of([plan, chosen]), inputs)
    assert after[0] <= before[0]
    assert after[0] < before[0] or after[1] <= before[1] * (1 + 1e-12)
    assert not [fault for fault in faults(chosen, inputs) if fault.where == "chunk_layers"]


@pytest.mark.parametrize(
    ("runtime", "changes"),
    [("nanotron", {}), ("megatron-core", {"pp": 1}), ("megatron-core", {"vpp": 2, "schedule": 1})],
)
def test_a_plan_without_such_stages_stays_as_it_is(runtime: str, changes: dict[str, int]) -> None:
    inputs = question(llama_8b(), "1x8:h100", runtime)
    plan = replace(Plan(pp=4, dp=2, zero=1, num_microbatches=8), **changes)
    assert best_split(plan, inputs) == plan


def test_a_search_finds_the_stages_that_a_heavy_head_asks_for() -> None:
    """8 layers and a head as dear as several: the last stage holds fewer than the others."""
    inputs = question(dense_model(layers=8, vocab_size=500_000), "2x1:h100", global_batch=64, precision="bf16")
    inputs = inputs.replace(runtime=inputs.runtime.replace(schedules=("1f1b",)))
    found = find(inputs)
    piped = [each for each in (*found.best, *found.other_splits) if each.plan.chunk_layers]
    uniform = replace(piped[0].plan, chunk_layers=())
    assert piped[0].plan.chunk_layers[1] < 4
    assert piped[0].step_time_s < (1 - LEAST_GAIN) * estimate_plans(Plans.of([uniform]), inputs).step_time_s[0]
