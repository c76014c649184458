"""States: weights, gradients and optimizer states of one rank, by how data parallelism holds them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright.arrays import Floats, Numbers
from meshwright.cost.element import FP32_BYTES, HALF_BYTES
from meshwright.layout.groups import sharding_ranks
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs

ADAM_MOMENTS_BYTES = 2 * FP32_BYTES
GATHERED_LAYERS = 2
"""The layer that works and the one that is prefetched."""


class States(NamedTuple):
    """Bytes on one rank; each scalar or array (n,)."""

    parameters: Floats
    gradients: Floats
    optimizer_states: Floats
    whole_gradients: Floats
    """Of one layer or bucket before its reduce-scatter, alive during its backward."""


def state_bytes(plan: Layout, inputs: Inputs, parameters: Numbers, layer: Numbers, ends: Numbers) -> States:
    """Bytes of weights, gradients and Adam states on one rank, for P parameters and n = dp c / dp_replicate ranks.

    Half weights: 2 P bytes of weights (ZeRO 3: 2 P / n and what is gathered), gradients as the runtime keeps them
    (ZeRO 2: divided by n; 2-byte ones with an fp32 copy of what the rank updates, of which in ZeRO 3 only the copy
    counts), and 12 bytes of fp32 weights and moments, divided by n from ZeRO 1 on. Megatron's distributed optimizer:
    6 + 12/n; DeepSpeed's ZeRO 2 and 3: 2 + 18/n and 18/n.
    Full weights: 4 P of weights, 8 P of moments and, between micro-batches, 4 P of gradients, divided by n from ZeRO 2
    on; beside them 2-byte weights, all of them (ZeRO 0 and 2) or what is gathered (ZeRO 3). Under a pipeline that
    defers their reduction gradients stay whole.
    Gathered are two layers and the ends. One layer's whole gradients, or a full bucket of them, wait for their
    reduce-scatter.

    plan: scalar or array (n,); parameters: P, on the rank before data parallelism; layer: of its largest layer; ends:
    of embedding, final norm and head. Returns bytes. Source: Rajbhandari et al., arXiv:1910.02054; Megatron-LM,
    dist_optimizer.md; DeepSpeed, stage_1_and_2.py and stage3.py, estimators; torch.distributed.fsdp 2.13.
    """
    if inputs.runtime.weights == "half":
        return _half_states(plan, inputs, parameters, layer, ends)
    return _full_states(plan, inputs, parameters, layer, ends)


def _half_states(plan: Layout, inputs: Inputs, parameters: Numbers, layer: Numbers, ends: Numbers) -> States:
    gradient = inputs.gradient_bytes
    gathered = np.where(np.equal(plan.zero, 3), HALF_BYTES * _gathered(inputs, parameters, layer, ends), 0.0)
    copied = np.where(np.equal(plan.zero, 3), FP32_BYTES - gradient, FP32_BYTES if gradient < FP32_BYTES else 0)
    bucket = gradient * np.minimum(np.maximum(inputs.runtime.gradient_bucket, layer), parameters)
    return States(
        1.0 * HALF_BYTES * _shard(plan, parameters, 3) + gathered,
        gradient * _shard(plan, parameters, 2) + copied * _shard(plan, parameters, 1),
        (FP32_BYTES + ADAM_MOMENTS_BYTES) * _shard(plan, parameters, 1),
        np.where(np.greater(plan.zero, 1), 1.0 * bucket, 0.0),
    )


def _full_states(plan: Layout, inputs: Inputs, parameters: Numbers, layer: Numbers, ends: Numbers) -> States:
    runtime = inputs.runtime
    sharded, whole = _shard(plan, parameters, 2), np.greater(plan.zero, 1)
    gathered = np.where(np.equal(plan.zero, 3), _gathered(inputs, parameters, layer, ends), parameters)
    deferred = runtime.defers_reduction & np.greater(plan.pp, 1)
    summed = np.where(deferred, 1.0 * parameters, sharded)
    accumulated = np.where(np.greater(plan.num_microbatches, 1), summed, 0.0)
    buckets = 1 + runtime.gradient_copies
    cast = FP32_BYTES if inputs.gradient_bytes == FP32_BYTES else 0
    return States(
        FP32_BYTES * sharded + HALF_BYTES * gathered,
        FP32_BYTES * np.where(whole, accumulated, 1.0 * buckets * parameters),
        ADAM_MOMENTS_BYTES * sharded,
        np.where(whole, 1.0 * (HALF_BYTES + cast) * layer, 0.0),
    )


def _shard(plan: Layout, parameters: Numbers, stage: int) -> Floats:
    """What one rank holds of something that ZeRO divides from a stage on."""
    return parameters / np.where(np.greater_equal(plan.zero, stage), sharding_ranks(plan), 1)


def _gathered(inputs: Inputs, parameters: Numbers, layer: Numbers, ends: Numbers) -> Floats:
    layers = 1.0 * GATHERED_LAYERS * layer
    together = layers + ends if inputs.runtime.keeps_ends_gathered else np.maximum(layers, ends)
    return np.minimum(together, parameters)
