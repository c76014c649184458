"""Splits: every layer stands in one chunk, and the published examples of every runtime come out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.arrays import IntColumn
from meshwright.layout.plan import Plan
from meshwright.layout.splits import back, balanced, crossing, front, layers_of_chunks
from meshwright.specs.model import Model
from strategies import dense_model, latent, llama_70b, question

RULES = ("even", "outer_fewer", "front", "back", "matrix_products", "balanced_layers", "balanced_parameters")


def _sizes(model: Model, rule: str, plan: Plan) -> IntColumn:
    inputs = question(model, "1x8:h100")
    return layers_of_chunks(inputs.replace(runtime=inputs.runtime.replace(stage_split=rule)), plan)


@given(st.sampled_from(RULES), st.integers(4, 60), st.integers(1, 4))
def test_every_layer_stands_in_one_chunk(rule: str, layers: int, pp: int) -> None:
    sizes = _sizes(dense_model(layers=layers), rule, Plan(pp=pp))
    assert sizes.sum() == layers
    assert len(sizes) == pp
    assert (sizes >= 0).all()


def test_torchtitan_counts_both_ends_and_gives_the_first_stages_more() -> None:
    """80 layers on 8 stages (torchtitan b5bcd76c66d0)."""
    sizes = _sizes(llama_70b(), "front", Plan(pp=8, embedding_as_layer=True, head_as_layer=True))
    assert sizes.tolist() == [10, 11, 10, 10, 10, 10, 10, 9]


def test_nanotron_splits_llama_70b_in_41_and_39() -> None:
    assert _sizes(llama_70b(), "matrix_products", Plan(pp=2)).tolist() == [41, 39]


def test_bigscience_gives_each_end_the_place_of_a_layer() -> None:
    """BLOOM, 70 layers on 12 stages (bigscience, train/tr11-176B-ml/chronicles-prequel.md, Rebalancing layers)."""
    plan = Plan(pp=12, embedding_as_layer=True, head_as_layer=True)
    assert _sizes(dense_model(layers=70), "balanced_layers", plan).tolist() == [5, *[6] * 10, 5]


def test_an_end_that_weighs_as_much_as_layers_takes_their_place() -> None:
    sizes = _sizes(latent(), "balanced_parameters", Plan(pp=2))
    assert sizes.sum() == 8
    wide = dense_model(layers=8, vocab_size=1_000_000)
    assert _sizes(wide, "balanced_parameters", Plan(pp=4)).tolist() == [0, 4, 4, 0]


@given(st.integers(1, 200), st.integers(1, 16))
def test_the_first_stages_have_one_more_at_most(layers: int, chunks: int) -> None:
    sizes = front(layers, chunks)
    assert sizes.sum() == layers
    assert sizes[0] - sizes[-1] in (0, 1)
    assert (np.diff(sizes) <= 0).all()


@given(st.integers(1, 40), st.integers(1, 8), st.integers(1, 4))
def test_the_last_stages_of_every_round_have_one_more_at_most(layers: int, stages: int, rounds: int) -> None:
    sizes = back(layers * rounds, stages, rounds).reshape(rounds, stages)
    assert (sizes.sum(axis=1) == layers).all()
    assert (np.diff(sizes, axis=1) >= 0).all()
    assert sizes.max() - sizes.min() <= 1


@given(st.lists(st.integers(1, 9), min_size=3, max_size=9), st.integers(2, 3))
def test_no_chunk_but_the_last_stops_short_of_its_share(weights: list[int], chunks: int) -> None:
    sums, share = np.cumsum(weights), sum(weights) / chunks
    ends = np.cumsum(crossing(np.array(weights, dtype=float), np.ones(len(weights), dtype=int), chunks))
    for chunk, end in enumerate(ends[:-1], start=1):
        assert end == len(weights) or sums[end - 1] > chunk * share


@given(st.lists(st.integers(1, 9), min_size=4, max_size=9))
def test_two_balanced_chunks_differ_as_little_as_any_two(weights: list[int]) -> None:
    whole = np.array(weights, dtype=float)
    cut = int(balanced(whole, np.ones(len(weights), dtype=int), 2)[0])
    spreads = [abs(whole[:at].sum() - whole[at:].sum()) for at in range(1, len(weights))]
    assert abs(whole[:cut].sum() - whole[cut:].sum()) == min(spreads)


def test_equal_layers_are_balanced_like_any_best_split() -> None:
    sizes = balanced(np.ones(61), np.ones(61, dtype=int), 8)
    assert sorted(sizes.tolist()) == [7, 7, 7, 8, 8, 8, 8, 8]


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [(6, 2, [3, 4, 4, 1] * 2), (2, 0, [1, 5, 5, 5] * 2), (0, 8, [4, 4, 4, 4] * 2)],
)
def test_named_ends_leave_the_other_ranks_alike(first: int, last: int, expected: list[int]) -> None:
    plan = Plan(pp=4, vpp=2, first_stage_layers=first, last_stage_layers=last)
    layers = sum(expected)
    assert _sizes(dense_model(layers=layers), "outer_fewer", plan).tolist() == expected


def test_spelled_chunks_are_taken_as_they_are() -> None:
    for rule, sizes in itertools.product(RULES, [(20, 4), (1, 23)]):
        assert tuple(_sizes(dense_model(), rule, Plan(pp=2, chunk_layers=sizes))) == sizes
