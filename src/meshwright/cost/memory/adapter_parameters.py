"""Parameters of adapters that one rank holds, gathers and reduces."""

from __future__ import annotations

from meshwright.arrays import Floats, Ints
from meshwright.cost.memory.parameters import sharded_parameters
from meshwright.layout.groups import sharding_ranks
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind


def adapter_parameters(plan: Layout, inputs: Inputs, kind: LayerKind, ranks: Ints) -> Floats:
    """Parameters of the adapters of one layer of a kind on the fullest of the ranks that divide them, as
    `sharded_layer_parameters` says; they are the ones that are trained.

    plan: scalar or array (n,); ranks: n, a count. Returns a count. Source: `sharded_layer_parameters`.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA_LORA
    >>> float(adapter_parameters(Plan(), LLAMA_LORA, LLAMA_LORA.model.layer_kinds[0], 1))
    1310720.0
    """
    weights = (weight for adapter in inputs.adapters(kind) for weight in adapter.weights)
    return sharded_parameters(weights, plan, inputs, ranks)


def gathered_adapter_parameters(plan: Layout, inputs: Inputs, kind: LayerKind) -> Floats:
    """Parameters of the adapters of one layer as ranks gather and reduce them, padded to as many on every rank.

    plan: scalar or array (n,). Returns a count. Source: `gathered_layer_parameters`.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA_LORA
    >>> plan, kind = Plan(dp=64, zero=3), LLAMA_LORA.model.layer_kinds[0]
    >>> padded = gathered_adapter_parameters(plan, LLAMA_LORA, kind)  # 64 ranks divide 16 rows
    >>> bool(padded > 2 * adapter_parameters(plan, LLAMA_LORA, kind, 1))
    True
    """
    ranks = sharding_ranks(plan)
    return ranks * adapter_parameters(plan, inputs, kind, ranks)
