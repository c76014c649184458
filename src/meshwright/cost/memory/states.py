"""States: weights, gradients and optimizer states of one rank, by how data parallelism holds them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright.arrays import Floats, Numbers
from meshwright.cost.element import FP32_BYTES, HALF_BYTES
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs

ADAM_MOMENTS_BYTES = 2 * FP32_BYTES


class States(NamedTuple):
    """Bytes on one rank; each scalar or array (n,)."""

    parameters: Floats
    gradients: Floats
    optimizer_states: Floats
    whole_gradients: Floats
    """Of one layer before its reduce-scatter, alive during its backward."""


def state_bytes(plan: Layout, inputs: Inputs, parameters: Numbers, block: Numbers, head: Numbers) -> States:
    """Bytes of weights, gradients and Adam states on one rank.

    Replicated: 2 bytes of weights a parameter, gradients as the runtime keeps them (2-byte ones with an fp32 copy of
    what the rank updates), 12 bytes of fp32 weights and moments, divided by n = dp c with ZeRO 1.
    Fully sharded: fp32 weights, gradients and moments, 4 + 4 + 8 bytes divided by n; beside them 2-byte weights
    gathered for the step (ZeRO 2) or for two blocks and the head (ZeRO 3), and one layer's whole gradients in 2 bytes
    with their fp32 copy for the reduce-scatter. Until the first micro-batch's backward there are no gradients.

    plan: scalar or array (n,); parameters: on the rank before data parallelism; block: of its largest layer; head: of
    the output head. Returns bytes. Source: Rajbhandari et al., arXiv:1910.02054; torch.distributed.fsdp 2.13.
    """
    ranks = plan.dp * plan.cp
    if inputs.runtime.data_parallel == "replicated":
        shards = np.where(np.greater(plan.zero, 0), ranks, 1)
        copy = 0 if inputs.runtime.gradient_bytes == FP32_BYTES else FP32_BYTES
        return States(
            1.0 * HALF_BYTES * parameters,
            inputs.runtime.gradient_bytes * parameters + copy * parameters / shards,
            (FP32_BYTES + ADAM_MOMENTS_BYTES) * parameters / shards,
            0.0 * parameters,
        )
    gathered = np.where(np.equal(plan.zero, 2), parameters, np.minimum(2 * block + head, parameters))
    summed = np.where(np.greater(plan.num_microbatches, 1), FP32_BYTES * parameters / ranks, 0.0)
    return States(
        FP32_BYTES * parameters / ranks + HALF_BYTES * gathered,
        summed,
        ADAM_MOMENTS_BYTES * parameters / ranks,
        1.0 * (HALF_BYTES + FP32_BYTES) * block,
    )
