"""A search of a small problem says what pricing its plans one by one says, for 200 random problems."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from every_plan import check_recommendation
from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.fit import Verdict
from meshwright.cost.step import estimate_each, estimate_plans
from meshwright.errors import IllegalPlan
from meshwright.layout.legality import check
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.search.find import find
from meshwright.search.plan_space.space import space
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import Job
from meshwright.specs.reading.cluster import read_cluster
from meshwright.specs.runtime import read_runtime
from strategies import Shown, half_precision, latent, mixture, models

RUNTIMES = "megatron-core", "megatron-bridge", "torchtitan", "deepspeed", "pytorch-fsdp1", "accelerate", "nanotron"


@st.composite
def small_problems(draw: st.DrawFn) -> Inputs:
    """A random model, with experts or without, on one to four GPUs under a runtime."""
    runtime = read_runtime(draw(st.sampled_from(RUNTIMES)))
    experts = st.sampled_from([mixture(), latent()])
    model = draw(models() | experts if runtime.plans.experts else models())
    cluster = read_cluster(f"{draw(st.sampled_from(['1x1', '1x2', '2x1', '1x3', '1x4']))}:h100")
    job = Job(
        sequence_length=draw(st.sampled_from([500, 2048, 4096])),
        global_batch=cluster.num_gpus * draw(st.integers(1, 2)),
        precision=half_precision(runtime),
    )
    return Shown(model=model, cluster=cluster, job=job, runtime=runtime)


def _legal(asked: Inputs) -> list[Plan]:
    """The plans of the space that are legal when each is asked for alone."""
    plans = Plans.join(space(asked))
    return [plan for plan in (plans[row] for row in range(len(plans))) if check(Plans.of([plan]), asked).legal[0]]


def _figures(estimate: Estimate) -> tuple[object, ...]:
    return estimate.verdict, estimate.worst_stage, estimate.time, estimate.memory


@pytest.mark.slow
@settings(max_examples=200)
@given(small_problems())
def test_a_search_says_what_pricing_plan_by_plan_says(asked: Inputs) -> None:
    legal = _legal(asked)
    if not legal:
        with pytest.raises(IllegalPlan):
            find(asked)
        return
    alone = [estimate_each([plan], asked)[0] for plan in legal]
    table = estimate_plans(Plans.of(legal), asked)
    assert [_figures(table[row]) for row in range(len(legal))] == [_figures(each) for each in alone]
    found = find(asked, top=12)
    verdicts = Counter(each.verdict for each in alone)
    assert (found.legal, found.fitting) == (len(legal), len(legal) - verdicts[Verdict.OUT_OF_MEMORY])
    assert found.leanest.memory.device == pytest.approx(min(each.memory.device for each in alone), abs=10)
    check_recommendation(found)
    for each in found.best:
        assert _figures(each) == _figures(estimate_each([each.plan], asked)[0])
