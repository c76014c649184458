"""Stages: every layer stands on one stage, and leaving out dominated stages loses no maximum."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.layout.legality.rule import divisors
from meshwright.layout.microbatches import pipeline_shape
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.layout.stages import Stages
from meshwright.schedules import interleaved
from meshwright.schedules.peak import in_flight
from meshwright.schedules.records import Schedule
from meshwright.specs.model import Model
from strategies import alternating, dense_model, models, question, split_stages


def _plan(pp: int, vpp: int, groups: int) -> Plan:
    schedule = Schedule.INTERLEAVED if vpp > 1 else Schedule.ONE_F_ONE_B
    return Plan(pp=pp, vpp=vpp, num_microbatches=groups * pp, schedule=schedule)


def _stages(model: Model, plans: Plans, keep_all: bool = True) -> Stages:
    return split_stages(question(model, "8x8:h100"), plans, keep_all=keep_all)


@st.composite
def split_models(draw: st.DrawFn) -> tuple[Model, Plans]:
    """A model whose kinds stand in any order, and plans that divide its layers."""
    layers = draw(st.sampled_from([4, 6, 8, 12, 24]))
    pattern = draw(st.lists(st.integers(0, 1), min_size=layers, max_size=layers))
    model = alternating(dense_model(layers=layers), window=1024).replace(layer_pattern=tuple(pattern))
    pipelines = [
        _plan(pp, vpp, groups)
        for pp in divisors(layers)
        for vpp in (divisors(layers // pp) if pp > 1 else [1])
        for groups in (1, 2, 5)
    ]
    return model, Plans.of(draw(st.permutations(pipelines)))


@settings(max_examples=40)
@given(split_models())
def test_the_layers_of_all_stages_add_up_to_the_model(split: tuple[Model, Plans]) -> None:
    model, plans = split
    stages = _stages(model, plans)
    sums = np.add.reduceat(stages.layers, stages.start)
    assert (sums == model.layers_per_kind).all()
    assert (np.add.reduceat(stages.embedding.astype(int), stages.start) == 1).all()
    assert (np.add.reduceat(stages.head.astype(int), stages.start) == 1).all()
    assert (np.diff(np.append(stages.start, len(stages.plan))) == plans.pp).all()


@settings(max_examples=40)
@given(split_models())
def test_chunk_j_of_stage_r_holds_block_j_pp_and_r(split: tuple[Model, Plans]) -> None:
    model, plans = split
    stages = _stages(model, plans)
    for row in range(len(stages.plan)):
        plan, stage = plans[int(stages.plan[row])], int(stages.stage[row])
        block = model.num_layers // (plan.pp * plan.vpp)
        firsts = [(chunk * plan.pp + stage) * block for chunk in range(plan.vpp)]
        held = Counter(model.layer_pattern[first + offset] for first in firsts for offset in range(block))
        assert stages.layers[row].tolist() == [held[0], held[1]]


@settings(max_examples=40)
@given(split_models())
def test_leaving_out_dominated_stages_keeps_every_maximum_and_both_ends(split: tuple[Model, Plans]) -> None:
    model, plans = split
    all_, few = _stages(model, plans), _stages(model, plans, keep_all=False)
    assert len(few.plan) <= len(all_.plan)
    for name in ("layers", "in_flight_layers", "in_flight_micro_batches", "embedding", "head"):
        most = [np.maximum.reduceat(getattr(each, name), each.start) for each in (few, all_)]
        np.testing.assert_array_equal(*most)
    weights = np.random.default_rng(0).uniform(0, 1, (5, len(model.layer_kinds)))
    for weight in weights:
        most = [np.maximum.reduceat(each.in_flight_layers @ weight + 3 * each.head, each.start) for each in (few, all_)]
        np.testing.assert_array_equal(*most)


@settings(max_examples=40)
@given(split_models())
def test_stages_of_many_plans_are_those_of_each_plan(split: tuple[Model, Plans]) -> None:
    model, plans = split
    many = _stages(model, plans)
    for row in range(len(plans)):
        alone, rows = _stages(model, plans.take(slice(row, row + 1))), many.plan == row
        for name in ("stage", "layers", "in_flight_layers", "in_flight_micro_batches", "embedding", "head"):
            np.testing.assert_array_equal(getattr(alone, name), getattr(many, name)[rows])


@settings(max_examples=40)
@given(models(), st.integers(1, 6))
def test_live_layers_of_equal_chunks_are_live_chunks_times_their_layers(model: Model, groups: int) -> None:
    for pp in divisors(model.num_layers):
        for vpp in divisors(model.num_layers // pp) if pp > 1 else [1]:
            plan = _plan(pp, vpp, groups)
            stages = _stages(model, Plans.of([plan]))
            live = in_flight(plan.schedule, stages.stage, pipeline_shape(plan))
            assert (stages.in_flight_layers.sum(axis=1) == live * (model.num_layers // (pp * vpp))).all()


@pytest.mark.parametrize(("pp", "vpp", "groups"), [(2, 2, 4), (4, 2, 4), (4, 3, 2), (8, 2, 3), (2, 4, 1)])
def test_live_layers_by_kind_are_those_of_the_played_order_when_it_first_keeps_the_most(
    pp: int, vpp: int, groups: int
) -> None:
    """One kind of layer in the first half of the model, another in the second."""
    layers = 2 * pp * vpp
    halves = tuple(int(index >= layers // 2) for index in range(layers))
    model = alternating(dense_model(layers=layers), window=64).replace(layer_pattern=halves)
    plan = _plan(pp, vpp, groups)
    stages = _stages(model, Plans.of([plan]))
    for rank, actions in enumerate(interleaved.actions(pipeline_shape(plan))):
        most = int(in_flight(plan.schedule, rank, pipeline_shape(plan)))
        kept = Counter(action.chunk for action in actions[:most])
        blocks = [[halves[2 * (chunk * pp + rank)], halves[2 * (chunk * pp + rank) + 1]] for chunk in range(vpp)]
        expected = [sum(kept[chunk] * blocks[chunk].count(kind) for chunk in range(vpp)) for kind in (0, 1)]
        assert {action.kind for action in actions[:most]} == {"forward"}
        assert stages.in_flight_layers[rank].tolist() == expected
        assert stages.in_flight_micro_batches[rank] == len({action.micro_batch for action in actions[:most]})


def test_no_plans_have_no_stages() -> None:
    stages = _stages(dense_model(), Plans.of([]))
    assert len(stages.plan) == len(stages.start) == len(stages.layers) == 0


def test_ends_that_count_as_layers_leave_one_layer_fewer_at_each_end() -> None:
    """126 layers and two ends on 16 stages: 7, 8, ..., 8, 7."""
    plan = Plan(pp=16, num_microbatches=32, embedding_as_layer=True, head_as_layer=True)
    stages = _stages(dense_model(layers=126), Plans.of([plan]))
    assert stages.layers[:, 0].tolist() == [7, *[8] * 14, 7]


def test_an_end_that_counts_as_a_layer_takes_it_from_its_chunk_alone() -> None:
    plan = Plan(pp=2, vpp=2, num_microbatches=4, head_as_layer=True, schedule=Schedule.INTERLEAVED)
    stages = _stages(dense_model(layers=7), Plans.of([plan]))
    assert stages.layers[:, 0].tolist() == [4, 3]
    assert stages.layers.sum() == 7
