"""Fully sharded data parallelism: gathering each layer's weights and scattering its gradients, per micro-batch."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import Floats, Numbers
from meshwright.cost.comms.collectives import collective_time
from meshwright.cost.comms.group import data_group
from meshwright.cost.comms.overlap import exposed_time
from meshwright.cost.element import HALF_BYTES
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs


def exposed_sharded_time(
    plan: Layout, inputs: Inputs, parameters: Numbers, forward: Floats, backward: Floats
) -> Floats:
    """Exposed seconds per micro-batch of the exchange of one layer's weights and gradients.

    Forward an all-gather of 2 P bytes, prefetched beside the layer before it; backward the same again with ZeRO 3
    (resharded after forward) and a reduce-scatter of the gradients, beside the backward of the layer before it:
    T_exposed of `exposed_time` with windows of one layer's passes.

    plan: scalar or array (n,); parameters: P of the layer on the rank before data parallelism; forward, backward: its
    passes of one micro-batch, seconds. Returns seconds.
    Source: torch.distributed.fsdp 2.13, which neither skips nor delays the reduce-scatter of earlier micro-batches.
    """
    gathered, scattered = sharded_exchange_time(plan, inputs, parameters)
    again = np.where(np.equal(plan.zero, 3), gathered, 0.0)
    share = inputs.runtime.overlap.data_parallel
    ahead = exposed_time(gathered, forward, share, 0.0, inputs)
    return ahead + exposed_time(again + scattered, backward, share, 0.0, inputs)


def sharded_exchange_time(plan: Layout, inputs: Inputs, parameters: Numbers) -> tuple[Floats, Floats]:
    """Seconds of one all-gather of 2-byte weights and one reduce-scatter of gradients over the data-parallel ranks.

    plan: scalar or array (n,); parameters: on the rank before data parallelism. Returns seconds.
    Source: Zhao et al., arXiv:2304.11277, section 3.
    """
    group, gradient = data_group(plan, inputs), inputs.runtime.gradient_bytes
    return (
        collective_time("all_gather", 1.0 * HALF_BYTES * parameters, group, inputs.cluster),
        collective_time("reduce_scatter", 1.0 * gradient * parameters, group, inputs.cluster),
    )
