"""Sharded weights: gathering each layer's weights when it works and scattering its gradients."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from meshwright.arrays import Bools, FloatColumn, Floats, Ints, Numbers, larger, some, where
from meshwright.cost.comms.data import ShardMessages
from meshwright.cost.comms.exchange import COPY, Exchange, Message, repeated
from meshwright.cost.compute.accumulation import added_gradient_bytes
from meshwright.cost.compute.elementwise import elementwise_time
from meshwright.cost.compute.slowdown import slowdown
from meshwright.distinct import distinct_rows
from meshwright.layout.microbatches import microbatch_group
from meshwright.layout.plans import Layout
from meshwright.schedules.gathered import chunk_gathers
from meshwright.schedules.pipeline import PipelineShape
from meshwright.schedules.records import Schedule
from meshwright.specs.inputs import Inputs
from meshwright.specs.precision import HALF_BYTES


class Gathers(NamedTuple):
    """How often per step one layer's weights are gathered and its gradients scattered; scalar or array (n,)."""

    forward: Numbers
    """Before a forward, or before all of a chunk's work."""
    backward: Numbers
    scatters: Ints
    loss: Ints = 0
    """Of the head, before a loss that goes through the sequence piece by piece."""
    sums: Ints = 0
    """Micro-batches whose gradients are added to whole ones, as their reduction waits for the last of several."""


def gathers_weights(plan: Layout, inputs: Inputs) -> Bools:
    """Whether weights are stored in shards and gathered layer by layer: ZeRO 3, and ZeRO 2 of full weights.

    plan: scalar or array (n,). Returns truth. Source: Rajbhandari et al., arXiv:1910.02054, section 5; torch 2.13,
    fully_shard (reshard_after_forward).

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> [bool(gathers_weights(Plan(dp=8, zero=zero), LLAMA)) for zero in (2, 3)]
    [False, True]
    """
    return plan.zero >= (3 if inputs.runtime.storage.weights == "half" else 2)


def gathers_per_step(plan: Layout, inputs: Inputs, in_flight: Ints, stage: Ints) -> Gathers:
    """How often one layer exchanges its weights and gradients in a step of m micro-batches.

    Resharded after forward (ZeRO 3), weights are gathered for every forward and every backward; kept (ZeRO 2), once
    per micro-batch, or under a pipeline once per step. Gradients are scattered after every micro-batch, or once where
    the runtime adds up whole ones. Where a pipeline does, weights also stay gathered after a backward, so that they
    are gathered for the first forwards, as many as f micro-batches are in flight, and for each backward behind a
    forward: f and m - f + 1.
    Of several chunks a rank: the mean over them of `chunk_gathers`.
    plan: scalar or array (n,); in_flight: f, micro-batches on the stage, a count; stage: 0 is first. Returns counts.
    Source: torch.distributed.fsdp and torch.distributed.pipelining 2.13 (stage.py, backward_maybe_with_nosync: neither
    set_requires_gradient_sync nor set_reshard_after_backward before the last backward), counted on a fake process
    group.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> tuple(map(int, gathers_per_step(Plan(dp=8, zero=3, num_microbatches=4), LLAMA, in_flight=1, stage=0)))
    (4, 4, 4, 0, 0)
    """
    count, pipelined = plan.num_microbatches, plan.pp > 1
    resharded = plan.zero == 3
    deferred = pipelined & inputs.runtime.sharding.defers_reduction
    forward: Numbers = where(resharded, where(deferred, in_flight, count), where(pipelined, 1, count))
    backward: Numbers = where(resharded, where(deferred, count - in_flight + 1, count), 0)
    if some(deferred & (plan.vpp > 1)):
        forward, backward = _of_chunks(plan, stage, Gathers(forward, backward, 0))
    whole = deferred | ((plan.pp == 1) & inputs.runtime.sharding.accumulates_whole)
    return Gathers(forward, backward, where(whole, 1, count), sums=where(whole & (count > 1), count, 0))


def _of_chunks(plan: Layout, stage: Ints, single: Gathers) -> tuple[Floats, Floats]:
    """Gathers before forward and backward, where there are several chunks a rank; single: where there is one."""
    group, resharded = microbatch_group(plan), plan.zero == 3
    columns = plan.schedule, plan.pp, plan.vpp, plan.num_microbatches, group, resharded
    # All columns as long as the longest, (n,), and the rows with several chunks.
    forward, backward, ranks, *asked = np.broadcast_arrays(single.forward, single.backward, stage, *columns)
    rows = np.ravel(asked[2]) > 1
    # Every distinct pipeline is played once: forward and backward gathers of its ranks, one after the other, (2, k).
    distinct, index = distinct_rows(*(np.ravel(column)[rows].astype(np.int64) for column in asked))
    pipelines = zip(*(column.tolist() for column in distinct), strict=True)
    means = np.concatenate([_mean_gathers(*pipeline) for pipeline in pipelines], axis=1)
    rank = (np.cumsum(distinct[1]) - distinct[1])[index] + np.ravel(ranks)[rows]
    # Their means over the single-chunk answers, in the rows that have several chunks.
    answers = [np.array(column, dtype=float) for column in (forward, backward)]
    for answer, mean in zip(answers, means, strict=True):
        answer.reshape(-1)[rows] = mean[rank]
    return answers[0], answers[1]


