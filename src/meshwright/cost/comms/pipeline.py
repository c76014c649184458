"""Pipeline parallelism: the messages between neighbouring stages."""

from __future__ import annotations

from typing import NamedTuple

from meshwright.arrays import Floats, Ints, Numbers, where
from meshwright.cost.comms.collectives import collective_time
from meshwright.cost.comms.exchange import Exchange, Message
from meshwright.cost.comms.group import axis_group
from meshwright.cost.comms.sends import line_time, message_time, opposite_message_time
from meshwright.cost.shapes import on_shapes
from meshwright.cost.shard import residual_tokens
from meshwright.layout.plans import Layout
from meshwright.schedules.records import by_code, splits_backward, true_by_code
from meshwright.specs.inputs import Inputs
from meshwright.specs.precision import HALF_BYTES

MESSAGE_SHAPE = ("tp", "sp", "cp", "pp", "dp", "micro_batch")
"""The fields of a plan on which its messages depend."""
_SEVERAL = true_by_code(lambda record: record.chunks == "several")
_EXCHANGES = by_code(lambda record: record.exchanges)
ACTIVATIONS = "activations and their gradients"


def message_bytes(plan: Layout, inputs: Inputs) -> Floats:
    """Bytes of one activation or gradient message: 2 s b h / c, divided by t with sequence parallelism or where ranks
    scatter messages.

    plan: scalar or array (n,). Returns bytes. Source: Megatron-LM, schedules.py, get_tensor_shapes; Narayanan et al.,
    arXiv:2104.04473, section 4.1 (scatter and gather).

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> [float(message_bytes(Plan(tp=4, pp=2, sp=sp), LLAMA)) / 2**20 for sp in (False, True)]
    [64.0, 16.0]
    """
    return HALF_BYTES * residual_tokens(plan, inputs) * inputs.model.hidden_size / message_parts(plan, inputs)


def message_parts(plan: Layout, inputs: Inputs) -> Ints:
    """Parts of a stage-to-stage message that the tensor-parallel ranks send, one each: t where the runtime scatters
    messages, else 1; also with sequence parallelism and for models with experts.

    plan: scalar or array (n,). Returns a count. Source: Narayanan et al., arXiv:2104.04473, section 4.1; DeepSpeed,
    runtime/pipe/engine.py (is_pipe_partitioned), which Megatron-DeepSpeed's model with experts must switch off.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> int(message_parts(Plan(tp=4, pp=2), LLAMA))  # Megatron-core sends every message whole
    1
    """
    scatters = inputs.runtime.pipeline.scatters_messages and not inputs.model.is_moe
    return where((plan.sp > 0) | (not scatters), 1, plan.tp)


class _Seconds(NamedTuple):
    """Of one message, and its bytes; each scalar or array (n,)."""

    bytes: Floats
    parts: Ints
    """Parts that it is scattered in."""
    farther: Floats
    """To the neighbour that is farther away."""
    nearer: Floats
    line: Floats
    """From the first stage to the last."""
    gather: Floats
    """Of gathering it where it is scattered; else nothing."""


def pipeline_exchanges(plan: Layout, inputs: Inputs, work: Floats) -> tuple[Exchange, ...]:
    """Stage-to-stage messages of the slowest stage in one step, and what its host waits for them.

    For each micro-batch and chunk a stage exchanges an activation and a gradient with the stages on either side, both
    directions at once: m v messages to the one and to the other, of which two stages without chunks have but one.
    Filling and draining adds the way of one message through all stages and back, which nothing hides; the same where
    chunks lie in the shape of a V or micro-batches enter at both ends. Schedules that interleave or split the backward
    pass may hide the steady messages beside the compute of another chunk. Scattered messages are gathered on arrival,
    and in backward a stage gathers its own output again where it kept its part of it. Where the runtime waits for an
    exchange, its host needs time for each: two a micro-batch of 1F1B, one for each chunk of its interleaved form.

    work: compute of one micro-batch on the stage, seconds, the window; plan: scalar or array (n,). Returns bytes and
    seconds of one step. Source: Narayanan et al., arXiv:2104.04473, section 2.2; Megatron-LM,
    pipeline_parallel/schedules.py (send_forward_recv_backward, send_forward_backward_recv_forward_backward;
    overlap_p2p_comm).

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> steady, ends, _ = pipeline_exchanges(Plan(pp=4, num_microbatches=8), LLAMA, work=0.1)
    >>> [float(message.times) for message in steady.messages], float(ends.times)  # to either side; fill and drain
    ([8.0, 8.0], 2.0)
    """
    size, parts, farther, nearer, line, gather = on_shapes(
        lambda shapes: _seconds(shapes, inputs), plan, *MESSAGE_SHAPE
    )
    overlap, both_sides = inputs.runtime.overlap, (plan.pp > 2) | (plan.vpp > 1)
    share = where(_SEVERAL[plan.schedule], overlap.interleaved_pipeline, overlap.pipeline)
    share = where(splits_backward(plan.schedule), overlap.split_pipeline, share)
    sent = plan.num_microbatches * plan.vpp
    waits = where(plan.pp > 1, _EXCHANGES[plan.schedule] * sent, 0)

    def message(seconds: Floats, times: Numbers) -> Message:
        return Message("pp", "send", ACTIVATIONS, bytes=size, seconds=seconds, times=times)

    def gathers(times: Numbers) -> tuple[Message, ...]:
        whole = Message("tp", "all_gather", ACTIVATIONS, bytes=parts * size, seconds=gather, times=times)
        return (whole,) if inputs.runtime.pipeline.scatters_messages else ()

    # Of each micro-batch and chunk what arrives is gathered, and the stage's own output again where it kept its part.
    sides, again = where(both_sides, 2, 1), inputs.runtime.pipeline.keeps_messages
    steady = (message(farther, sent), message(nearer, (sides - 1) * sent), *gathers((sides + again) * sent))
    wait = Message("pp", "wait", "the host, for messages", bytes=0.0, seconds=inputs.runtime.host.host_s_per_exchange)
    return (
        Exchange("pp", "step", steady, window=work * plan.num_microbatches, share=share),
        Exchange("pp", "step", (message(line, 1), *gathers((1 + again / 2) * (plan.pp - 1))), times=2),
        Exchange("pp", "step", (wait,), times=waits),
    )


def _seconds(plan: Layout, inputs: Inputs) -> _Seconds:
    size, parts, cluster = message_bytes(plan, inputs), message_parts(plan, inputs), inputs.cluster
    group = axis_group("pp", plan, inputs)
    farther, nearer, line = (time(size, group, cluster) for time in (message_time, opposite_message_time, line_time))
    gather: Floats = 0.0
    if inputs.runtime.pipeline.scatters_messages:
        whole = where((plan.pp > 1) & (parts > 1), parts * size, 0.0)
        gather = collective_time("all_gather", whole, axis_group("tp", plan, inputs), cluster)
    return _Seconds(bytes=size, parts=parts, farther=farther, nearer=nearer, line=line, gather=gather)
