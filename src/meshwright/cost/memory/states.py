"""States: weights, gradients and optimizer states of one rank, by how data parallelism holds them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright.arrays import Floats, Ints, Numbers
from meshwright.cost.element import FP32_BYTES, HALF_BYTES
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
    pooled: Floats
    """Not alive at the peak, yet kept for the streams of the exchanges alone."""


def state_bytes(
    plan: Layout, inputs: Inputs, parameters: Numbers, layer: Numbers, ends: Numbers, ranks: Ints
) -> States:
    """Bytes of weights, gradients and Adam states on one rank, for P parameters that ZeRO divides over n ranks.

    Half weights: 2 P bytes of weights, with the copies that the recipe's products take (ZeRO 3: 2 P / n and what is
    gathered), gradients as the runtime keeps them (ZeRO 2: divided by n; 2-byte ones with an fp32 copy of what the rank
    updates, of which in ZeRO 3 only the copy counts), and 12 bytes of fp32 weights and moments, divided by n from ZeRO
    1 on. Megatron's distributed optimizer: 6 + 12/n; DeepSpeed's ZeRO 2 and 3: 2 + 18/n and 18/n.
    Full weights: 4 P of weights, 8 P of moments and, between micro-batches, 4 P of gradients, divided by n from ZeRO 2
    on; beside them 2-byte weights, all of them (ZeRO 0 and 2) or what is gathered (ZeRO 3). Under a pipeline that
    defers their reduction gradients stay whole.
    Gathered are two layers and the ends. One layer's whole gradients, or a full bucket of them, wait for their
    reduce-scatter. Where exchanges allocate on streams of their own, these keep the largest that they ever held: the
    ends and one layer as they were gathered, the shard of the ends that was sent, and 4 P / n of reduced gradients.

    plan: scalar or array (n,); parameters: P, on the rank before data parallelism; layer: of its largest layer; ends:
    of embedding, final norm and head; ranks: n, counts. Returns bytes.
    Source: Rajbhandari et al., arXiv:1910.02054; Megatron-LM, dist_optimizer.md; DeepSpeed, estimators of
    stage_1_and_2.py and stage3.py; torch.distributed.fsdp 2.13, _fully_shard/_fsdp_collectives.py L336-365, L611-635
    and _fsdp_param_group.py L475-489.
    """
    build = _half_states if inputs.runtime.weights == "half" else _full_states
    return build(plan, inputs, 1.0 * parameters, 1.0 * layer, 1.0 * ends, ranks)


def _half_states(plan: Layout, inputs: Inputs, parameters: Floats, layer: Floats, ends: Floats, ranks: Ints) -> States:
    gradient = inputs.gradient_bytes

    def shard(stage: int) -> Floats:
        return parameters / np.where(np.greater_equal(plan.zero, stage), ranks, 1)

    gathered = np.where(np.equal(plan.zero, 3), HALF_BYTES * _gathered(inputs, parameters, layer, ends), 0.0)
    copied = np.where(np.equal(plan.zero, 3), FP32_BYTES - gradient, FP32_BYTES if gradient < FP32_BYTES else 0)
    bucket = gradient * np.minimum(np.maximum(inputs.runtime.gradient_bucket, layer), parameters)
    return States(
        HALF_BYTES * shard(3) + gathered + _quantised_bytes(inputs) * np.maximum(parameters - ends, 0.0),
        gradient * shard(2) + copied * shard(1),
        (FP32_BYTES + ADAM_MOMENTS_BYTES) * shard(1),
        np.where(np.greater(plan.zero, 1), bucket, 0.0),
        0.0 * parameters,
    )


def _full_states(plan: Layout, inputs: Inputs, parameters: Floats, layer: Floats, ends: Floats, ranks: Ints) -> States:
    runtime, whole = inputs.runtime, np.greater(plan.zero, 1)
    sharded = parameters / np.where(whole, ranks, 1)
    gathered = np.where(np.equal(plan.zero, 3), _gathered(inputs, parameters, layer, ends), parameters)
    deferred = runtime.defers_reduction & np.greater(plan.pp, 1)
    summed = np.where(deferred, parameters, sharded)
    several = np.greater(plan.num_microbatches, 1)
    accumulated = np.where(several, summed, 0.0)
    kept = np.where(several & np.logical_not(deferred), sharded, 0.0)
    exchanged = np.where(np.greater(ranks, 1), HALF_BYTES * (ends + layer + ends / ranks), 0.0)
    buckets = 1 + runtime.gradient_copies
    cast = FP32_BYTES if inputs.gradient_bytes == FP32_BYTES else 0
    return States(
        FP32_BYTES * sharded + HALF_BYTES * gathered,
        FP32_BYTES * np.where(whole, accumulated, buckets * parameters),
        ADAM_MOMENTS_BYTES * sharded,
        np.where(whole, (HALF_BYTES + cast) * layer, 0.0),
        np.where(whole & runtime.exchange_pools, exchanged + FP32_BYTES * (sharded - kept), 0.0),
    )


def _quantised_bytes(inputs: Inputs) -> float:
    """Per parameter of the layers: what the recipe keeps beside the 2-byte weight."""
    return inputs.recipe.weight_bytes(inputs.cluster.accelerator) - HALF_BYTES


def _gathered(inputs: Inputs, parameters: Floats, layer: Floats, ends: Floats) -> Floats:
    layers = GATHERED_LAYERS * layer
    beside = inputs.runtime.keeps_ends_gathered and not inputs.runtime.ends_apart
    together = layers + ends if beside else np.maximum(layers, ends)
    return np.minimum(together, parameters)
