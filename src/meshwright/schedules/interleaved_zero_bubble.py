"""Interleaved zero bubble: 1F1B over chunks whose weight gradients wait until a rank is idle; ZB-H1 with one chunk."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import Floats, Ints
from meshwright.schedules.action import Action
from meshwright.schedules.interleaved import forward_order
from meshwright.schedules.pipeline import PipelineShape, PipelineTimes
from meshwright.schedules.record import ScheduleRecord


def in_flight(stage: Ints, pipeline: PipelineShape, delay: int = 1) -> Ints:
    """Chunks that one rank has worked forward and not yet backward, at most: min(m v, (v - 1) g + p - r); with ZB-H2
    min(m, 2(p - r)).

    stage: r, 0 is first; pipeline: p, v, m and g; delay: 2 with ZB-H2, the memory over that of 1F1B; counts, scalar or
    array (n,). Returns a count of chunks.
    Source: arXiv:2401.10241, section 2; torch 2.13, pipelining/schedules.py, _get_warmup_ops.

    >>> [int(in_flight(rank, PipelineShape(4, 16, chunks=2, microbatch_group=4))) for rank in range(4)]
    [8, 7, 6, 5]
    """
    others = (pipeline.chunks - 1) * pipeline.microbatch_group
    return np.minimum(pipeline.micro_batches * pipeline.chunks, others + delay * (pipeline.stages - stage))


def waiting(stage: Ints, chunks_in_flight: Ints, pipeline: PipelineShape, delay: int = 1) -> Ints:
    """Chunks that wait for their weight gradients beside those in flight, at most: r; with ZB-H2 2r.

    stage: r; chunks_in_flight: `in_flight` of it; pipeline: v and m; delay: 2 with ZB-H2; counts, scalar or array (n,).
    Returns a count. Source: arXiv:2401.10241, section 2; torch 2.13, pipelining/schedules.py,
    ScheduleInterleavedZeroBubble (num_1f1b_microbatches).

    >>> shape = PipelineShape(stages=4, micro_batches=16)
    >>> [int(waiting(rank, in_flight(rank, shape), shape)) for rank in range(4)]
    [0, 1, 2, 3]
    """
    return np.minimum(delay * stage, pipeline.micro_batches * pipeline.chunks - chunks_in_flight)


def bubble_time(pipeline: PipelineTimes) -> Floats:
    """Idle time of the slowest rank: the others' (F + B_i - W) / v, of which fewer micro-batches than p fill less of W.

    pipeline: times of one micro-batch through all chunks of a rank, scalar or array (n,). Returns seconds. With equal
    ranks this is (p - 1)(F + B_i - W) / v: arXiv:2401.10241, table 1 (ZB-H1; its B is B_i), which starts every step
    together and so gains nothing where steps overlap.

    >>> from meshwright.schedules.pipeline import PassTimes
    >>> one, four = PassTimes(1.0, 1.0, 1.0), PassTimes(4.0, 4.0, 4.0)  # seconds of one of four equal ranks, and of all
    >>> float(bubble_time(PipelineTimes(one, four, 4, 1, micro_batches=16, waiting=1.0, overlaps_steps=True)))
    3.0
    """
    others, most = pipeline.others, np.maximum(pipeline.stages - 1, 1)
    filled = np.minimum((pipeline.micro_batches * pipeline.chunks - 1) / most, 1.0)
    idle = others.forward + others.input_gradient - filled * others.weight_gradient
    return pipeline.at_least(np.maximum(idle, 0.0) / pipeline.chunks)


def actions(pipeline: PipelineShape, delay: int = 1) -> list[list[Action]]:
    """For every rank, what it does in order.

    pipeline: p, v, m and g; delay: rank r starts with as many times (p - 1 - r) forwards more than the last one, and
    its weight gradients come as many times r backwards late; counts. Returns actions by rank. Source: arXiv:2401.10241,
    section 2; torch 2.13, pipelining/schedules.py, ScheduleInterleavedZeroBubble.

    >>> first, _ = actions(PipelineShape(stages=2, micro_batches=2, chunks=2, microbatch_group=2))
    >>> " ".join(f"{action.kind[0]}{action.chunk}.{action.micro_batch}" for action in first)
    'f0.0 f0.1 f1.0 f1.1 i1.0 w1.0 i1.1 w1.1 i0.0 w0.0 i0.1 w0.1'
    """
    chunks, order = pipeline.chunks, forward_order(pipeline)
    forwards = [Action("forward", chunk, index) for chunk, index in order]
    inputs = [Action("input_gradient", chunks - 1 - chunk, index) for chunk, index in order]
    weights = [Action("weight_gradient", action.chunk, action.micro_batch) for action in inputs]
    others = (chunks - 1) * pipeline.microbatch_group
    warm_ups = [others + delay * (pipeline.stages - rank) - 1 for rank in range(pipeline.stages)]
    return [
        _rank_actions(forwards, inputs, weights, min(warm_up, len(order)), delay * rank)
        for rank, warm_up in enumerate(warm_ups)
    ]


def _rank_actions(
    forwards: list[Action], inputs: list[Action], weights: list[Action], warm_up: int, late: int
) -> list[Action]:
    order = forwards[:warm_up]
    for index, action in enumerate(inputs):
        order += [*forwards[warm_up + index : warm_up + index + 1], action]
        order += weights[index - late : index - late + 1] if index >= late else []
    return order + weights[max(len(inputs) - late, 0) :]


RECORD = ScheduleRecord(
    name="interleaved-zb",
    code=3,
    chunks="several",
    grouped=True,
    splits_backward=True,
    in_flight=in_flight,
    waiting=waiting,
    peak_micro_batches=4,
    bubble_time=bubble_time,
    actions=actions,
    clock_unequal=(0.95, 1.0),
    framework_names={"torch": "InterleavedZeroBubble"},
)
