"""Tensor parallelism: the collectives of one layer and of the two ends, and what of them is exposed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright.arrays import Floats
from meshwright.cost.comms.collectives import collective_time
from meshwright.cost.comms.group import tensor_group
from meshwright.cost.comms.overlap import exposed_time
from meshwright.cost.compute.ends import EndTime
from meshwright.cost.compute.layer import LayerTime
from meshwright.cost.element import FP32_BYTES, HALF_BYTES
from meshwright.cost.shard import qkv_width, tokens
from meshwright.layout.plan import Recompute
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.kernels import Operation
from meshwright.specs.model import LayerKind

ENTROPY_REDUCTIONS = 3


class TensorTime(NamedTuple):
    """Exposed seconds of tensor-parallel communication for one micro-batch."""

    forward: Floats
    backward: Floats
    """With what recomputation sends again."""


class _Exchange(NamedTuple):
    """Seconds of entering and leaving a tensor-parallel region."""

    enter: Floats
    """All-gather of the sequence; nothing without sequence parallelism."""
    leave: Floats
    """Reduce-scatter with sequence parallelism, all-reduce without."""


def layer_tensor_time(plan: Layout, inputs: Inputs, kind: LayerKind, layer: LayerTime) -> TensorTime:
    """Exposed tensor-parallel seconds of one layer and micro-batch.

    X = 2 s b h / c bytes. With sequence parallelism: forward 2 all-gathers and 2 reduce-scatters of X; backward the
    same again for the gradients, plus 2 all-gathers that fetch the saved, sharded inputs once more, issued beside the
    input-gradient product, while the input gradient's reduction runs beside the weight-gradient product
    (Megatron-LM, tensor_parallel/layers.py, LinearWithGradAccumulationAndAsyncCommunication). Without: 2 all-reduces
    forward and 2 backward, the latter beside the weight-gradient product. Where t exceeds the key and value heads, the
    fused projection's output is gathered whole and its gradient reduced again. Full recomputation repeats the
    forward, in some runtimes without its last reduction.

    plan: scalar or array (n,); layer: its compute, for the windows. Returns seconds.
    """
    exchange, overlap = _exchange(plan, inputs), inputs.runtime.overlap
    gathered, scattered = _split_heads(plan, inputs, kind)
    forward = gathered + 2 * _hidden(
        exchange.enter + exchange.leave, layer.forward.gemm / 4, overlap.tensor_parallel, inputs
    )
    gradient = 2 * _hidden(exchange.enter, layer.backward.gemm / 4, overlap.tensor_parallel, inputs)
    again = 0.0 if not inputs.runtime.regathers_inputs else exchange.enter
    backward = gradient + scattered
    for window in layer.column_input_gradient:
        backward = backward + _hidden(again, window, overlap.tensor_parallel_backward, inputs)
    for window in layer.column_weight_gradient:
        backward = backward + _hidden(exchange.leave, window, overlap.tensor_parallel_backward, inputs)
    last = _hidden(exchange.leave, layer.forward.gemm / 4, overlap.tensor_parallel, inputs)
    repeated = forward - (last if inputs.runtime.checkpoint_stops_early else 0.0)
    return TensorTime(forward, backward + np.where(plan.recompute == Recompute.FULL, repeated, 0.0))


def embedding_tensor_time(plan: Layout, inputs: Inputs) -> TensorTime:
    """Exposed seconds at the vocabulary-parallel embedding: its output reduced forward, gathered backward.

    plan: scalar or array (n,). Returns seconds for one micro-batch.
    """
    exchange = _exchange(plan, inputs)
    return TensorTime(exchange.leave, exchange.enter)


def head_tensor_time(plan: Layout, inputs: Inputs, head: EndTime) -> TensorTime:
    """Exposed seconds at the output head.

    X gathered forward and again backward, its gradient reduced beside the weight gradient, and three all-reduces of 4
    bytes per token for the vocabulary-parallel cross-entropy.
    plan: scalar or array (n,); head: its compute, for the windows. Returns seconds for one micro-batch.
    """
    exchange, share = _exchange(plan, inputs), inputs.runtime.overlap.tensor_parallel_backward
    entropy = ENTROPY_REDUCTIONS * _time("all_reduce", FP32_BYTES * tokens(plan, inputs), plan, inputs)
    again = 0.0 if not inputs.runtime.regathers_inputs else exchange.enter
    backward = _hidden(again, head.input_gradient, share, inputs) + _hidden(
        exchange.leave, head.weight_gradient, share, inputs
    )
    return TensorTime(exchange.enter + entropy, backward)


def _exchange(plan: Layout, inputs: Inputs) -> _Exchange:
    size = 1.0 * HALF_BYTES * tokens(plan, inputs) * inputs.model.hidden_size
    group = tensor_group(plan, inputs)
    return _Exchange(
        np.where(plan.sp, collective_time("all_gather", size, group, inputs.cluster), 0.0),
        np.where(
            plan.sp,
            collective_time("reduce_scatter", size, group, inputs.cluster),
            collective_time("all_reduce", size, group, inputs.cluster),
        ),
    )


def _split_heads(plan: Layout, inputs: Inputs, kind: LayerKind) -> tuple[Floats, Floats]:
    """Seconds of gathering the projection whose key and value heads are split over ranks, and of its gradient."""
    size = np.where(
        np.greater(plan.tp, kind.attention.kv_heads), 1.0 * HALF_BYTES * tokens(plan, inputs) * qkv_width(kind), 0.0
    )
    return _time("all_gather", size, plan, inputs), _time("reduce_scatter", size, plan, inputs)


def _time(operation: Operation, size: Floats, plan: Layout, inputs: Inputs) -> Floats:
    return collective_time(operation, size, tensor_group(plan, inputs), inputs.cluster)


def _hidden(time: Floats, window: Floats, share: float, inputs: Inputs) -> Floats:
    return exposed_time(time, window, share, 0.0, inputs)
