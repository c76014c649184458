"""Exchanges: what ranks send to each other in one step: collective, group, link, bytes, frequency and seconds."""

from __future__ import annotations

from collections.abc import Iterator

from meshwright.answers.memo.exchange import Exchange, exchange
from meshwright.answers.memo.gradients import gradient_exchanges
from meshwright.answers.memo.passes import pass_exchanges
from meshwright.cost.comms.group import pipeline_group
from meshwright.cost.comms.pipeline import exposed_pipeline_time, message_bytes
from meshwright.cost.estimate import Estimate
from meshwright.cost.step import estimate_plans
from meshwright.layout.plans import Plans
from meshwright.specs.inputs import Inputs


def exchanges(estimate: Estimate, inputs: Inputs) -> tuple[Exchange, ...]:
    """Every exchange of one step; what they expose adds up to the communication in the estimate's waterfall."""
    return (*pass_exchanges(estimate, inputs), *_messages(estimate, inputs), *gradient_exchanges(estimate, inputs))


def _messages(estimate: Estimate, inputs: Inputs) -> Iterator[Exchange]:
    """Activations to the next stage and gradients to the one before, of every micro-batch and chunk."""
    plan = estimate.plan
    if plan.pp == 1:
        return
    work = estimate_plans(Plans.of([plan]), inputs, keep_all_stages=True).stage_time.total[estimate.slowest_stage]
    overlap = inputs.runtime.overlap.replace(pipeline=0.0, interleaved_pipeline=0.0, split_pipeline=0.0)
    plain = inputs.replace(runtime=inputs.runtime.replace(overlap=overlap))
    yield exchange(
        "pipeline parallel",
        "activations to the next stage, gradients back",
        pipeline_group(plan, inputs),
        inputs,
        float(message_bytes(plan, inputs)),
        2 * plan.num_microbatches * plan.vpp,
        float(exposed_pipeline_time(plan, plain, work)),
        estimate.time.exposed_pp_s,
    )
