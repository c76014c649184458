"""Fewest: the fewest nodes make a step in time, and one node fewer does not."""

from __future__ import annotations

import pytest

from meshwright.cost.memory.fit import Verdict
from meshwright.errors import InvalidInput
from meshwright.search.fewest import MOST_TIMES_THE_NODES, Limit, fewest_nodes
from meshwright.search.find import Progress, find
from meshwright.specs.inputs import Inputs
from meshwright.specs.scale import with_nodes
from strategies import dense_model, gpt_like, llama_70b, mixture, question

QUESTIONS = {
    "gpt": question(gpt_like(), "1x4:v100", "megatron-lm", global_batch=96, sequence_length=1024),
    "a batch of no power": question(dense_model(layers=2), "1x4:h100", global_batch=60),
    "mixture": question(mixture(), "1x4:h100", global_batch=32, sequence_length=2048),
    "torchtitan": question(dense_model(layers=2), "1x4:h100", "torchtitan", global_batch=48, precision="bf16"),
}


def fewest_nodes_in_time(inputs: Inputs, step_s: float, progress: Progress | None = None) -> Limit | None:
    """From the asked nodes on, those that make a step in time."""
    return fewest_nodes(inputs, lambda best: best.step_time_s <= step_s, inputs.cluster.num_nodes, progress)


def step_s(inputs: Inputs, nodes: int) -> float:
    """Seconds of the fastest safe step on a number of nodes; infinite where there is none."""
    try:
        found = find(inputs.replace(cluster=with_nodes(inputs.cluster, nodes)), top=1)
    except InvalidInput:
        return float("inf")
    return found.best[0].step_time_s if found.best and found.best[0].verdict == Verdict.SAFE else float("inf")


@pytest.mark.parametrize(
    ("name", "share"),
    [("gpt", 0.75), ("gpt", 0.15), ("a batch of no power", 0.15), ("mixture", 0.75), ("torchtitan", 0.3)],
)
def test_the_fewest_nodes_are_in_time_and_one_fewer_is_not(name: str, share: float) -> None:
    inputs = QUESTIONS[name]
    limit_s = share * step_s(inputs, inputs.cluster.num_nodes)
    limit = fewest_nodes_in_time(inputs, limit_s)
    assert limit
    nodes = limit.inputs.cluster.num_nodes
    assert limit.inputs == inputs.replace(cluster=with_nodes(inputs.cluster, nodes))
    assert limit.estimate == find(limit.inputs, top=1).best[0]
    assert step_s(inputs, nodes) == limit.estimate.step_time_s <= limit_s < step_s(inputs, nodes - 1)
    assert nodes > inputs.cluster.num_nodes


@pytest.mark.parametrize("name", ["gpt", "mixture"])
def test_a_cluster_in_time_is_its_own_answer(name: str) -> None:
    inputs = QUESTIONS[name]
    limit = fewest_nodes_in_time(inputs, step_s(inputs, inputs.cluster.num_nodes))
    assert limit
    assert limit.inputs == inputs


def test_where_no_number_is_in_time_there_is_none() -> None:
    inputs, told = QUESTIONS["gpt"], []
    assert fewest_nodes_in_time(inputs, 1e-6, lambda done, total: told.append((done, total))) is None
    assert step_s(inputs, MOST_TIMES_THE_NODES * inputs.cluster.num_nodes) > 1e-6
    assert told


def test_a_model_that_does_not_fit_gets_the_nodes_that_do_both() -> None:
    inputs = question(llama_70b(), "1x8:h100", global_batch=24, sequence_length=4096)
    assert not find(inputs, top=1).best
    limit = fewest_nodes_in_time(inputs, 60.0)
    assert limit
    assert limit.estimate.verdict == Verdict.SAFE
    assert limit.estimate.step_time_s <= 60.0