@lru_cache(maxsize=4096)
def _mean_gathers(
    schedule: int, stages: int, chunks: int, micro_batches: int, group: int, resharded: int
) -> FloatColumn:
    """Before forward and before backward, over the chunks of every rank, shape (2, stages)."""
    pipeline = PipelineShape(stages=stages, micro_batches=micro_batches, chunks=chunks, microbatch_group=group)
    gathers = chunk_gathers(Schedule(schedule), pipeline, resharded=bool(resharded))
    return np.array([(gathers.ahead + gathers.forward).mean(axis=0), gathers.backward.mean(axis=0)])


def end_gathers(plan: Layout, inputs: Inputs, in_flight: Ints, stage: Ints) -> Gathers:
    """As `gathers_per_step`, of embedding and head, which some runtimes do not reshard after forward.

    A loss that goes piece by piece is a second forward of the head, with its backward: it gathers the head once more,
    reshards it and reduces its gradients, whatever a pipeline defers and the runtime keeps.
    plan: scalar or array (n,); in_flight: f, micro-batches on the stage, a count; stage: 0 is first. Returns counts.
    Source: `keeps_ends_gathered` of the runtime; torchtitan 0.3.0, components/loss.py, ChunkedLossWrapper, counted with
    PyTorch 2.13 on a fake process group.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> [float(count) for count in end_gathers(Plan(dp=8, zero=3, num_microbatches=4), LLAMA, in_flight=1, stage=0)]
    [4.0, 0.0, 4.0, 0.0, 0.0]
    """
    sharding = inputs.runtime.sharding
    keeps = where(plan.pp > 1, sharding.keeps_pipelined_ends_gathered, sharding.keeps_ends_gathered)
    in_pieces = inputs.runtime.entropy.sequence_pieces > 1
    zero = where(keeps, 2, plan.zero)
    ends: Layout = replace(plan, zero=where(in_pieces, 3, zero))  # type: ignore[arg-type]
    times = gathers_per_step(ends, inputs, in_flight, stage)
    if not in_pieces:
        return times
    return times._replace(scatters=plan.num_microbatches, loss=plan.num_microbatches, sums=0)


def unsharded_share(plan: Layout, inputs: Inputs) -> Floats:
    """Share of a stage's layers that stay gathered until their backward. plan: scalar or array (n,).

    Returns a share. Source: `keeps_last_layer_gathered` of the runtime.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> float(unsharded_share(Plan(dp=8, zero=3), LLAMA))
    0.0
    """
    return inputs.runtime.sharding.keeps_last_layer_gathered * (plan.pp == 1) / inputs.model.num_layers


def sharded_exchanges(
    inputs: Inputs,
    messages: ShardMessages,
    parameters: Numbers,
    reduced: Numbers,
    forward: Floats,
    backward: Floats,
    unsharded: Numbers,
    times: Gathers,
) -> tuple[Exchange, ...]:
    """Exchanges per step of the weights and gradients of one layer.

    An all-gather of its weights as they are stored, prefetched beside the forward of the layer before it; in backward
    the same again and the reduce-scatter of the gradients, beside the backward of the layer before it, with windows of
    one layer's passes, as often as `times` says; and the copies of `gather_copies_time`.

    messages: of `shard_messages`, of the layer; parameters: of the layer on the rank before data parallelism, count;
    reduced: of these, those whose gradients are reduced, count; forward, backward: its passes of one micro-batch,
    seconds; unsharded: share of such layers that stay gathered until their backward, 0 to 1; times: of
    `gathers_per_step`, counts; scalar or array (n,). Returns bytes and seconds.
    Source: Zhao et al., arXiv:2304.11277, section 3.3.

    >>> from meshwright.cost.comms.data import shard_messages
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> plan, messages = Plan(dp=8, zero=3), shard_messages(Plan(dp=8, zero=3), LLAMA, parameters=1e8)
    >>> times = gathers_per_step(plan, LLAMA, in_flight=1, stage=0)
    >>> exchanges = sharded_exchanges(LLAMA, messages, 1e8, 1e8, forward=0.01, backward=0.02, unsharded=0, times=times)
    >>> [(each.phase, float(each.window)) for each in exchanges[:3]]
    [('forward', 0.01), ('backward', 0.02), ('backward', 0.02)]
    """
    gather, scatter = messages
    share = inputs.runtime.overlap.data_parallel
    again = repeated(gather, where(times.backward > 0, 1 - unsharded, 0.0))
    alone = larger(times.backward - times.scatters, 0)
    return (
        Exchange("dp", "forward", gather, times=times.forward, window=forward, share=share),
        Exchange("dp", "backward", again, times=alone, window=backward, share=share),
        Exchange("dp", "backward", (*again, *scatter), times=times.scatters, window=backward, share=share),
        _copies(gather_copies_time(inputs, parameters, reduced, unsharded, times, inputs.gathered_bytes)),
    )


