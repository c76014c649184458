"""Data parallelism: summing the gradients and, with ZeRO, gathering the updated parameters."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import Floats, Numbers
from meshwright.cost.comms.collectives import collective_time
from meshwright.cost.comms.group import data_group
from meshwright.cost.comms.overlap import exposed_time
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs

WEIGHT_BYTES = 2


def exposed_data_time(
    plan: Layout, inputs: Inputs, parameters: Numbers, forward: Floats, backward: Floats
) -> tuple[Floats, Floats]:
    """Exposed seconds per step of one stage: (gradients, parameters).

    ZeRO 0: one all-reduce of the gradients; ZeRO 1: a reduce-scatter of the gradients and an all-gather of the 2-byte
    parameters. Both go in buckets of max(40e6, 1e6 n) parameters, once per step: gradients beside the backward of the
    last micro-batch, parameters beside the forward of the first (Megatron-LM, distributed_data_parallel.py).

    parameters: on the rank; forward, backward: compute of one micro-batch on the stage, seconds; scalar or array (n,).
    Returns seconds.
    """
    runtime, group = inputs.runtime, data_group(plan, inputs)
    gradients = 1.0 * runtime.gradient_bytes * parameters
    weights = 1.0 * WEIGHT_BYTES * parameters
    bucket = np.maximum(runtime.gradient_bucket, runtime.gradient_bucket_per_rank * group.ranks)
    buckets = np.maximum(np.ceil(parameters / bucket), 1.0)
    share, sharded = runtime.overlap.data_parallel, np.greater(plan.zero, 0)
    summed = buckets * collective_time("all_reduce", gradients / buckets, group, inputs.cluster)
    scattered = buckets * collective_time("reduce_scatter", gradients / buckets, group, inputs.cluster)
    collected = buckets * collective_time("all_gather", weights / buckets, group, inputs.cluster)
    reduced, gathered = np.where(sharded, scattered, summed), np.where(sharded, collected, 0.0)
    return (
        exposed_time(reduced, backward, share, reduced / buckets, inputs),
        exposed_time(gathered, forward, share, gathered / buckets, inputs),
    )
