"""Two hundred random small problems: a table of their plans is priced as a loop prices one plan after the other."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from meshwright.cost.estimate import Estimates
from meshwright.cost.step import estimate_plans
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.specs.cluster import Cluster
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import Job
from meshwright.specs.model import Model
from meshwright.specs.reading.cluster import read_cluster
from meshwright.specs.runtime import Runtime, read_runtime
from strategies import SHARDING, alternating, dense_model, half_precision, legal_plans, question, with_experts

pytestmark = pytest.mark.slow
PROBLEMS = 200
PLANS = 100
"""Of each problem, that are priced together at most."""
CLUSTERS = ("1x4:h100", "1x8:a100", "2x4:b200", "2x6:v100", "2x8:h100", "3x5:a100", "8x1:v100")
RUNTIMES = ("megatron-core", "megatron-core", "megatron-lm", *SHARDING)


@pytest.mark.parametrize("share", range(4))
def test_a_table_of_plans_is_priced_as_a_loop_prices_each(share: int) -> None:
    random = np.random.default_rng(share)
    for _ in range(PROBLEMS // 4):
        inputs, plans = _problem(random)
        while not len(plans):
            inputs, plans = _problem(random)
        plans = plans.take(random.permutation(len(plans))[:PLANS])
        table = estimate_plans(plans, inputs)
        # The loop takes milliseconds a plan: the first one, which is a random one, and the fastest.
        for row in {0, int(table.step_time_s.argmin())}:
            alone = estimate_plans(plans.take([row]), inputs)
            np.testing.assert_allclose(_row(table, row), _row(alone, 0), rtol=1e-12)


@pytest.mark.parametrize("runtime", ["torchtitan", "deepspeed"])
def test_plans_that_differ_in_their_number_of_micro_batches_alone_have_buffers_of_their_own(runtime: str) -> None:
    inputs = question(dense_model(), "1x8:h100", runtime)
    plans = Plans.of([Plan(pp=4, dp=2, num_microbatches=count) for count in (1, 16, 64, 64)])
    table = estimate_plans(plans, inputs)
    for row in range(len(plans)):
        np.testing.assert_allclose(_row(table, row), _row(estimate_plans(plans.take([row]), inputs), 0), rtol=1e-12)


def _row(estimates: Estimates, row: int) -> list[float]:
    """All that an answer says of one plan."""
    memory = (*estimates.worst_memory, *estimates.bounds, estimates.step_time_s)
    codes = estimates.verdict, estimates.peak_moment[estimates.worst], estimates.stages.stage[estimates.slowest]
    columns = (*estimates.time, *estimates.compute, *memory, *codes)
    return [float(column[row] if np.ndim(column) else column) for column in columns]


def _problem(random: np.random.Generator) -> tuple[Inputs, Plans]:
    """A random question about a small cluster, with experts or without, and its legal plans."""
    runtime, cluster = _runtime(_one(random, RUNTIMES)), _cluster(_one(random, CLUSTERS))
    while half_precision(runtime) not in cluster.accelerator.peak_flops:
        cluster = _cluster(_one(random, CLUSTERS))
    job = Job(
        sequence_length=_one(random, (512, 1000, 2048, 4096)),
        global_batch=cluster.num_gpus * _one(random, (1, 2, 3, 8)),
        precision=half_precision(runtime),
    )
    inputs = Inputs(model=_model(random), cluster=cluster, job=job, runtime=runtime)
    inputs = with_experts(inputs, _one(random, (4, 8))) if _one(random, (True, False)) else inputs
    return inputs, legal_plans(inputs)


def _model(random: np.random.Generator) -> Model:
    kv_heads = _one(random, (1, 2, 4, 6))
    model = dense_model(
        heads=kv_heads * _one(random, (1, 2, 4)),
        kv_heads=kv_heads,
        head_dim=_one(random, (64, 128)),
        ffn_size=_one(random, (1536, 4096, 11008)),
        layers=_one(random, (2, 4, 6, 12)),
        vocab_size=int(random.integers(1000, 300_000)),
        gated=_one(random, (True, False)),
        bias=_one(random, (True, False)),
        norms=_one(random, (2, 4)),
        norm=_one(random, ("rms", "layer")),
        tied_embeddings=_one(random, (True, False)),
    )
    return alternating(model, window=256) if _one(random, (True, False)) else model


def _one(random: np.random.Generator, choices: tuple[Any, ...]) -> Any:
    return choices[int(random.integers(len(choices)))]


@cache
def _runtime(name: str) -> Runtime:
    return read_runtime(name)


@cache
def _cluster(text: str) -> Cluster:
    return read_cluster(text)
