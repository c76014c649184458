"""Time that the host takes to issue one layer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright.arrays import Floats
from meshwright.layout.plan import Recompute
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import Experts, LayerKind


class IssueTime(NamedTuple):
    """Seconds that the host takes to issue both passes of one layer; scalar or array (n,)."""

    forward: Floats
    backward: Floats


def issue_time(plan: Layout, inputs: Inputs, kind: LayerKind) -> IssueTime:
    """Seconds of the host for one layer of a kind and one micro-batch, whatever the sizes of its kernels.

    Of a layer of experts more, and more with every expert on the rank where each has kernels of its own. Recomputing
    the layer issues its forward pass once more. CUDA graphs issue parts of it, or all.

    plan: scalar or array (n,). Returns seconds. Source: the runtime's section [host].

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.examples import MIXTRAL
    >>> kind = MIXTRAL.model.layer_kinds[0]
    >>> [round(float(seconds) * 1e3, 2) for seconds in issue_time(Plan(dp=8, ep=4), MIXTRAL, kind)]  # 2 experts, bf16
    [2.1, 3.07]
    """
    host, kernels = inputs.runtime.host, inputs.runtime.kernels
    if host.graphs == "iteration":
        return IssueTime(0.0, 0.0)
    layer, block = host.host_s_per_layer, kind.feed_forward
    forward: Floats = layer.forward
    backward: Floats = layer.backward
    if isinstance(block, Experts):
        layer = host.host_s_per_expert_layer
        each = host.host_s_per_quantised_expert if inputs.recipe.quantises else host.host_s_per_expert
        experts = np.maximum(block.count // plan.ep, 1) * (kernels.expert_products == "each")
        captured = host.graphs == "parts"
        forward = layer.forward - captured * forward + experts * each.forward
        backward = layer.backward - captured * backward + experts * each.backward
    return IssueTime(forward, backward + np.equal(plan.recompute, Recompute.FULL) * forward)
