"""Signatures: the stages of one pipeline as a table, by what of a question and of a plan they depend on."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from meshwright.arrays import BoolColumn, IntColumn, structured
from meshwright.layout.splits import PipelineSplit, layers_before, split_layers
from meshwright.schedules.peak import chunks_at_peak
from meshwright.schedules.pipeline import PipelineShape
from meshwright.schedules.records import blocks, copies, splits_backward
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import Model


class Given(NamedTuple):
    """What of a question the stages of a pipeline depend on."""

    model: Model
    mtp_layers: int
    stage_split: str
    defers_reduction: bool
    receives_ahead: bool
    keeps_messages: bool

    @classmethod
    def of(cls, inputs: Inputs) -> Self:
        """That of a question."""
        pipeline = inputs.runtime.pipeline
        return cls(
            model=inputs.model,
            mtp_layers=inputs.mtp_layers,
            stage_split=pipeline.stage_split,
            defers_reduction=inputs.runtime.sharding.defers_reduction,
            receives_ahead=pipeline.receives_ahead,
            keeps_messages=pipeline.keeps_messages,
        )


@lru_cache(maxsize=2048)
def signature_table(given: Given, pipeline: PipelineSplit, turns: tuple[int, ...], keep_all: bool) -> NDArray[np.void]:
    """The stages of one pipeline, with a field for every column; turns: its schedule, micro-batches, group of them and
    layers recomputed. A search asks for the same ones again and again.
    """
    schedule, micro_batches, group, recomputed = turns
    shape = PipelineShape(stages=pipeline.pp, micro_batches=micro_batches, chunks=pipeline.vpp, microbatch_group=group)
    stages, sizes, block, in_flight = _worked(given, pipeline, schedule, shape)
    table = stages | _not_recomputed(given.model, recomputed, sizes, block, in_flight)
    if keep_all or given.keeps_messages or (given.defers_reduction and splits_backward(schedule)):
        return structured(table)
    return structured(table)[_undominated(table)]


def _not_recomputed(
    model: Model, recomputed: int, sizes: IntColumn, block: IntColumn, in_flight: IntColumn
) -> dict[str, IntColumn]:
    """What full recomputation of so many layers of every block leaves out; nothing where it is not told how many."""
    stages, before = block.shape[1], layers_before(model)
    names = "layers_not_recomputed", "in_flight_not_recomputed", "model_layers_not_recomputed"
    if not recomputed:
        return dict.fromkeys(names, np.zeros((stages, before.shape[1]), dtype=np.int64))
    ends = sizes.cumsum()
    of_block = before[ends] - before[ends - np.maximum(sizes - recomputed, 0)]
    without = of_block[block]
    of_model = np.tile(of_block.sum(axis=0), (stages, 1))
    return dict(zip(names, (without.sum(axis=0), (without * in_flight[:, :, None]).sum(axis=0), of_model), strict=True))


class _Worked(NamedTuple):
    """The stages of one pipeline, but for what is recomputed."""

    stages: dict[str, IntColumn | BoolColumn]
    sizes: IntColumn
    """Layers of every block, shape (blocks,)."""
    block: IntColumn
    """Of every chunk of every stage, its block; shape (chunks held, p)."""
    in_flight: IntColumn
    """Micro-batches of each of these when the stage keeps the most; shape (chunks held, p)."""


@lru_cache(maxsize=2048)
def _worked(given: Given, pipeline: PipelineSplit, schedule: int, shape: PipelineShape) -> _Worked:
    held, chunks, defers = _held(given, pipeline, schedule), pipeline.vpp, given.defers_reduction
    sizes, per_chunk = held.sizes[held.block], held.per_chunk
    weights = sizes + held.with_head * sizes.max(axis=0)
    in_flight, waiting = chunks_at_peak(schedule, shape, weights, all_worked=defers)
    kept = (per_chunk * in_flight[:, :, None]).sum(axis=0)
    fullest = in_flight
    if defers and chunks > 1:
        fullest = chunks_at_peak(schedule, shape, sizes, all_worked=True).in_flight
    table = {
        "in_flight_layers": kept,
        "further_layers": (per_chunk * fullest[:, :, None]).sum(axis=0) - kept,
        "waiting_layers": (per_chunk * waiting[:, :, None]).sum(axis=0),
        "in_flight_micro_batches": in_flight.sum(axis=0) if copies(schedule) > 1 else in_flight.max(axis=0),
        "in_flight_chunks": in_flight.sum(axis=0),
        "in_flight_at_head": (in_flight * held.with_head).sum(axis=0),
    }
    return _Worked(stages=held.stages | table, sizes=held.sizes, block=held.block, in_flight=in_flight)


class _Held(NamedTuple):
    """The stages of one pipeline, however many micro-batches it works on."""

    stages: dict[str, IntColumn | BoolColumn]
    sizes: IntColumn
    """Layers of every block, shape (blocks,)."""
    block: IntColumn
    """As of `_Worked`."""
    per_chunk: IntColumn
    """Layers of each kind of every chunk of every stage, shape (chunks held, p, kinds)."""
    with_head: BoolColumn
    """Whether it has the head, shape (chunks held, p)."""


@lru_cache(maxsize=2048)
def _held(given: Given, pipeline: PipelineSplit, schedule: int) -> _Held:
    stages, defers, before = pipeline.pp, given.defers_reduction, layers_before(given.model)
    sizes = split_layers(given.model, given.stage_split, given.mtp_layers, pipeline)
    ends, block = sizes.cumsum(), blocks(schedule, stages, pipeline.vpp)
    per_chunk = (before[ends] - before[ends - sizes])[block]
    with_head = block == stages * pipeline.vpp - 1
    table = {
        "stage": np.arange(stages),
        "layers": per_chunk.sum(axis=0),
        "last_chunk_layers": defers * per_chunk[-1],
        "first_chunk_layers": defers * per_chunk[0],
        "receives": given.receives_ahead * ((block > 0) * 1 + ~with_head).sum(axis=0),
        "embedding": (block == 0).any(axis=0),
        "head": with_head.any(axis=0),
        "copies": np.full(stages, copies(schedule)),
    }
    return _Held(stages=table, sizes=sizes, block=block, per_chunk=per_chunk, with_head=with_head)


def _undominated(table: dict[str, IntColumn | BoolColumn]) -> IntColumn:
    """Rows that no other row exceeds or equals in every count; of equal rows the earliest stays."""
    counts: IntColumn = np.column_stack([column for name, column in table.items() if name != "stage"])
    as_much = (counts[:, None] >= counts).all(axis=2)
    earlier = np.tri(len(counts), k=-1, dtype=bool).T
    return np.flatnonzero(~(as_much & (~as_much.T | earlier)).any(axis=0))
