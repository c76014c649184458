"""Adapters in memory: what they keep for backward, beside layers whose weights are frozen."""

from __future__ import annotations

from meshwright.arrays import Floats, where
from meshwright.cost.compute.adapters import casts_for_adapters, works_in_fp32
from meshwright.cost.shard import Shard
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind
from meshwright.specs.precision import FP32_BYTES, HALF_BYTES


def kept_by_adapters(plan: Layout, inputs: Inputs, kind: LayerKind, shard: Shard, read: str) -> Floats:
    """Bytes that the adapters of one layer keep that read the same, as `Adapter.reads` calls it.

    Each keeps what its first product puts out, 2 r a token, and its input: 2 in a token and 2 r (in + out) for 2-byte
    copies of its weights, all of its own where it casts them (`casts_for_adapters`); in fp32 twice as much, but no
    copies of weights. Beside packed weights autocast alone casts, the weights and no input. Else they share that input,
    which the attention core keeps anyway. Tensor-parallel ranks keep the whole sequence of it, and their share of what
    a row-parallel layer reads. plan: scalar or array (n,); shard: sizes on the rank; read: attention, core, block or
    product. Returns bytes. Source: peft 0.21.2 tuners/lora/layer.py and bnb.py (Linear.forward, Linear4bit.forward)
    under torch.autocast, and with fully_shard of PyTorch 2.13, counted on fake tensors, to the byte;
    NVIDIA-NeMo/Megatron-Bridge@067f987df03b src/megatron/bridge/peft/utils.py (ParallelLinearAdapter;
    `return_layernorm_output_gathered`).

    >>> from meshwright.cost.shard import layer_shard
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA_LORA
    >>> kind = LLAMA_LORA.model.layer_kinds[0]
    >>> shard = layer_shard(Plan(), LLAMA_LORA, kind)
    >>> cast, shared = (kept_by_adapters(Plan(zero=zero), LLAMA_LORA, kind, shard, "attention") for zero in (0, 3))
    >>> float(shared) / 2048, bool(cast > 2.9 * shared)  # 2 bytes of 4096 elements, and of 16 of each of q, k and v
    (8288.0, True)
    """
    adapters, tokens = [each for each in inputs.adapters(kind) if each.reads == read], 1.0 * shard.tokens
    wide = works_in_fp32(plan, inputs)
    own = tokens * sum(each.features / (plan.tp if each.row_parallel else 1) for each in adapters)
    copies = sum(each.parameters for each in adapters) * where(wide, 0, 1)
    shared = 0.0 if read == "core" else own / max(len(adapters), 1)
    casts = casts_for_adapters(plan, inputs)
    read_by = where(casts & (not inputs.packs_weights), own, shared)
    kept = read_by + where(casts, copies, 0.0) + tokens * sum(each.rank for each in adapters)
    return where(wide, FP32_BYTES, HALF_BYTES) * kept
