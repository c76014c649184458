"""Adapters of one layer: their products and the kernels around them, beside linear layers whose weights are frozen."""

from __future__ import annotations

from meshwright.arrays import Bools, Numbers
from meshwright.cost.compute.elementwise import BlockTraffic
from meshwright.cost.compute.linear import Gemm, linear_time
from meshwright.cost.compute.traffic import LayerTraffic
from meshwright.cost.shard import Shard
from meshwright.distinct import combined
from meshwright.layout.plans import Layout
from meshwright.specs.adapters import Adapter
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind
from meshwright.specs.packed import UNPACKING_BYTES, packed_parameters
from meshwright.specs.precision import FP32_BYTES, HALF_BYTES

SCALED_OVER_SUMMED = 2 / 3
"""Bytes of an element that is read and written, over those of a sum of two."""


def beside_frozen(
    plan: Layout, blocks: tuple[Gemm, Gemm], inputs: Inputs, kind: LayerKind, rows: Numbers
) -> tuple[Gemm, Gemm]:
    """The products of both blocks of a layer: frozen weights have no gradient, the adapters beside them have.

    x A and (x A) B of rank r: `rows` x r x in and `rows` x out x r, each with both gradients, in 2 bytes. Of t
    tensor-parallel ranks each has r / t of A's outputs, or in / t of its inputs beside a row-parallel layer, and out /
    t. plan: scalar or array (n,); blocks: the linear layers of attention and of the feed-forward block, seconds; rows:
    tokens of the rank, scalar or array (n,). Returns seconds. Source: Hu et al., arXiv:2106.09685, equation 3; peft
    0.21.2 tuners/lora/layer.py (Linear.forward); NVIDIA-NeMo/Megatron-Bridge@067f987df03b peft/utils.py
    (ParallelLinearAdapter).

    >>> from meshwright.cost.compute.linear import linear_time
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA_LORA
    >>> product, kind = linear_time(8192, 4096, 4096, LLAMA_LORA), LLAMA_LORA.model.layer_kinds[0]
    >>> time, _ = beside_frozen(Plan(), (product, product), LLAMA_LORA, kind, 8192)
    >>> bool(time.forward > product.forward), bool(time.weight_gradient < 0.5 * product.weight_gradient)
    (True, True)
    """
    around, inside = blocks
    within, others = _by_block(inputs, kind)
    return _with(plan, around.frozen, inputs, within, rows), _with(plan, inside.frozen, inputs, others, rows)


def casts_for_adapters(plan: Layout, inputs: Inputs) -> Bools:
    """Whether adapters cast what they read: fp32 ones beside 2-byte weights, which no rank gathers in 2 bytes and no
    engine casts.

    plan: scalar or array (n,). Returns booleans. Source: peft 0.21.2 tuners/lora/layer.py, _cast_input_dtype;
    DeepSpeed 0.19.8 runtime/engine.py, _configure_distributed_model: `module.bfloat16()`.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA_LORA
    >>> [bool(casts_for_adapters(Plan(dp=8, zero=zero), LLAMA_LORA)) for zero in (0, 3)]
    [True, False]
    """
    return (plan.zero < 2) & (inputs.runtime.storage.weights == "full") | works_in_fp32(plan, inputs)


def works_in_fp32(plan: Layout, inputs: Inputs) -> Bools:
    """Whether fp32 adapters work in that format, without autocast.

    plan: scalar or array (n,). Returns booleans. Source: `Storage.wide_adapters`.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA_LORA
    >>> bool(works_in_fp32(Plan(dp=8, zero=3), LLAMA_LORA))
    False
    """
    return (plan.zero == 3) & inputs.runtime.storage.wide_adapters


def _by_block(inputs: Inputs, kind: LayerKind) -> tuple[tuple[Adapter, ...], tuple[Adapter, ...]]:
    """The adapters of attention, and of the feed-forward block."""
    adapters = inputs.adapters(kind)
    within = tuple(each for each in adapters if each.in_attention)
    return within, tuple(each for each in adapters if not each.in_attention)


