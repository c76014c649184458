"""Limits: each is reached by a safe plan of `find`, and one step further is not."""

from __future__ import annotations

from functools import cache

import pytest

from meshwright.cost.memory.fit import Verdict
from meshwright.cost.step import estimate_plans
from meshwright.errors import InvalidInput
from meshwright.layout.legality import check
from meshwright.layout.legality.rule import divisors
from meshwright.layout.plans import Plans
from meshwright.search.find import Progress, chunks, find
from meshwright.search.many_searches.fewest_nodes import (
    MOST_TIMES_THE_NODES,
    Limit,
    fewest_inside,
    fewest_nodes,
    stays_inside,
)
from meshwright.search.many_searches.limits import (
    Limits,
    grain,
    largest_micro_batch,
    limits,
    longer_and_longer,
    of_any_micro_batch,
)
from meshwright.search.plan_space.space import MOST_TOKENS
from meshwright.specs.constraints import Constraints
from meshwright.specs.inputs import Inputs
from meshwright.specs.reading.model import read_model
from meshwright.specs.scale import with_nodes
from strategies import dense_model, gpt_like, llama_8b, llama_70b, mixture, question

pytestmark = pytest.mark.slow

QUESTIONS = ("llama", "llama 70b", "mixture", "torchtitan", "learned positions")
IN_TIME = {
    "gpt": question(gpt_like(), "1x4:v100", "megatron-lm", global_batch=96, sequence_length=1024),
    "a batch of no power": question(dense_model(layers=2), "1x4:h100", global_batch=60),
    "mixture": question(mixture(), "1x4:h100", global_batch=32, sequence_length=2048),
    "torchtitan": question(dense_model(layers=2), "1x4:h100", "torchtitan", global_batch=48, precision="bf16"),
}


@cache
def asked(name: str) -> Inputs:
    """One of `QUESTIONS`."""
    return {
        "llama": lambda: question(llama_8b(), "1x8:h100", global_batch=64, sequence_length=8192),
        "llama 70b": lambda: question(llama_70b(), "4x8:h100", global_batch=32, sequence_length=4096),
        "mixture": lambda: question(mixture(), "1x4:h100", global_batch=12, sequence_length=5000),
        "torchtitan": lambda: question(llama_8b(), "1x8:h100", "torchtitan", global_batch=16, precision="bf16"),
        "learned positions": lambda: question(gpt_like(), "1x8:h100", global_batch=64, sequence_length=2048),
    }[name]()


@cache
def found(name: str) -> Limits:
    """The limits of a question."""
    return limits(asked(name))


def is_safe(inputs: Inputs, nodes: int = 0, **job: int) -> bool:
    """Whether a question is valid, with another number of nodes or another job, and any plan of it is safe."""
    try:
        cluster = with_nodes(inputs.cluster, nodes) if nodes else inputs.cluster
        best = find(inputs.replace(cluster=cluster, job=inputs.job.replace(**job)), top=1).best
    except InvalidInput:
        return False
    return bool(best) and best[0].verdict == Verdict.SAFE


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_limit_is_the_best_answer_of_its_own_question(name: str) -> None:
    answer = found(name)
    for limit in (answer.sequence, answer.nodes):
        assert limit
        assert limit.estimate == find(limit.inputs, top=1).best[0]
        assert limit.estimate.verdict == Verdict.SAFE


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_next_length_is_not_safe_with_the_nearest_batch(name: str) -> None:
    limit, inputs = found(name).sequence, asked(name)
    assert limit
    length = limit.inputs.job.sequence_length
    longer = length + grain(length)
    assert length % grain(length) == 0
    batch = max(round(inputs.job.tokens_per_step / longer), 1)
    assert not is_safe(inputs, sequence_length=longer, global_batch=batch)


def test_a_short_limit_is_looked_for_in_fine_steps() -> None:
    job = {"global_batch": 16, "precision": "bf16", "lora_rank": 16}
    *_, limit = longer_and_longer(question(read_model("qwen2.5-7b"), "1x1:rtx-4090", "accelerate", **job))
    assert limit.inputs.job.sequence_length == 1920


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_batch_keeps_the_tokens_as_near_as_sequences_go(name: str) -> None:
    limit, inputs = found(name).sequence, asked(name)
    assert limit
    job, tokens = limit.inputs.job, inputs.job.tokens_per_step
    near = max(round(tokens / job.sequence_length), 1)
    wide = max(count for count in divisors(inputs.cluster.num_gpus) if count <= near)
    assert job.global_batch in (near, round(near / wide) * wide)


def test_learned_positions_bound_the_length() -> None:
    limit = found("learned positions").sequence
    assert limit
    assert limit.inputs.job.sequence_length == gpt_like().learned_positions


@pytest.mark.parametrize("name", QUESTIONS)
def test_one_node_fewer_is_not_safe(name: str) -> None:
    limit, inputs = found(name).nodes, asked(name)
    assert limit
    nodes = limit.inputs.cluster.num_nodes
    scaled = inputs.replace(cluster=with_nodes(inputs.cluster, nodes))
    assert limit.inputs == (inputs if nodes == inputs.cluster.num_nodes else scaled)
    assert not any(is_safe(inputs, fewer) for fewer in range(1, nodes))