class Windows(NamedTuple):
    """Seconds of compute that may run beside the exchanges of a unit; scalar or array (n,)."""

    forward: Floats = 0.0
    """Beside its gathering before forward."""
    backward: Floats = 0.0
    """Beside its gathering before backward."""
    scatter: Floats = 0.0
    """Beside the reduction of its gradients."""


NOTHING = Windows()


def end_exchanges(
    inputs: Inputs,
    messages: ShardMessages,
    parameters: Numbers,
    reduced: Numbers,
    times: Gathers,
    windows: Windows = NOTHING,
) -> tuple[Exchange, ...]:
    """Exchanges per step of the weights and gradients of embedding, final norm and head, or of some of them.

    Together nothing hides them. An embedding that is a unit of its own is gathered again beside the backward of the
    first layer, which comes before its own; nothing hides its first gathering, nor its reduce-scatter, which ends the
    step. Final norm and head of their own are gathered beside the forward of the last layer and reduced beside its
    backward; nothing hides a second gathering, as their backward is the first, or comes before a loss that goes
    piece by piece.
    messages: of `shard_messages`, of the unit; parameters: of it on the rank before data parallelism, count; reduced:
    of these, those whose gradients are reduced, count; times: of `gathers_per_step` or `end_gathers`, counts; windows:
    seconds of one micro-batch; scalar or array (n,). Returns bytes and seconds. Source: torch.distributed.fsdp 2.13;
    units of their own: torchtitan 0.3.0, distributed/fsdp.py L193-208.

    >>> from meshwright.cost.comms.data import shard_messages
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> plan, messages = Plan(dp=8, zero=3), shard_messages(Plan(dp=8, zero=3), LLAMA, parameters=1e8)
    >>> times = end_gathers(plan, LLAMA, in_flight=1, stage=0)
    >>> exchanges = end_exchanges(LLAMA, messages, 1e8, 1e8, times, Windows(forward=0.01, scatter=0.02))
    >>> [(each.phase, float(each.window)) for each in exchanges[:3]]
    [('forward', 0.01), ('backward', 0.0), ('backward', 0.02)]
    """
    gather, scatter = messages
    share = inputs.runtime.overlap.data_parallel
    return (
        Exchange("dp", "forward", gather, times=times.forward, window=windows.forward, share=share),
        Exchange("dp", "backward", gather, times=times.backward, window=windows.backward, share=share),
        Exchange("dp", "backward", scatter, times=times.scatters, window=windows.scatter, share=share),
        Exchange("dp", "forward", gather, times=times.loss),
        _copies(gather_copies_time(inputs, parameters, reduced, 0.0, times)),
    )


def _copies(seconds: Floats) -> Exchange:
    return Exchange("dp", "step", (Message("dp_shard", COPY, "weights and gradients", bytes=0.0, seconds=seconds),))


def gather_copies_time(
    inputs: Inputs, parameters: Numbers, reduced: Numbers, unsharded: Numbers, times: Gathers, width: float = HALF_BYTES
) -> Floats:
    """Seconds per step of copying weights out of what was gathered, and gradients into what is scattered; and of adding
    up whole gradients, where their reduction waits for the last micro-batch.

    parameters: on the rank before data parallelism; reduced: of these, those whose gradients are reduced; unsharded:
    share of layers that stay gathered until their backward; times: of `gathers_per_step`; scalar or array (n,); width:
    bytes of a gathered weight. Returns seconds. Source: torch.distributed.fsdp 2.13 (split_with_sizes_copy and
    chunk_cat on the compute stream), operators and bytes counted on a fake process group; _fsdp_param.py
    (accumulate_unsharded_grad_if_needed).

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> times = gathers_per_step(Plan(dp=8, zero=3), LLAMA, in_flight=1, stage=0)
    >>> float(gather_copies_time(LLAMA, 1e8, 1e8, 0, times))  # Megatron gathers into place
    0.0
    """
    runtime = inputs.runtime
    gathers = times.forward + times.loss + times.backward * (1 - unsharded)
    joined = runtime.sharding.scatter_copy_bytes * times.scatters + added_gradient_bytes(inputs) * times.sums
    copied = runtime.sharding.gather_copy_bytes * width / HALF_BYTES
    copy_bytes = copied * gathers * parameters + joined * reduced
    return elementwise_time(copy_bytes, inputs.cluster.accelerator) * slowdown(inputs)
