"""Fully sharded: what stages hold whose weights are fp32 ones, or shards of them, that are cast for use."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import FloatColumn
from meshwright.cost.element import FP32_BYTES, HALF_BYTES
from meshwright.cost.memory.pipelined_step import pipelined_step
from meshwright.cost.memory.sharded_step import replicated_step, sharded_step
from meshwright.cost.memory.states import States
from meshwright.cost.memory.timeline import Played
from meshwright.cost.memory.unit_step import UnitStep


def played_steps(step: UnitStep) -> list[Played]:
    """The steps of stages, each kind of step with the stages that have it. step: of every stage, shape (r,)."""
    sharded = step.plans.zero > 1
    kinds = {replicated_step: ~sharded, pipelined_step: step.deferred, sharded_step: sharded & ~step.deferred}
    for play, rows in kinds.items():
        if rows.all():
            return [(np.arange(len(rows)), play(step))]
    return [(np.flatnonzero(rows), play(step.take(np.flatnonzero(rows)))) for play, rows in kinds.items() if rows.any()]


def stored_states(step: UnitStep) -> States:
    """fp32 weights and the two moments of Adam, of the parameters that a rank stores.

    step: of every stage, shape (r,). Returns bytes, shape (r,).
    """
    nothing, moment_bytes = 0.0 * step.stored.all, step.inputs.runtime.storage.moment_bytes
    return States(FP32_BYTES * step.stored.all, nothing, 2 * moment_bytes * step.stored.all, nothing, nothing)


def pooled_bytes(step: UnitStep) -> FloatColumn:
    """Not alive at the peak, yet kept for the streams of the exchanges alone: the ends and one layer as they were
    gathered, the shard of the ends that was sent, and 4 P / n of reduced gradients that do not last.

    step: of every stage, shape (r,). Returns bytes, shape (r,). Source: torch.distributed.fsdp 2.13,
    _fully_shard/_fsdp_collectives.py L336-365, L611-635 and _fsdp_param_group.py L475-489.
    """
    whole, stored, sharding = step.whole, step.stored, step.inputs.runtime.sharding
    if not sharding.exchange_pools:
        return np.zeros(len(whole.all))
    ends, of_shard = whole.ends, stored.ends
    if sharding.ends_apart:
        ends, of_shard = np.maximum(whole.embedding, whole.head), np.maximum(stored.embedding, stored.head)
    exchanged = np.where(stored.all < whole.all, HALF_BYTES * (ends + whole.layer + of_shard), 0.0)
    lasting = step.several & ~step.deferred
    pools: FloatColumn = np.where(step.plans.zero > 1, exchanged + FP32_BYTES * stored.all * ~lasting, 0.0)
    return pools