@pytest.mark.parametrize("name", QUESTIONS)
def test_no_safe_plan_has_a_larger_micro_batch(name: str) -> None:
    limit, inputs = found(name).micro_batch, asked(name)
    assert limit
    plans = Plans.join(list(chunks(of_any_micro_batch(inputs))))
    estimates = estimate_plans(plans.take(check(plans, inputs).legal), inputs)
    safe = estimates.verdict == Verdict.SAFE
    inside = safe & (estimates.plans.tp <= inputs.cluster.levels[0].size)
    safe = inside if inside.any() else safe
    largest = estimates.plans.micro_batch[safe].max()
    fastest = estimates.step_time_s[safe & (estimates.plans.micro_batch == largest)].min()
    assert limit.estimate.plan.micro_batch == largest
    assert limit.estimate.step_time_s == pytest.approx(fastest, rel=1e-9)


def test_the_largest_micro_batch_is_not_where_a_search_stops() -> None:
    """A search for the best plan tries up to 65,536 tokens a rank; a question that names more finds no more."""
    inputs = question(llama_8b(), "1x8:h200", "torchtitan", global_batch=64, sequence_length=1 << 17, precision="bf16")
    limit = largest_micro_batch(inputs)
    assert limit
    largest = limit.estimate.plan
    assert largest.micro_batch * inputs.job.sequence_length // largest.cp > MOST_TOKENS
    assert limit.inputs == inputs
    named = inputs.replace(constraints=Constraints(micro_batch=largest.micro_batch))
    beyond = inputs.replace(constraints=Constraints(micro_batch=2 * largest.micro_batch))
    assert largest_micro_batch(named) == Limit(named, limit.estimate)
    assert largest_micro_batch(beyond) is None


def test_limits_keep_tensor_parallelism_within_a_node_where_a_plan_there_is_safe() -> None:
    inputs = question(llama_70b(), "8x8:h100", global_batch=256, sequence_length=8192)
    largest = largest_micro_batch(inputs)
    assert largest
    assert largest.estimate.plan.tp <= 8
    crossing = largest_micro_batch(inputs.replace(constraints=Constraints(tp=(16, 32))))
    assert crossing
    assert crossing.estimate.plan.micro_batch > largest.estimate.plan.micro_batch


def test_the_fewest_nodes_have_a_plan_within_a_node_where_any_number_has() -> None:
    model = read_model("llama-3.1-405b")
    inputs = question(model, "1x8:h100", global_batch=512, sequence_length=8192, precision="bf16")
    fewest, any_ = fewest_inside(inputs), fewest_nodes(inputs)
    assert fewest
    assert any_
    assert stays_inside(fewest)
    assert not stays_inside(any_)
    assert (any_.inputs.cluster.num_nodes, fewest.inputs.cluster.num_nodes) == (14, 15)
    only = fewest_inside(inputs.replace(constraints=Constraints(tp=16)))
    assert only
    assert only.estimate.plan.tp == 16


def test_what_never_fits_has_no_limit() -> None:
    inputs = question(llama_70b(), "1x2:h100", "pytorch-ddp", global_batch=2, precision="bf16")
    answer = limits(inputs)
    assert (answer.sequence, answer.nodes, answer.micro_batch) == (None, None, None)


def test_a_batch_larger_than_asked_serves_a_runtime_that_only_replicates() -> None:
    model = llama_8b().replace(name="short", layer_pattern=(0,) * 2)
    inputs = question(model, "1x8:h100", "pytorch-fsdp1", global_batch=8, sequence_length=4096, precision="bf16")
    *_, limit = longer_and_longer(inputs)
    assert limit.inputs.job.global_batch == 8
    assert limit.inputs.job.sequence_length > 4096


def test_progress_is_told_of_every_search() -> None:
    calls: list[tuple[int, int]] = []
    fewest_nodes(asked("llama 70b"), progress=lambda done, total: calls.append((done, total)))
    assert len(calls) > 2
    assert all(done <= total for done, total in calls)


def fewest_nodes_in_time(inputs: Inputs, step_s: float, progress: Progress | None = None) -> Limit | None:
    """From the asked nodes on, those that make a step in time."""
    return fewest_nodes(inputs, step_s, inputs.cluster.num_nodes, progress)


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
    inputs = IN_TIME[name]
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
    inputs = IN_TIME[name]
    limit = fewest_nodes_in_time(inputs, step_s(inputs, inputs.cluster.num_nodes))
    assert limit
    assert limit.inputs == inputs


def test_where_no_number_is_in_time_there_is_none() -> None:
    inputs, told = IN_TIME["gpt"], []
    too_short = 0.9 * step_s(inputs, MOST_TIMES_THE_NODES * inputs.cluster.num_nodes)
    assert fewest_nodes_in_time(inputs, too_short, lambda done, total: told.append((done, total))) is None
    assert told


def test_numbers_that_are_too_slow_at_the_dense_peak_are_not_searched() -> None:
    inputs, told = IN_TIME["gpt"], []
    assert fewest_nodes_in_time(inputs, 1e-6, lambda done, total: told.append((done, total))) is None
    assert not told


def test_a_model_that_does_not_fit_gets_the_nodes_that_do_both() -> None:
    inputs = question(llama_70b(), "1x8:h100", global_batch=24, sequence_length=4096)
    assert not find(inputs, top=1).best
    limit = fewest_nodes_in_time(inputs, 60.0)
    assert limit
    assert limit.estimate.verdict == Verdict.SAFE
    assert limit.estimate.step_time_s <= 60.0
