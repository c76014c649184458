"""Packed weights: frozen ones that bitsandbytes stores in 4 bits (NF4), as QLoRA has them."""

from __future__ import annotations

from functools import lru_cache

from meshwright.specs.model import LayerKind, Model
from meshwright.specs.precision import FP32_BYTES, HALF_BYTES
from meshwright.specs.weights import Part, Weight, layer_weights, parameter_count

PACKED_PARTS = ("attention", "mlp", "shared_experts")
"""Parts whose matrices are linear layers of PyTorch, which alone are packed: the experts of transformers 5 are one
tensor, and embedding, head, router and norms stay in 2 bytes."""
BITS, SCALED, SCALES = 4, 64, 256
"""Bits of a weight, weights that share a scale of 8 bits, and scales that share one of fp32 (double quantisation)."""
BYTES_OF_SCALES = 1 / SCALED + FP32_BYTES / (SCALED * SCALES)
"""Of one weight."""
UNPACKING_BYTES = BITS / 8 + 1 / SCALED + 2 * FP32_BYTES / SCALED + HALF_BYTES
"""Moved to unpack a weight to 2 bytes: read with its scale, which is written in fp32 and read, and written."""


@lru_cache(maxsize=64)
def packed_weights(model: Model, kind: LayerKind, fused: bool) -> tuple[Weight, ...]:
    """The weights of one layer of a kind as they are stored: four packed ones as one element of 2 bytes, in one column.

    A bias is counted with its matrix. fused: as of `layer_weights`. Source: bitsandbytes 0.50.2 nn/modules.py
    (Params4bit) and functional.py (quantize_4bit), with bnb_4bit_quant_storage of 2 bytes, which FSDP can divide;
    transformers 5.23.0 quantizers/quantizer_bnb_4bit.py; Dettmers et al., arXiv:2305.14314, section 3.

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> weights = packed_weights(LLAMA.model, LLAMA.model.layer_kinds[0], False)
    >>> [(each.name, each.elements, each.rows) for each in weights if each.name in ("query", "layer norms")]
    [('query', 4194304, 4194304), ('layer norms', 8192, None)]
    """
    return tuple(_packed(weight) if _is_packed(weight) else weight for weight in layer_weights(model, kind, fused))


@lru_cache(maxsize=64)
def packed_parameters(model: Model, kind: LayerKind, *parts: Part) -> int:
    """Parameters of one layer of a kind that are packed, of all parts or of some.

    >>> from meshwright.specs.reading.examples import LLAMA, MIXTRAL
    >>> [packed_parameters(each.model, each.model.layer_kinds[0]) for each in (LLAMA, MIXTRAL)]
    [218103808, 41943040]
    """
    weights = (weight for weight in layer_weights(model, kind) if _is_packed(weight))
    return sum(weight.elements for weight in weights if not parts or weight.part in parts)


def frozen_bytes(model: Model) -> float:
    """Of one frozen weight on average where those of linear layers are packed, with their scales.

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> round(frozen_bytes(LLAMA.model), 2)
    0.71
    """
    counts = zip(model.layer_kinds, model.layers_per_kind, strict=True)
    saved = HALF_BYTES - BITS / 8 - BYTES_OF_SCALES
    fewer = saved * sum(layers * packed_parameters(model, kind) for kind, layers in counts)
    return HALF_BYTES - fewer / parameter_count(model)


def packed_matrices(model: Model, kind: LayerKind) -> int:
    """Linear layers of one layer of a kind whose weights are packed.

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> packed_matrices(LLAMA.model, LLAMA.model.layer_kinds[0])
    7
    """
    return sum(weight.tensors for weight in layer_weights(model, kind) if _is_packed(weight))


def _is_packed(weight: Weight) -> bool:
    return weight.part in PACKED_PARTS and weight.rows is not None


def _packed(weight: Weight) -> Weight:
    rows = -(-weight.elements * BITS // (8 * HALF_BYTES * weight.tensors))
    return weight._replace(elements=rows * weight.tensors, rows=rows)
