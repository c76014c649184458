"""Pipeline parallelism: the messages between neighbouring stages."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright.arrays import Floats
from meshwright.cost.comms.collectives import collective_time, line_time, message_time, opposite_message_time
from meshwright.cost.comms.group import pipeline_group, tensor_group
from meshwright.cost.comms.overlap import exposed_time
from meshwright.cost.element import HALF_BYTES
from meshwright.cost.shapes import on_shapes
from meshwright.cost.shard import residual_tokens
from meshwright.layout.plans import Layout
from meshwright.schedules.records import by_code, splits_backward
from meshwright.specs.inputs import Inputs

MESSAGE_SHAPE = ("tp", "sp", "cp", "pp", "dp", "micro_batch")
"""The fields of a plan on which its messages depend."""
_SEVERAL = by_code(lambda record: record.chunks == "several")
_EXCHANGES = by_code(lambda record: record.exchanges)


def message_bytes(plan: Layout, inputs: Inputs) -> Floats:
    """Bytes of one activation or gradient message: 2 s b h / c, divided by t with sequence parallelism or where the
    runtime scatters messages.

    plan: scalar or array (n,). Returns bytes. Source: Megatron-LM, schedules.py, get_tensor_shapes; Narayanan et al.,
    arXiv:2104.04473, section 4.1 (scatter and gather).
    """
    parts = plan.tp if inputs.runtime.pipeline.scatters_messages else 1
    return HALF_BYTES * residual_tokens(plan, inputs) * inputs.model.hidden_size / parts


class _Messages(NamedTuple):
    """Seconds of messages, with what gathers them where the runtime scatters them."""

    sides: Floats
    """One to either neighbour."""
    one: Floats
    """One to the neighbour that is farther."""
    way: Floats
    """From the first stage to the last."""


def exposed_pipeline_time(plan: Layout, inputs: Inputs, work: Floats) -> Floats:
    """Exposed seconds of stage-to-stage messages on the slowest stage, per step.

    For each micro-batch and chunk a stage exchanges an activation and a gradient with the stages on either side, both
    directions at once: m v messages to the one and to the other, of which two stages without chunks have but one.
    Filling and draining adds the way of one message through all stages and back, which nothing hides; the same where
    chunks lie in the shape of a V or micro-batches enter at both ends. Schedules that interleave or split the backward
    pass may hide the steady messages beside the compute of another chunk. Where the runtime waits for an exchange, its
    host needs time for each: two a micro-batch of 1F1B, one for each chunk of its interleaved form.

    work: compute of one micro-batch on the stage, seconds, the window; plan: scalar or array (n,). Returns seconds.
    Source: Narayanan et al., arXiv:2104.04473, section 2.2; Megatron-LM, pipeline_parallel/schedules.py
    (send_forward_recv_backward, send_forward_backward_recv_forward_backward; overlap_p2p_comm).
    """
    sides, one, way = on_shapes(lambda shapes: _messages(shapes, inputs), plan, *MESSAGE_SHAPE)
    sides = np.where(np.greater(plan.pp, 2) | np.greater(plan.vpp, 1), sides, one)
    window, overlap = work * plan.num_microbatches, inputs.runtime.overlap
    several, splits = _SEVERAL[plan.schedule], splits_backward(plan.schedule)
    exchanges = _EXCHANGES[plan.schedule] * plan.vpp * plan.num_microbatches
    waited = inputs.runtime.host.host_s_per_exchange * np.where(np.greater(plan.pp, 1), exchanges, 0)
    plain, interleaved, split = (
        exposed_time(plan.num_microbatches * plan.vpp * sides, window, share, 0.0, inputs)
        for share in (overlap.pipeline, overlap.interleaved_pipeline, overlap.split_pipeline)
    )
    steady = np.where(splits, split, np.where(several, interleaved, plain))
    return steady + waited + 2.0 * way


def _messages(plan: Layout, inputs: Inputs) -> _Messages:
    size, stages = message_bytes(plan, inputs), pipeline_group(plan, inputs)
    one, other, way = (time(size, stages, inputs.cluster) for time in (message_time, opposite_message_time, line_time))
    if not inputs.runtime.pipeline.scatters_messages:
        return _Messages(one + other, one, way)
    whole = np.where(np.greater(plan.pp, 1), plan.tp * size, 0.0)
    gathered = collective_time("all_gather", whole, tensor_group(plan, inputs), inputs.cluster)
    return _Messages(one + other + 2 * gathered, one + 2 * gathered, way + (plan.pp - 1) * gathered)
