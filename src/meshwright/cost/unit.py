"""Unit costs: what one layer, the embedding and the head cost for one micro-batch; priced once per distinct shape."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright.arrays import Floats, IntColumn, Ints, Numbers
from meshwright.cost.comms.tensor import TensorTime, embedding_tensor_time, head_tensor_time, layer_tensor_time
from meshwright.cost.compute.ends import embedding_time, head_time
from meshwright.cost.compute.layer import layer_time
from meshwright.cost.compute.work import Work
from meshwright.cost.memory.activations import LayerMemory, head_memory, layer_memory, token_bytes
from meshwright.cost.memory.parameters import layer_parameters
from meshwright.distinct import on_distinct
from meshwright.layout.plans import Plans
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind

SHAPE = ("tp", "sp", "cp", "micro_batch", "recompute")
"""The columns of a plan on which the cost of one layer depends."""


class UnitTime(NamedTuple):
    """Seconds of one piece of the model for one micro-batch; each scalar or array (n,)."""

    forward: Work
    backward: Work
    """With what is computed again."""
    tensor_forward: Floats
    """Exposed tensor-parallel communication."""
    tensor_backward: Floats
    host_forward: Floats
    """The device waits for the host to issue work."""
    host_backward: Floats

    @property
    def host(self) -> Floats:
        """Seconds that the device waits for the host in both passes."""
        return self.host_forward + self.host_backward

    @property
    def forward_total(self) -> Floats:
        """Seconds of the forward pass, without the host."""
        return self.forward.total + self.tensor_forward

    @property
    def backward_total(self) -> Floats:
        """Seconds of the backward pass, without the host."""
        return self.backward.total + self.tensor_backward

    @property
    def total(self) -> Floats:
        """Seconds of both passes."""
        return self.forward_total + self.backward_total + self.host

    def scaled(self, count: Numbers) -> UnitTime:
        """The time of `count` such pieces."""
        return UnitTime(
            self.forward.scaled(count),
            self.backward.scaled(count),
            self.tensor_forward * count,
            self.tensor_backward * count,
            self.host_forward * count,
            self.host_backward * count,
        )

    def plus(self, other: UnitTime) -> UnitTime:
        """The time of two pieces one after the other."""
        return UnitTime(
            self.forward.plus(other.forward),
            self.backward.plus(other.backward),
            self.tensor_forward + other.tensor_forward,
            self.tensor_backward + other.tensor_backward,
            self.host_forward + other.host_forward,
            self.host_backward + other.host_backward,
        )

    def rows(self, index: IntColumn) -> UnitTime:
        """The chosen rows of every column."""
        forward, backward = (Work(*(part[index] for part in work)) for work in (self.forward, self.backward))
        return UnitTime(forward, backward, *(part[index] for part in self[2:]))


class Units(NamedTuple):
    """Unit costs of every piece of the model."""

    layers: tuple[UnitTime, ...]
    """Per layer kind."""
    embedding: UnitTime
    head: UnitTime
    layer_parameters: tuple[Ints, ...]
    """Per layer kind, on one rank."""
    layer_memory: tuple[LayerMemory, ...]
    """Per layer kind, bytes."""
    head_memory: LayerMemory
    token_bytes: Floats


def unit_costs(plans: Plans, inputs: Inputs) -> Units:
    """The unit costs of every plan, evaluated once per distinct shape: tp, sp, cp, micro-batch, recompute, and the axes
    that the rank order numbers before tp.
    """
    order = inputs.runtime.rank_order
    names = dict.fromkeys((*SHAPE, *(axis for axis in order[: order.index("tp")] if axis != "ep")))

    def price(*columns: IntColumn) -> Units:
        return _price(Plans.filled(**dict(zip(names, columns, strict=True))), inputs)

    return on_distinct(price, *(getattr(plans, name) for name in names))


def _price(shapes: Plans, inputs: Inputs) -> Units:
    kinds = inputs.model.layer_kinds
    embedding, head = embedding_time(shapes, inputs), head_time(shapes, inputs)
    nothing = np.zeros(len(shapes))
    return Units(
        layers=tuple(_layer(shapes, inputs, kind) for kind in kinds),
        embedding=UnitTime(
            embedding.forward, embedding.backward, *embedding_tensor_time(shapes, inputs), nothing, nothing
        ),
        head=UnitTime(head.forward, head.backward, *head_tensor_time(shapes, inputs, head), nothing, nothing),
        layer_parameters=tuple(layer_parameters(shapes, inputs, kind) for kind in kinds),
        layer_memory=tuple(layer_memory(shapes, inputs, kind) for kind in kinds),
        head_memory=head_memory(shapes, inputs),
        token_bytes=token_bytes(shapes, inputs),
    )


def _layer(shapes: Plans, inputs: Inputs, kind: LayerKind) -> UnitTime:
    layer = layer_time(shapes, inputs, kind)
    tensor: TensorTime = layer_tensor_time(shapes, inputs, kind, layer)
    backward = layer.recompute.plus(layer.backward)
    issue = inputs.runtime.host_s_per_layer
    stalled = np.maximum(issue - layer.forward.total - tensor.forward, 0.0)
    again = np.maximum(issue - backward.total - tensor.backward, 0.0)
    return UnitTime(layer.forward, backward, tensor.forward, tensor.backward, stalled, again)
