"""Adapters: what tensor-parallel ranks exchange for them, beside linear layers whose weights are frozen."""

from __future__ import annotations

from collections.abc import Sequence

from meshwright.arrays import Floats, where
from meshwright.cost.comms.exchange import Communicator, Exchange, Message
from meshwright.cost.repeated import repeated_parts
from meshwright.cost.shard import tokens
from meshwright.layout.plans import Layout
from meshwright.specs.adapters import Adapter
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind
from meshwright.specs.precision import HALF_BYTES

OF_RANK, OF_HIDDEN = "low-rank activations", "activations of adapters"


def adapter_exchanges(plan: Layout, inputs: Inputs, kind: LayerKind, ranks: Communicator) -> tuple[Exchange, ...]:
    """Tensor-parallel exchanges of the adapters of one layer and micro-batch, beside which nothing is computed.

    Of T tokens, R = 2 T r bytes and X = 2 T h. Beside a column-parallel layer R is gathered forward, and its gradient
    all-reduced backward, without sequence parallelism that of X too; with it X comes gathered, and its gradient leaves
    with that of the frozen layer, but where exchanges are fused with products: there the adapter gathers X on its own
    and scatters its gradient. Beside a row-parallel layer R is all-reduced both ways, and forward the output's X is
    gathered by features, of which each rank takes its share of the sequence, whose gradient is gathered backward. What
    is computed again is exchanged again.
    plan: scalar or array (n,); ranks: the tensor-parallel ones. Returns bytes and seconds. Source: NVIDIA-NeMo/
    Megatron-Bridge@067f987df03b src/megatron/bridge/peft/utils.py (ParallelLinearAdapter,
    get_adapter_attributes_from_linear); Megatron-LM, tensor_parallel/layers.py (allreduce_dgrad) and mappings.py.

    >>> from meshwright.cost.comms.tensor import tensor_region
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import BRIDGE_LORA
    >>> plan, kind = Plan(tp=8, sp=True), BRIDGE_LORA.model.layer_kinds[0]
    >>> forward, *_, backward = adapter_exchanges(plan, BRIDGE_LORA, kind, tensor_region(plan, BRIDGE_LORA).ranks)
    >>> [(each.operation, float(each.bytes) / 2048, float(each.times)) for each in forward.messages]
    [('all_gather', 32.0, 2.0), ('all_reduce', 32.0, 2.0), ('all_gather', 8192.0, 4.0)]
    """
    adapters, full = inputs.adapters(kind), plan.recompute == Recompute.FULL
    inside = [each for each in adapters if not each.in_attention]
    block_alone = where(full, 0, repeated_parts(plan, kind).block)
    forward = _forward(plan, inputs, adapters, ranks)
    return (
        Exchange("tp", "forward", forward),
        Exchange("tp", "recompute", forward, times=where(full, 1, 0)),
        Exchange("tp", "recompute", _forward(plan, inputs, inside, ranks), times=block_alone),
        Exchange("tp", "backward", _backward(plan, inputs, adapters, ranks)),
    )


def _forward(plan: Layout, inputs: Inputs, adapters: Sequence[Adapter], ranks: Communicator) -> tuple[Message, ...]:
    column, row, low, whole = _sizes(plan, inputs, adapters)
    return (
        ranks.message("all_gather", OF_RANK, low, column),
        ranks.message("all_reduce", OF_RANK, low, row),
        ranks.message("all_gather", OF_HIDDEN, whole, row + where(plan.sp, column * _gathers(inputs), 0)),
    )


def _backward(plan: Layout, inputs: Inputs, adapters: Sequence[Adapter], ranks: Communicator) -> tuple[Message, ...]:
    column, row, low, whole = _sizes(plan, inputs, adapters)
    return (
        ranks.message("all_reduce", OF_RANK, low, column + row),
        ranks.message("all_gather", OF_HIDDEN, whole, where(plan.sp, row, 0)),
        ranks.message("all_reduce", OF_HIDDEN, whole, where(plan.sp, 0, column)),
        ranks.message("reduce_scatter", OF_HIDDEN, whole, where(plan.sp, column * _gathers(inputs), 0)),
    )


def _sizes(plan: Layout, inputs: Inputs, adapters: Sequence[Adapter]) -> tuple[int, int, Floats, Floats]:
    """Adapters beside column- and row-parallel layers, and bytes of the low rank and of the hidden size."""
    row, each = sum(adapter.row_parallel for adapter in adapters), 1.0 * HALF_BYTES * tokens(plan, inputs)
    return len(adapters) - row, row, each * inputs.job.lora_rank, each * inputs.model.hidden_size


def _gathers(inputs: Inputs) -> bool:
    """Whether adapters gather the sequence on their own."""
    return inputs.runtime.overlap.tensor_parallel > 0
