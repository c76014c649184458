"""Pipeline parallelism: the messages between neighbouring stages."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import Floats
from meshwright.cost.comms.collectives import collective_time, message_time
from meshwright.cost.comms.group import pipeline_group, tensor_group
from meshwright.cost.comms.overlap import exposed_time
from meshwright.cost.element import HALF_BYTES
from meshwright.cost.shapes import on_shapes
from meshwright.cost.shard import residual_tokens
from meshwright.layout.plan import Schedule
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs

MESSAGE_SHAPE = ("tp", "sp", "cp", "pp", "dp", "micro_batch")
"""The fields of a plan on which its messages depend."""


def message_bytes(plan: Layout, inputs: Inputs) -> Floats:
    """Bytes of one activation or gradient message: 2 s b h / c, divided by t with sequence parallelism or where the
    runtime scatters messages.

    plan: scalar or array (n,). Returns bytes. Source: Megatron-LM, schedules.py, get_tensor_shapes; Narayanan et al.,
    arXiv:2104.04473, section 4.1 (scatter and gather).
    """
    parts = plan.tp if inputs.runtime.scatters_messages else 1
    return HALF_BYTES * residual_tokens(plan, inputs) * inputs.model.hidden_size / parts


def exposed_pipeline_time(plan: Layout, inputs: Inputs, work: Floats) -> Floats:
    """Exposed seconds of stage-to-stage messages on the slowest stage, per step.

    Each micro-batch and chunk crosses a stage's borders twice (activation and gradient travel together in the steady
    state), and filling and draining adds 2 (p - 1) hops that nothing hides: (2 m v + 2 (p - 1)) messages. Interleaved
    schedules hide the steady messages beside the compute of another chunk.

    work: compute of one micro-batch on the stage, seconds, the window; plan: scalar or array (n,). Returns seconds.
    Source: Narayanan et al., arXiv:2104.04473, section 2.2; Megatron-LM, overlap_p2p_communication.
    """
    (message,) = on_shapes(lambda shapes: _message_time(shapes, inputs), plan, *MESSAGE_SHAPE)
    crossings = 2.0 * plan.num_microbatches * plan.vpp
    overlap = inputs.runtime.overlap
    window = work * plan.num_microbatches
    steady = np.where(
        np.equal(plan.schedule, Schedule.INTERLEAVED),
        exposed_time(crossings * message, window, overlap.interleaved_pipeline, 0.0, inputs),
        exposed_time(crossings * message, window, overlap.pipeline, 0.0, inputs),
    )
    return steady + 2.0 * (plan.pp - 1) * message


def _message_time(plan: Layout, inputs: Inputs) -> tuple[Floats]:
    """Seconds of one message, and of gathering it where the runtime scatters it."""
    size = message_bytes(plan, inputs)
    message = message_time(size, pipeline_group(plan, inputs), inputs.cluster)
    if not inputs.runtime.scatters_messages:
        return (message,)
    whole = np.where(np.greater(plan.pp, 1), plan.tp * size, 0.0)
    return (message + collective_time("all_gather", whole, tensor_group(plan, inputs), inputs.cluster),)
