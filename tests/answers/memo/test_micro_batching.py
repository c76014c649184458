"""Micro-batching: the row of the plan is the plan, and the others are plans that the runtime takes."""

from __future__ import annotations

from meshwright.answers.memo.micro_batching import micro_batching
from meshwright.cost.step import estimate_each
from meshwright.layout.legality import check
from meshwright.layout.named import plan_of
from meshwright.layout.plans import Plans
from strategies import llama_70b, question

INPUTS = question(llama_70b(), "3x8:h100", global_batch=100, sequence_length=8192)


def test_every_row_is_legal_and_the_one_of_the_plan_is_as_priced() -> None:
    plan = plan_of(INPUTS, tp=2, pp=12, vpp=3, zero=0, recompute="full", microbatch_group=17)
    (estimate,) = estimate_each([plan], INPUTS)
    pipeline = micro_batching(estimate, INPUTS)
    assert pipeline
    rows = {each.micro_batches: each for each in pipeline.bubbles}
    assert rows[100].estimate.plan == plan
    assert rows[100].estimate.memory.device == estimate.memory.device
    for each in rows.values():
        job = INPUTS.job.replace(global_batch=each.global_batch, assumptions=())
        assert check(Plans.of([each.estimate.plan]), INPUTS.replace(job=job)).legal.all()