def _with(plan: Layout, products: Gemm, inputs: Inputs, adapters: tuple[Adapter, ...], rows: Numbers) -> Gemm:
    own = []
    for each in adapters:
        split, whole = (plan.tp, 1) if each.row_parallel else (1, plan.tp)
        own.append(linear_time(rows, each.rank / whole, each.features / split, inputs, half=True))
        own.append(linear_time(rows, each.outputs / plan.tp, each.rank, inputs, half=True))
    return combined(lambda *seconds: sum(seconds), products, *own)


def adapter_traffic(plan: Layout, inputs: Inputs, kind: LayerKind, shard: Shard) -> BlockTraffic:
    """Bytes that the element-wise kernels around the adapters of one layer move.

    Of every adapter its input is cast to fp32, the format of its weights, and back for the product; its output is
    scaled and added to that of the frozen layer. Backward the output's gradient is scaled, that of its input is cast
    both ways and added to that of the frozen layer. Its weights are cast to 2 bytes, and their gradients back; where
    they are in 2 bytes, nothing is (`casts_for_adapters`). Beside packed weights no input is cast, and the output of
    the frozen layer is copied first; every product unpacks its weight anew, forward and backward. Tensor-parallel ranks
    copy what they gather beside a row-parallel layer, and scale and add their share of the sequence there; outputs of
    several adapters beside one product are copied together. plan: scalar or array (n,); shard: sizes on the rank.
    Returns bytes. Source: peft 0.21.2 tuners/lora/layer.py (Linear.forward, _cast_input_dtype) and bnb.py
    (Linear4bit.forward) under torch.autocast, operators counted with PyTorch 2.13 on fake tensors; bitsandbytes 0.50.2
    autograd/_functions.py (MatMul4Bit); NVIDIA-NeMo/Megatron-Bridge@067f987df03b peft/utils.py
    (ParallelLinearAdapter.forward), canonical_lora.py (_interleave_qkv); Megatron-LM, tensor_parallel/mappings.py,
    _gather_along_last_dim.

    >>> from meshwright.cost.shard import layer_shard
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA_LORA
    >>> kind = LLAMA_LORA.model.layer_kinds[0]
    >>> traffic = adapter_traffic(Plan(), LLAMA_LORA, kind, layer_shard(Plan(), LLAMA_LORA, kind))
    >>> bool(traffic.attention.backward > traffic.attention.forward > 0)
    True
    """
    within, others = _by_block(inputs, kind)
    around = BlockTraffic(_around(plan, inputs, within, shard), _around(plan, inputs, others, shard))
    return around.plus(_unpacking(inputs, kind)) if inputs.packs_weights else around


def _unpacking(inputs: Inputs, kind: LayerKind) -> BlockTraffic:
    attention = UNPACKING_BYTES * packed_parameters(inputs.model, kind, "attention")
    block = UNPACKING_BYTES * packed_parameters(inputs.model, kind, "mlp", "shared_experts")
    return BlockTraffic(LayerTraffic(attention, attention), LayerTraffic(block, block))


def _around(plan: Layout, inputs: Inputs, adapters: tuple[Adapter, ...], shard: Shard) -> LayerTraffic:
    summed = inputs.runtime.elementwise_bytes.residual
    column = [each for each in adapters if not each.row_parallel]
    row = [each for each in adapters if each.row_parallel]
    features = 1.0 * shard.tokens * sum(each.features for each in column)
    features = features + shard.tokens * sum(each.features for each in row) / plan.tp
    parts = 1.0 * shard.tokens * sum(each.outputs for each in column) / plan.tp
    whole = 1.0 * shard.tokens * sum(each.outputs for each in row)
    outputs = parts + whole * shard.residual_tokens / shard.tokens
    together = parts * (inputs.runtime.kernels.fused_adapters == "all")
    copied = SCALED_OVER_SUMMED * (whole * (plan.tp > 1) + together + outputs * inputs.packs_weights)
    weights = (FP32_BYTES + HALF_BYTES) * sum(each.parameters for each in adapters)
    cast = 1.0 * casts_for_adapters(plan, inputs)
    features_cast = 2 * cast * features * (not inputs.packs_weights)
    forward = summed.forward * (features_cast + (1 + SCALED_OVER_SUMMED) * outputs + copied)
    gradients = SCALED_OVER_SUMMED * (outputs + together)
    backward = summed.backward * (features + features_cast + gradients)
    return LayerTraffic(forward + cast * weights, backward + cast * weights)
