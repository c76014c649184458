"""Gradients: what data parallelism exchanges once a step or, where weights are sharded, for every layer."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from meshwright.answers.memo.exchange import Exchange, exchange
from meshwright.cost.comms.collectives import sent_bytes
from meshwright.cost.comms.data import data_exchange, earlier_reductions, exposed_data_time, tied_embedding_time
from meshwright.cost.comms.group import Holders, data_group, expert_holders, group, holders
from meshwright.cost.comms.sharded import gathers_per_step, gathers_weights
from meshwright.cost.element import HALF_BYTES
from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.stage import StageParameters, stage_parameters
from meshwright.cost.shard import vocabulary_shard
from meshwright.cost.step import estimate_plans
from meshwright.layout.groups import stride
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.specs.inputs import Inputs


def gradient_exchanges(estimate: Estimate, inputs: Inputs) -> Iterator[Exchange]:
    """Lines for gradients and weights between replicas, and for embeddings that two stages share."""
    plan = estimate.plan
    tied = float(tied_embedding_time(plan, inputs))
    if plan.dp * plan.cp > 1:
        yield from _sharded(estimate, inputs, tied) if gathers_weights(plan, inputs) else _once(estimate, inputs)
    if tied:
        ends = group(2, stride(plan, "pp", inputs.runtime.plans.rank_order) * max(plan.pp - 1, 1), inputs.cluster)
        size = inputs.gradient_bytes * float(vocabulary_shard(plan, inputs)) * inputs.model.hidden_size
        sent = float(sent_bytes("all_reduce", size, 2))
        yield exchange("shared embedding", "all-reduce of its gradient", ends, inputs, sent, 1, tied, tied)


def _once(estimate: Estimate, inputs: Inputs) -> Iterator[Exchange]:
    """Gradients beside the last micro-batch's backward, weights beside the first one's forward, of the stage that waits
    longest.
    """
    plan, priced = estimate.plan, estimate_plans(Plans.of([estimate.plan]), inputs, keep_all_stages=True)
    rows, parameters = priced.plans.take(priced.stages.plan), stage_parameters(priced.plans, priced.stages, inputs)
    whole = data_exchange(rows, inputs, parameters.dense, priced.stages.stage, parameters.experts, parameters.ends)
    time, earlier = priced.stage_time, earlier_reductions(rows)
    passes = time.forward_total + time.host_forward, time.backward_total + time.host_backward
    nothing = np.zeros(len(earlier))
    summed, gathered = (
        np.asarray(exposed_data_time(part, inputs, *passes, earlier))
        for part in (whole._replace(gathered=nothing), whole._replace(reduced=nothing))
    )
    stage = int(np.argmax(summed + gathered))
    held = StageParameters(*(column[stage : stage + 1] for column in parameters))
    times = 1 + float(earlier[stage])
    group = data_group(plan, inputs)
    name, size = _summing(plan, inputs, held)
    yield exchange(
        "data parallel",
        name,
        group,
        inputs,
        size,
        times,
        times * float(np.asarray(whole.reduced)[stage]),
        summed[stage],
    )
    if plan.zero:
        size = _gathered(plan, inputs, held)
        seconds = float(np.asarray(whole.gathered)[stage])
        yield exchange(
            "data parallel", "all-gather of updated weights", group, inputs, size, 1, seconds, gathered[stage]
        )


def _sharded(estimate: Estimate, inputs: Inputs, tied: float) -> Iterator[Exchange]:
    """Weights before every layer, gradients after it; bytes are the mean of both, of the stage with the most."""
    plan, overlap = estimate.plan, inputs.runtime.overlap.replace(data_parallel=0.0)
    plain = inputs.replace(runtime=inputs.runtime.replace(overlap=overlap))
    priced = estimate_plans(Plans.of([plan]), plain, keep_all_stages=True)
    parameters = stage_parameters(priced.plans, priced.stages, inputs)
    first = int(priced.stages.live_micro_batches.argmax())
    times = gathers_per_step(plan, inputs, int(priced.stages.live_micro_batches[first]), first)
    held = StageParameters(*(column.max(keepdims=True) for column in parameters))
    gathers, scatters = round(float(times.forward + times.backward)), int(times.scatters)
    sent = gathers * _gathered(plan, inputs, held)
    sent += scatters * _sent("reduce_scatter", plan, inputs, held, inputs.gradient_bytes)
    units = int(priced.stages.layers.sum(axis=1).max()) + 1
    yield exchange(
        "data parallel",
        "all-gather of weights, reduce-scatter of gradients, layer by layer",
        data_group(plan, inputs),
        inputs,
        sent / (units * (gathers + scatters)),
        units * (gathers + scatters),
        float(priced.time.exposed_dp_s[0]) - tied,
        estimate.time.exposed_dp_s - tied,
    )


def _summing(plan: Plan, inputs: Inputs, held: StageParameters) -> tuple[str, float]:
    """What sums the gradients, and the bytes that one rank sends for it."""
    if not plan.zero or inputs.runtime.sharding.sums_whole_gradients:
        return "all-reduce of gradients", _sent("all_reduce", plan, inputs, held, inputs.gradient_bytes)
    name = "reduce-scatter of gradients" + (", all-reduce between replicas" if plan.dp_replicate > 1 else "")
    return name, _sent("reduce_scatter", plan, inputs, held, inputs.gradient_bytes)


def _gathered(plan: Plan, inputs: Inputs, held: StageParameters) -> float:
    """Bytes that one rank sends of weights, those of the ends in 2 bytes, as `shard_times` prices them."""
    ends = (HALF_BYTES - inputs.gathered_bytes) * float(held.ends[0])
    sent = _sent("all_gather", plan, inputs, held, inputs.gathered_bytes)
    return sent + _sent_of("all_gather", ends, holders(plan, inputs))


def _sent(operation: str, plan: Plan, inputs: Inputs, held: StageParameters, element_bytes: float) -> float:
    """Bytes that one rank sends of the stage's parameters, dense ones and routed experts."""
    parts = [(held.dense, holders(plan, inputs))]
    if inputs.model.is_moe:
        parts.append((held.experts, expert_holders(plan, inputs)))
    return sum(_sent_of(operation, element_bytes * float(count[0]), over) for count, over in parts)


def _sent_of(operation: str, size: float, over: Holders) -> float:
    if operation == "all_reduce":
        return float(sent_bytes("all_reduce", size, over.all.ranks))
    sent = float(sent_bytes("all_gather", size, over.shards.ranks))
    if operation == "reduce_scatter" and over.replicas.ranks > 1:
        sent += float(sent_bytes("all_reduce", size / over.shards.ranks, over.replicas.ranks))
    return sent
