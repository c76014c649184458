"""Stages: which layers each pipeline stage holds, as a ragged table of one row per stage and plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from meshwright.arrays import BoolColumn, IntColumn, Ints
from meshwright.distinct import distinct_rows
from meshwright.layout.plans import Plans
from meshwright.specs.model import Model

LiveChunks = Callable[[Ints, Ints, Ints, Ints, Ints], Ints]
"""(schedule, stage, stages, chunks, micro_batches) -> chunk activations kept; see `cost.schedules.live_chunks`."""


@dataclass(frozen=True, slots=True)
class Stages:
    """Pipeline stages of many plans; all columns have one row per stage, those of one plan stand together."""

    plan: IntColumn
    """Index of the plan that the row belongs to, shape (r,)."""
    start: IntColumn
    """First row of each plan, shape (n,): the second argument of `np.ufunc.reduceat`."""
    stage: IntColumn
    """Pipeline rank, 0 first, shape (r,)."""
    layers: IntColumn
    """Layers of each kind on the stage, shape (r, kinds)."""
    live_layers: IntColumn
    """Layers of each kind times the micro-batches whose activations they keep at the peak, shape (r, kinds)."""
    live_micro_batches: IntColumn
    """Micro-batches of which the stage keeps at least one chunk at the peak, shape (r,)."""
    embedding: BoolColumn
    """Whether the stage holds the token embedding, shape (r,)."""
    head: BoolColumn
    """Whether the stage holds the final norm and the output head, shape (r,)."""


def split_stages(model: Model, plans: Plans, live_chunks: LiveChunks, *, keep_all: bool, mtp_layers: int = 0) -> Stages:
    """The stages of plans: chunk j of stage r holds block j * pp + r, and blocks are as large as `chunk_sizes` says.

    The embedding and the head may each count as one layer, so that the first and the last block hold one layer fewer;
    where neither does, the last block leaves room for multi-token prediction, whose layers are in no count here.

    live_chunks: the schedule's count of kept chunks. keep_all: False drops a stage that an earlier one, or one with
    more of everything, exceeds in every count; enough for the worst stage, not for a listing. mtp_layers: of
    multi-token prediction. More than 2 pp micro-batches keep no more chunks alive than 2 pp do, so that is where
    signatures end.
    Source of the order: Megatron-LM, transformer_block.py, get_num_layers_to_build.
    """
    enough = np.minimum(plans.num_microbatches, 2 * plans.pp)
    ends = plans.embedding_as_layer, plans.head_as_layer
    signatures, index = distinct_rows(plans.pp, plans.vpp, plans.schedule, enough, *ends)
    tables = [
        _signature(model, tuple(map(int, signature)), live_chunks, keep_all, mtp_layers)
        for signature in zip(*signatures, strict=True)
    ]
    tables = tables or [_signature(model, (1, 1, 0, 1, 0, 0), live_chunks, keep_all, mtp_layers)]
    heights = np.array([len(table["stage"]) for table in tables])
    joined = {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
    offsets, counts = np.cumsum(heights) - heights, heights[index]
    start = np.cumsum(counts) - counts
    plan = np.repeat(np.arange(len(plans)), counts)
    rows = np.arange(len(plan)) - start[plan] + offsets[index][plan]
    return Stages(plan=plan, start=start, **{name: column[rows] for name, column in joined.items()})


def chunk_sizes(layers: int, chunks: int, mtp_layers: int = 0) -> IntColumn:
    """Layers of every chunk of a pipeline, in the order of the model: alike, or some one fewer.

    Where layers do not divide, ceil(layers / chunks) each; the ones too many are left out of the last chunk, the first,
    the last but one and so on: the head makes the last stage slower, activations in flight make the first one larger.
    A layer of multi-token prediction counts as two, itself and its head, as far as the last chunk can give them up:
    Megatron-Bridge's layouts of DeepSeek-V3 over 4, 8, 16 and 32 chunks.
    layers: to split, those that stand for the ends included; chunks: at most as many; counts. Returns counts.

    >>> chunk_sizes(61, 8).tolist(), chunk_sizes(61, 8, mtp_layers=1).tolist()
    ([7, 8, 8, 8, 8, 8, 7, 7], [8, 8, 8, 8, 8, 8, 8, 5])
    """
    counted = next(count for count in range(2 * mtp_layers, -1, -1) if _alike(layers + count, chunks)[-1] >= count)
    sizes = _alike(layers + counted, chunks)
    sizes[-1] -= counted
    return sizes


def _alike(layers: int, chunks: int) -> IntColumn:
    most = -(-layers // chunks)
    forth, back = np.arange(chunks), np.arange(chunks)[::-1]
    outermost_first = np.lexsort((forth < back, np.minimum(forth, back)))
    sizes: IntColumn = np.full(chunks, most)
    sizes[outermost_first[: most * chunks - layers]] -= 1
    return sizes


def _signature(
    model: Model, signature: tuple[int, ...], live_chunks: LiveChunks, keep_all: bool, mtp_layers: int
) -> dict[str, IntColumn | BoolColumn]:
    stages, chunks, schedule, micro_batches, embedding_as_layer, head_as_layer = signature
    stage = np.arange(stages)
    kinds = np.eye(len(model.layer_kinds), dtype=np.int64)[list(model.layer_pattern)]
    kinds = np.pad(kinds, ((embedding_as_layer + 1, head_as_layer), (0, 0))).cumsum(axis=0)
    counted = 0 if embedding_as_layer or head_as_layer else mtp_layers
    ends = np.cumsum(chunk_sizes(len(kinds) - 1, stages * chunks, counted))
    per_chunk = np.diff(kinds[ends], axis=0, prepend=0).reshape(chunks, stages, -1)
    live = np.asarray(live_chunks(schedule, stage, stages, chunks, micro_batches))
    turn = stages * chunks
    kept = live // turn * stages + np.clip(live % turn - stages * np.arange(chunks)[:, None], 0, stages)
    table = {
        "stage": stage,
        "layers": per_chunk.sum(axis=0),
        "live_layers": (per_chunk * kept[:, :, None]).sum(axis=0),
        "live_micro_batches": kept.max(axis=0),
        "embedding": stage == 0,
        "head": stage == stages - 1,
    }
    if keep_all:
        return table
    chosen = _undominated(table)
    return {name: column[chosen] for name, column in table.items()}


def _undominated(table: dict[str, IntColumn | BoolColumn]) -> IntColumn:
    """Rows that no other row exceeds or equals in every count; of equal rows the earliest stays."""
    counts = np.column_stack([column for name, column in table.items() if name != "stage"])
    kept: list[int] = []
    for row in range(len(counts)):
        if not any((counts[other] >= counts[row]).all() for other in kept):
            kept.append(row)
    return np.array(kept)
