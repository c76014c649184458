"""Resolve: the stages that cost chooses are those that trying every split would choose."""

from __future__ import annotations

import itertools
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from meshwright.arrays import IntColumn
from meshwright.cost.memory.fit import Verdict, bounds, verdict
from meshwright.cost.step import estimate_plans
from meshwright.layout.legality import faults
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.layout.splits import layers_of_chunks
from meshwright.schedules import interleaved
from meshwright.schedules.action import ChunkTimes, play
from meshwright.schedules.pipeline import PipelineShape
from meshwright.schedules.records import Schedule, blocks
from meshwright.search.find import find
from meshwright.search.ranking.rank import LEAST_GAIN
from meshwright.search.resolve import recomputations, resolved
from meshwright.search.resolve.chunks import chunk_times, lighter_ends
from meshwright.search.resolve.stages import best_splits, named_by_ends
from meshwright.specs.inputs import Inputs
from meshwright.specs.recompute_modules import modules_of
from strategies import alternating, dense_model, latent, llama_8b, question


def _judged(plans: Plans, inputs: Inputs) -> list[tuple[int, float, float]]:
    """Verdict, seconds of the slowest stage and bytes of the fullest one, of every plan."""
    priced = estimate_plans(plans, inputs, keep_all_stages=True)
    memory, start = priced.memory, priced.stages.start
    each = verdict(bounds(memory.allocated, memory.reserved, memory.communicators, inputs), inputs)
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


@settings(max_examples=100)
@given(small())
def test_the_stages_chosen_are_the_best_of_all(drawn: tuple[Inputs, Plan]) -> None:
    """As safe as can be, then the fastest slowest stage, then the leanest fullest one."""
    inputs, plan = drawn
    (chosen,) = best_splits([plan], inputs)
    (found,) = _judged(Plans.of([chosen]), inputs)
    best = min(_judged(_every_split(plan, inputs.model.num_layers), inputs))
    if best[0] == Verdict.OUT_OF_MEMORY:
        assert chosen == plan
    else:
        assert found == pytest.approx(best, rel=1e-12)


