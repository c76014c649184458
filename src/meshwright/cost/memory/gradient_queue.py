"""Gradients that wait, whole, for the host to give their buckets back (Megatron-FSDP)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright.arrays import FloatColumn, IntColumn
from meshwright.specs.inputs import Inputs

DOUBLE = 2
"""Buffers of layers' gradients, or layers of which gradients may wait; beside them the one that is added and the one
that works."""


class WaitingGradients(NamedTuple):
    """Bytes of whole gradients on every stage, shape (r,)."""

    standing: FloatColumn
    """All along."""
    first: FloatColumn
    """Beside these, when the last layer's backward is done."""
    queued: FloatColumn
    """In place of `first`, where most layers' wait; 0: none do."""
    passed: FloatColumn
    """By then the share of layers whose backward is done."""


def waiting_gradients(inputs: Inputs, unit: FloatColumn, head: FloatColumn, layers: IntColumn) -> WaitingGradients:
    """Whole gradients under ZeRO 3 where they wait in a queue, which the host looks at when a layer's backward is done:
    before the layers' come those of the head; then as many as are allowed, those of the layer that is added and those
    of the one that works. In two buffers those of two layers stand, beside them those of the head.

    unit: parameters of a layer; head: of the head; layers: of the stage; counts, shape (r,). Returns bytes. Source:
    Megatron-LM@d98e8a64ddf3 core/distributed/fsdp/src/megatron_fsdp: megatron_fsdp.py L419-444
    (suggested_RS_queue_capacity), param_and_grad_buffer.py, wait_for_previous_grad_reduce (nothing else gives a bucket
    back), _enforce_double_buffer_limit, FixedPoolAllocator.

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> sizes = np.array([1e9]), np.array([5e8]), np.array([80])
    >>> [float(size[0]) / 1e9 for size in waiting_gradients(LLAMA, *sizes)[:3]]  # four layers' of a billion, of 4 bytes
    [0.0, 6.0, 16.0]
    """
    sharding, gradient, nothing = inputs.runtime.sharding, inputs.gradient_bytes, 0.0 * unit
    if sharding.double_buffered:
        pools = gradient * unit * np.minimum(layers, DOUBLE)
        return WaitingGradients(standing=pools, first=gradient * head, queued=nothing, passed=nothing)
    allowed = np.floor(np.maximum(sharding.gradient_queue, DOUBLE * unit) / np.maximum(unit, 1.0))
    waiting = np.minimum(allowed + DOUBLE, layers)
    return WaitingGradients(
        standing=nothing,
        first=gradient * (head + unit),
        queued=gradient * unit * waiting,
        passed=np.maximum(waiting - 1.0, 0.0) / np.maximum(layers, 1),
    )
