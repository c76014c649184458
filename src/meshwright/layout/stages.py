"""Stages: which layers each pipeline stage holds, as a ragged table of one row per stage and plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from meshwright.arrays import BoolColumn, Bools, FloatColumn, IntColumn, negated
from meshwright.distinct import distinct_rows
from meshwright.layout.plans import Layout, Plans
from meshwright.layout.signatures import Given, signature_table
from meshwright.layout.splits import PipelineSplit
from meshwright.schedules.records import v_shaped
from meshwright.specs.inputs import Inputs


@dataclass(frozen=True, eq=False, slots=True)
class Stages:
    """Pipeline stages of many plans; all columns have one row per stage, those of one plan stand together."""

    plan: IntColumn
    """Index of the plan that the row belongs to, shape (r,)."""
    start: IntColumn
    """First row of each plan, shape (n,)."""
    stage: IntColumn
    """Pipeline rank, 0 first, shape (r,)."""
    layers: IntColumn
    """Layers of each kind on the stage, shape (r, kinds)."""
    last_chunk_layers: IntColumn
    """Of `layers`, those of the chunk that works backward first, where gradients are reduced after the last micro-batch
    alone; else 0; shape (r, kinds)."""
    first_chunk_layers: IntColumn
    """The same of the chunk that works backward last."""
    in_flight_layers: IntColumn
    """Layers of each kind times the micro-batches whose activations they keep at the peak, shape (r, kinds)."""
    further_layers: IntColumn
    """What forward keeps more than `in_flight_layers` at its fullest, where chunks differ: those favour the moment at
    which the head's chunk is among them; shape (r, kinds)."""
    layers_not_recomputed: IntColumn
    """Of `layers`, those that full recomputation leaves out, shape (r, kinds)."""
    in_flight_not_recomputed: IntColumn
    """Of `in_flight_layers`, theirs, shape (r, kinds)."""
    model_layers_not_recomputed: IntColumn
    """Of all stages together, the layers that full recomputation leaves out, shape (r, kinds)."""
    waiting_layers: IntColumn
    """Layers of each kind times the micro-batches that wait for their weight gradients alone, shape (r, kinds)."""
    in_flight_micro_batches: IntColumn
    """Micro-batches of which the stage keeps at least one chunk at the peak, shape (r,)."""
    in_flight_chunks: IntColumn
    """The same micro-batches summed over the stage's chunks, shape (r,)."""
    in_flight_at_head: IntColumn
    """Of them, those that the chunk with the head keeps, shape (r,)."""
    receives: IntColumn
    """Where buffers stand for all that will be received: the messages of one micro-batch, activations and gradients of
    all chunks; else 0; shape (r,)."""
    embedding: BoolColumn
    """Whether the stage holds the token embedding, shape (r,)."""
    head: BoolColumn
    """Whether the stage holds the final norm and the output head, shape (r,)."""
    copies: IntColumn
    """Copies of the model over all stages, each of which sees its share of the micro-batches, shape (r,)."""

    @classmethod
    def join(cls, parts: Sequence[Stages]) -> Stages:
        """The stages of all parts, each those of one plan, in their order."""
        heights = np.array([len(part.plan) for part in parts])
        columns = {each.name: np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(cls)[2:]}
        plan = np.repeat(np.arange(len(parts)), heights)
        return cls(plan=plan, start=np.cumsum(heights) - heights, **columns)

    def spread(self, index: IntColumn) -> tuple[Stages, IntColumn]:
        """The stages of many plans that have those of one of these each, and the row here that each of them is.

        index: for every plan the one that it is like, shape (n,).
        """
        if len(self.start) == len(index) == 1:
            return self, np.arange(len(self.plan))
        plan, start, rows = self.rows_of(index)
        return _Spread(self, plan, start, rows), rows

    def apart(self, rows: IntColumn) -> Stages:
        """The chosen rows, each the only stage of a plan of its own."""
        each = np.arange(len(rows))
        return _Spread(self, each, each, rows)

    def some(self, rows: IntColumn) -> Stages:
        """The chosen rows, each still of its plan, which may have others."""
        return _Spread(self, self.plan.take(rows), np.arange(len(rows)), rows)

    def some_of_each(self, rows: IntColumn) -> Stages:
        """The chosen rows, in order, at least one of every plan."""
        plan = self.plan[rows]
        return _Spread(self, plan, np.searchsorted(plan, np.arange(len(self.start))), rows)

    def largest(self, values: FloatColumn) -> FloatColumn:
        """The largest value of the stages of every plan, shape (n,); `np.maximum.reduceat` takes four times as long.

        values: shape (r,).
        """
        largest: FloatColumn = values.take(self.start)
        np.maximum.at(largest, self.plan, values)
        return largest

    @property
    def heights(self) -> IntColumn:
        """How many stages each plan has, shape (n,)."""
        ends = np.empty_like(self.start)
        ends[:-1], ends[-1:] = self.start[1:], len(self.plan)
        return ends - self.start

    def rows_of(self, index: IntColumn) -> tuple[IntColumn, IntColumn, IntColumn]:
        """Of `spread`: the plan of every stage, the first stage of every plan, and the row here that each stage is."""
        counts = self.heights.take(index)
        start = np.cumsum(counts) - counts
        plan = np.repeat(np.arange(len(index)), counts)
        return plan, start, np.arange(len(plan)) + (self.start.take(index) - start).take(plan)