def test_plans_resolved_together_are_those_resolved_alone() -> None:
    inputs = question(llama_8b(), "2x8:h100", global_batch=64)
    stages = [Plan(tp=2, pp=pp, dp=8 // pp, zero=1, num_microbatches=8 * pp, recompute="full") for pp in (2, 4, 8)]
    chunks = [replace(stages[1], vpp=vpp, schedule=Schedule.INTERLEAVED, recompute="selective") for vpp in (2, 4)]
    plans = [stages[0], *chunks, *stages[1:]]
    assert resolved(plans, inputs).plans == [plan for each in plans for plan in resolved([each], inputs).plans]


@settings(max_examples=40)
@given(small())
def test_the_stages_chosen_are_legal_and_never_slower_at_the_slowest_than_those_of_the_runtime(
    drawn: tuple[Inputs, Plan],
) -> None:
    inputs, plan = drawn
    if inputs.model.num_layers < plan.pp:
        return
    (chosen,) = best_splits([plan], inputs)
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
    assert best_splits([plan], inputs) == [plan]


def test_a_search_finds_the_stages_that_a_heavy_head_asks_for() -> None:
    """8 layers and a head as dear as several: the last stage holds fewer than the others."""
    inputs = question(dense_model(layers=8, vocab_size=500_000), "2x1:h100", global_batch=64, precision="bf16")
    inputs = inputs.replace(runtime=inputs.runtime.replace(schedules=("1f1b",)))
    found = find(inputs)
    piped = [each for each in (*found.best, *found.other_splits) if each.plan.chunk_layers]
    uniform = replace(piped[0].plan, chunk_layers=())
    assert piped[0].plan.chunk_layers[1] < 4
    assert piped[0].step_time_s < (1 - LEAST_GAIN) * estimate_plans(Plans.of([uniform]), inputs).step_time_s[0]


def test_many_stages_of_many_layers_are_chosen_in_little_memory() -> None:
    """Tables of every run of layers for every stage would take a gigabyte."""
    inputs = question(dense_model(layers=600), "25x8:h100", global_batch=400)
    plan = Plan(pp=200, dp=1, num_microbatches=400)
    tracemalloc.start()
    best_splits([plan], inputs)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 400e6


def test_two_stages_are_named_by_the_first() -> None:
    """Megatron-LM's `--decoder-first-pipeline-num-layers` leaves the other layers to the other stage."""
    inputs = question(llama_8b(), "1x8:h100", global_batch=64)
    plan = Plan(pp=2, dp=4, zero=1, num_microbatches=16, chunk_layers=(17, 15))
    named = named_by_ends(plan, inputs)
    assert (named.chunk_layers, named.first_stage_layers, named.last_stage_layers) == ((), 17, 0)
    assert not faults(named, inputs)
    one, other = estimate_plans(Plans.of([plan, named]), inputs).step_time_s
    assert one == other


def _played(plan: Plan, layers: IntColumn, inputs: Inputs) -> tuple[float, float]:
    """Seconds of an interleaved pipeline on a clock, every chunk with its own time, and by its closed form."""
    times = chunk_times([(plan, layers[None])], inputs)[0].reshape(plan.vpp, plan.pp)
    third = (times / 3).tolist()
    order = interleaved.actions(PipelineShape(plan.pp, plan.num_microbatches, plan.vpp, plan.pp))
    clock = play(order, ChunkTimes(third, third, third), blocks(Schedule.INTERLEAVED, plan.pp, plan.vpp))
    slowest = times.sum(axis=0).max()
    return clock.makespan_s, plan.num_microbatches * slowest + (times.sum() - slowest) / plan.vpp


@st.composite
def interleaved_plans(draw: st.DrawFn) -> tuple[Inputs, Plan]:
    """An interleaved pipeline of a model with a light or a heavy head, with one kind of layer or two."""
    pp, vpp = draw(st.integers(2, 8)), draw(st.integers(2, 4))
    layers = draw(st.integers(pp * vpp, 5 * pp * vpp))
    wide = dense_model(layers=layers, vocab_size=draw(st.sampled_from([8_000, 128_000, 500_000])))
    experts = latent().replace(layer_pattern=(0, *(1,) * (layers - 1)))
    model = draw(st.sampled_from([wide, experts]))
    inputs = question(model, f"1x{2 * pp}:h100", global_batch=1024, sequence_length=4096, precision="bf16")
    rounds = draw(st.integers(2, 6))
    return inputs, Plan(pp=pp, vpp=vpp, dp=2, zero=1, num_microbatches=rounds * pp, schedule=Schedule.INTERLEAVED)


@settings(max_examples=60)
@given(interleaved_plans())
def test_the_chunks_chosen_are_legal_and_keep_their_price_on_a_clock(drawn: tuple[Inputs, Plan]) -> None:
    """With all micro-batches of the plan, at most 2.5 % above it, and not 1 % slower than the runtime's own."""
    inputs, plan = drawn
    own = layers_of_chunks(inputs, plan)
    lighter = lighter_ends([plan], inputs)[0]
    assume(lighter)
    for chosen in lighter:
        assert sum(chosen.chunk_layers) == inputs.model.num_layers
        assert not [fault for fault in faults(chosen, inputs) if fault.where == "chunk_layers"]
        played, closed = _played(plan, np.array(chosen.chunk_layers), inputs)
        assert played <= 1.025 * closed
        assert played <= _played(plan, own, inputs)[0] * 1.01


def test_a_heavy_head_takes_the_place_of_its_chunks_layers() -> None:
    """Llama 3.1 8B, 32 layers in 16 chunks, the head as dear as one: 16 % faster than 2 layers in every chunk."""
    inputs = question(llama_8b(), "2x8:h100", sequence_length=8192, global_batch=256, precision="bf16")
    plan = Plan(pp=4, vpp=4, dp=4, zero=1, num_microbatches=64, schedule=Schedule.INTERLEAVED)
    (chosen,) = resolved([plan], inputs).plans
    assert chosen.chunk_layers[-1] == 0
    assert _played(plan, np.array(chosen.chunk_layers), inputs)[0] < 0.9 * _played(plan, np.full(16, 2), inputs)[0]


@pytest.mark.parametrize("length", [4096, 8192, 16384])
def test_the_modules_recomputed_are_the_fastest_set_that_is_as_safe(length: int) -> None:
    """Against every set of the runtime's modules, one by one."""
    inputs = question(latent(), "1x8:h100", sequence_length=length, global_batch=64, precision="bf16")
    plan = Plan(ep=8, dp=8, zero=1, num_microbatches=8, recompute="selective", recompute_modules=modules_of(["mlp"]))
    (chosen,) = resolved([plan], inputs).plans
    names = inputs.runtime.plans.recompute_modules
    sets = [modules_of(some) for count in range(1, 8) for some in itertools.combinations(names, count)]
    legal = [each for each in (replace(plan, recompute_modules=some) for some in sets) if not faults(each, inputs)]
    priced = estimate_plans(Plans.of([*legal, chosen]), inputs)
    ranks = list(zip(priced.verdict.tolist(), priced.step_time_s.tolist(), strict=True))
    assert len(legal) > 30
    assert ranks[-1] == min(ranks)


LONG = question(llama_8b(), "2x8:h100", sequence_length=8192, global_batch=64, precision="bf16")
PIPED = Plan(tp=2, sp=True, pp=4, dp=2, zero=1, micro_batch=2, num_microbatches=16, recompute="full")


def _each_number(plan: Plan, inputs: Inputs) -> tuple[list[Plan], list[int], list[float], list[float]]:
    """The plan with 0 (all) and 1 to 8 recomputed layers of every chunk: verdicts, seconds and bytes."""
    plans = [replace(plan, recompute_layers=count) for count in range(9)]
    priced = estimate_plans(Plans.of(plans), inputs)
    memory = priced.worst_memory.device
    return plans, priced.verdict.tolist(), priced.step_time_s.tolist(), memory.tolist()


def test_every_recomputed_layer_more_takes_time_and_saves_memory() -> None:
    _, _, seconds, memory = _each_number(PIPED, LONG)
    assert seconds[1:] == sorted(seconds[1:])
    assert memory[1:] == sorted(memory[1:], reverse=True)
    assert (seconds[8], memory[8]) == (seconds[0], memory[0]), "8 layers of a chunk are all of them"
    none = estimate_plans(Plans.of([replace(PIPED, recompute="none")]), LONG)
    step = (seconds[8] - none.step_time_s[0]) / 8
    assert seconds[1] - none.step_time_s[0] == pytest.approx(step, rel=1e-6)


@pytest.mark.parametrize("length", [8192, 16384, 32768])
def test_the_fewest_layers_that_make_a_plan_fit_are_recomputed(length: int) -> None:
    inputs = LONG.replace(job=LONG.job.replace(sequence_length=length))
    (chosen,) = resolved([PIPED], inputs).plans
    plans, verdicts, _, _ = _each_number(replace(PIPED, chunk_layers=chosen.chunk_layers), inputs)
    fewest = [plan for plan, judged in zip(plans[1:8], verdicts[1:8], strict=True) if judged <= verdicts[0]]
    fits = verdicts[0] < Verdict.OUT_OF_MEMORY
    assert chosen == (fewest[0] if fits and fewest else plans[0])


@pytest.mark.parametrize(("runtime", "recompute"), [("torchtitan", "full"), ("megatron-core", "none")])
def test_a_plan_that_recomputes_all_or_nothing_by_need_stays_as_it_is(runtime: str, recompute: str) -> None:
    inputs = question(llama_8b(), "2x8:h100", runtime, precision="bf16")
    plan = replace(PIPED, recompute=recompute, zero=inputs.runtime.plans.zero_stages[-1])
    assert len(recomputations([plan], inputs)[0]) == 1
