"""Chunk turns: which chunk of a pipeline rank works when, and how large the chunks are."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import BoolColumn, Bools, FloatColumn, Floats, IntColumn, Numbers, some
from meshwright.cost.memory.unit_step import UnitStep
from meshwright.specs.precision import HALF_BYTES


def of_last_chunk(step: UnitStep, later: Numbers) -> BoolColumn:
    """Whether a backward is of the chunk that works backward first.

    step: of every stage; later: how many backward passes come between it and the last forward, a count. Returns one
    truth a stage, shape (r,). Source: torch 2.13, distributed/pipelining/schedules.py, ScheduleInterleaved1F1B.
    """
    of_last: BoolColumn = (step.backwards + later) % (step.group * step.plans.vpp) < step.group
    return of_last


def of_first_chunk(step: UnitStep, later: Numbers) -> BoolColumn:
    """Whether a backward is of the chunk that works backward last, with the embedding.

    step: of every stage; later: a count, as of `of_last_chunk`. Returns truths, shape (r,). Source: `of_last_chunk`.
    """
    chunks = step.plans.vpp
    of_first: BoolColumn = (step.backwards + later) % (step.group * chunks) >= (chunks - 1) * step.group
    return of_first


def last_chunk_size(step: UnitStep) -> FloatColumn:
    """Layers of the chunk that works backward first, over those of an average one.

    step: of every stage. Returns a share, shape (r,). Source: `of_last_chunk`.
    """
    size: FloatColumn = step.plans.vpp * step.whole.last_chunk / np.maximum(step.layers, 1)
    return size


def other_chunk_size(step: UnitStep) -> FloatColumn:
    """The same of the others.

    step: of every stage. Returns a share, shape (r,). Source: `of_last_chunk`.
    """
    chunks = step.plans.vpp
    size: FloatColumn = (chunks - last_chunk_size(step)) / np.maximum(chunks - 1, 1)
    return size


def chunk_sizes(step: UnitStep) -> tuple[FloatColumn, FloatColumn]:
    """The chunk that works backward first, and the others. Several groups of micro-batches mix the others with it.

    step: of every stage. Returns layers as a share of an average chunk's, shape (r,). Source: `of_last_chunk`.
    """
    return last_chunk_size(step), np.where(step.one_group, other_chunk_size(step), 1.0)


def chunks_beside_forward(step: UnitStep) -> FloatColumn:
    """The chunks beside the one that works forward: where the fullest forward is not that of the last chunk, it is one.

    step: of every stage. Returns layers as a share of an average chunk's, shape (r,). Source: `of_last_chunk`.
    """
    others = (step.plans.vpp - other_chunk_size(step)) / np.maximum(step.plans.vpp - 1, 1)
    size: FloatColumn = np.where(step.in_flight.further > 0, others, 1.0)
    return size


def first_passed(step: UnitStep) -> FloatColumn:
    """The chunk that works backward behind the last forward.

    step: of every stage. Returns layers as a share of an average chunk's, shape (r,). Source: `of_last_chunk`.
    """
    return np.where(of_last_chunk(step, 0), chunk_sizes(step)[0], 1.0)


def chunks_passed(step: UnitStep, backwards: Numbers) -> FloatColumn:
    """What so many backward passes behind the last forward go through.

    step: of every stage; backwards: a count. Returns layers as a share of an average chunk's, shape (r,). Source:
    `of_last_chunk`.
    """
    last, other = chunk_sizes(step)
    of_last = np.where(step.one_group, np.clip(step.group - step.backwards, 0, backwards), 1 * of_last_chunk(step, 0))
    return of_last * last + (backwards - of_last) * other


def waiting_embedding(step: UnitStep, first: BoolColumn) -> FloatColumn:
    """ZeRO 3: the 2-byte weights of an embedding that is gathered with its chunk, where that waits beside another.

    step: of every stage; first: whether it does, shape (r,). Returns bytes, shape (r,). Source: torch 2.13,
    distributed/pipelining/schedules.py, _add_unshard_reshard.
    """
    return HALF_BYTES * step.whole.embedding * (step.resharded & first & step.ends_apart)


def other_chunks(
    step: UnitStep, chunks: IntColumn, last: Bools = False, size: Floats = 1.0, first: Bools = False
) -> FloatColumn:
    """ZeRO 3: the 2-byte weights of so many chunks, beside what is gathered anyway.

    step: of every stage; chunks: a count; last, first: whether the chunk that works backward first or last is one of
    them; size: layers of every other one over those of an average chunk, a share. Returns bytes, shape (r,). Source:
    `waiting_embedding`.
    """
    count = step.plans.vpp
    other = step.layers / count * size
    layers: FloatColumn = chunks * other
    if some(first):
        layers = np.where(first & (chunks > 0), step.whole.first_chunk + (chunks - 1) * other, layers)
    if some(last):
        layers = np.where(last, step.whole.of_chunks(1.0 * chunks, count), layers)
    every = HALF_BYTES * step.whole.all - step.until_backward
    return np.where(chunks == count, every, HALF_BYTES * layers) * step.resharded