class _Spread(Stages):
    """Stages that are rows of others; a column is taken when it is first asked for."""

    __slots__ = ("_rows", "_whole")

    def __init__(self, whole: Stages, plan: IntColumn, start: IntColumn, rows: IntColumn) -> None:
        for name, value in {"_whole": whole, "_rows": rows, "plan": plan, "start": start}.items():
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> IntColumn | BoolColumn:
        if name.startswith("_"):
            raise AttributeError(name)
        column: IntColumn | BoolColumn = getattr(self._whole, name).take(self._rows, axis=0)
        object.__setattr__(self, name, column)
        return column


def signature_stages(inputs: Inputs, plans: Plans, *, keep_all: bool) -> tuple[Stages, IntColumn]:
    """The stages of plans: each holds the blocks that its schedule lays out, which are as large as `splits` says.

    Layers of multi-token prediction are in no count here.
    plans: that `filling` leaves, shape (n,); keep_all: False drops a stage that an earlier one, or one with more of
    everything, exceeds in every count, but where autograd splits the backward pass; enough for the worst stage, not for
    a listing. Returns them and for every stage a number that those of the same signature and place share, shape (r,).
    Source of the order: Megatron-LM, transformer_block.py, get_num_layers_to_build.
    """
    (signatures, index), given = distinct_signatures(plans), Given.of(inputs)
    tables = [
        signature_table(given, _pipeline(row[:-4], plans.chunkings), row[-4:], keep_all)
        for row in zip(*(signature.tolist() for signature in signatures), strict=True)
    ]
    tables = tables or [signature_table(given, PipelineSplit(1, 1), (0, 1, 1, 0), keep_all)]
    heights = np.array([len(table) for table in tables])
    # np.concatenate takes a hundred times as long.
    rows = np.frombuffer(b"".join(each.tobytes() for each in tables), tables[0].dtype)
    joined = {name: np.ascontiguousarray(rows[name]) for name in rows.dtype.names or ()}
    each = Stages(plan=np.repeat(np.arange(len(tables)), heights), start=np.cumsum(heights) - heights, **joined)
    return each.spread(index)


def distinct_signatures(plans: Plans) -> tuple[list[IntColumn], IntColumn]:
    """The distinct rows of the columns of plans that their stages depend on, and the row of every plan.

    plans: that `filling` leaves, shape (n,). Returns columns of shape (k,) and an index of shape (n,).
    """
    split = [getattr(plans, name) for name in PipelineSplit._fields]
    turns = plans.schedule, plans.num_microbatches, plans.microbatch_group, plans.recompute_layers
    return distinct_rows(*split, *turns)


def _pipeline(row: tuple[int, ...], chunkings: tuple[tuple[int, ...], ...]) -> PipelineSplit:
    """The fields of a pipeline, as its columns hold them."""
    pp, vpp, embedding, head, first, last, chunk_layers = row
    return PipelineSplit(
        pp=pp,
        vpp=vpp,
        embedding_as_layer=bool(embedding),
        head_as_layer=bool(head),
        first_stage_layers=first,
        last_stage_layers=last,
        chunk_layers=chunkings[chunk_layers],
    )


def ends_apart(plan: Layout) -> Bools:
    """Whether the embedding and the head are on different ranks; scalar or array (n,)."""
    return (plan.pp > 1) & negated(v_shaped(plan.schedule))
