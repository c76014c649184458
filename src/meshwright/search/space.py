"""Space: every plan whose degrees multiply to the cluster, before any rule is asked."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from meshwright.layout.legality.rule import divisors
from meshwright.layout.plan import RECOMPUTE_NAMES, Schedule
from meshwright.layout.plans import Plans
from meshwright.specs.inputs import Inputs


def space(inputs: Inputs) -> Iterator[Plans]:
    """All combinations of tp, pp, dp with tp x pp x dp = ranks, and of what can be chosen beside them.

    vpp: the divisors of a stage's layers (1 where layers do not divide); micro-batch: the divisors of a replica's batch
    (1 where the batch does not divide, so that the rule can refuse it); sequence parallelism where tp > 1; ZeRO stages
    of the runtime where dp > 1; its recompute kinds. One table per (tp, pp).
    """
    world = inputs.cluster.num_gpus
    for tp in divisors(world):
        for pp in divisors(world // tp):
            for ends in _ends(pp, inputs):
                yield _around(tp, pp, world // tp // pp, ends, inputs)


def _ends(pp: int, inputs: Inputs) -> list[tuple[int, int]]:
    """Whether the embedding and the head count as layers: every choice that divides by pp, or none where none does."""
    layers = inputs.model.num_layers
    choices = [(0, 0), (1, 0), (0, 1), (1, 1)] if inputs.runtime.counts_ends and pp > 1 else [(0, 0)]
    return [ends for ends in choices if (layers + sum(ends)) % pp == 0 and layers + sum(ends) > pp] or [(0, 0)]


def _around(tp: int, pp: int, dp: int, ends: tuple[int, int], inputs: Inputs) -> Plans:
    runtime, batch, layers = inputs.runtime, inputs.job.global_batch, inputs.model.num_layers + sum(ends)
    micro_batches = divisors(batch // dp) if batch % dp == 0 else [1]
    chunks = divisors(layers // pp) if pp > 1 and layers % pp == 0 and "interleaved" in runtime.schedules else [1]
    zero_stages = runtime.zero_stages if dp > 1 else (0,)
    recompute = [code for code, name in RECOMPUTE_NAMES.items() if name in runtime.recompute]
    sequence_parallel = (0, 1) if tp > 1 and runtime.sequence_parallel else (0,)
    grid = np.meshgrid(chunks, micro_batches, zero_stages, recompute, sequence_parallel, indexing="ij")
    vpp, micro_batch, zero, again, sp = (np.ravel(axis).astype(np.int64) for axis in grid)
    fixed = {"tp": tp, "pp": pp, "dp": dp, "embedding_as_layer": ends[0], "head_as_layer": ends[1]}
    constant = {name: np.full(len(vpp), value) for name, value in fixed.items()}
    return Plans.filled(
        **constant,
        sp=sp,
        vpp=vpp,
        zero=zero,
        micro_batch=micro_batch,
        num_microbatches=np.maximum(batch // (dp * micro_batch), 1),
        recompute=again,
        schedule=np.where(vpp > 1, int(Schedule.INTERLEAVED), int(Schedule.ONE_F_ONE_B)),
    )
