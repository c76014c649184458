"""Rotary tables: what stands of them, and what layers copy of them."""

from __future__ import annotations

from meshwright.arrays import Floats
from meshwright.cost.shard import Shard
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind
from meshwright.specs.precision import FP32_BYTES


def table_bytes(plan: Layout, inputs: Inputs, kind: LayerKind) -> Floats:
    """The rotary table of one layer, where the runtime keeps one with each: 4 s d / c, or 8 where tables are wide.

    It stands once, whatever is in flight; whole on every rank of cp where layers copy the rows that they need.
    plan: scalar or array (n,). Returns bytes.
    Source: torchtitan 0.3.0, models/common/rope.py L117 (a buffer of every attention layer), L312 (cosines and sines).

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> kind = LLAMA.model.layer_kinds[0]
    >>> float(table_bytes(Plan(), LLAMA, kind))  # Megatron keeps one for all layers
    0.0
    """
    activations, length = inputs.runtime.activations, inputs.job.sequence_length
    present = activations.keeps_statistics and not inputs.model.learned_positions
    rows = length // (plan.cp if activations.rotary_copies == "none" else 1)
    return 1.0 * _table_width(inputs, kind) * present * rows + 0.0 * plan.cp


def table_copy_bytes(inputs: Inputs, kind: LayerKind, shard: Shard) -> Floats:
    """The copy of its rotary table's rows that a layer keeps of every micro-batch: 4 b s d / c, or 8 of a wide table.

    shard: sizes on the rank. Returns bytes. Source: torchtitan 0.3.0, models/common/rope.py L372-397
    (`rope_cache[positions]`, of which its data loaders always give positions), counted with PyTorch 2.13; compiled,
    backends aot_eager and inductor keep that of complex tables alone.

    >>> from meshwright.cost.shard import layer_shard
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> kind = LLAMA.model.layer_kinds[0]
    >>> float(table_copy_bytes(LLAMA, kind, layer_shard(Plan(), LLAMA, kind)))  # Megatron copies none
    0.0
    """
    copies = inputs.runtime.activations.rotary_copies
    copied = copies == "all" or (copies == "complex" and not inputs.runtime.activations.has_wide_table(kind.attention))
    return 1.0 * _table_width(inputs, kind) * (copied and not inputs.model.learned_positions) * shard.tokens


def _table_width(inputs: Inputs, kind: LayerKind) -> int:
    """Bytes of one position."""
    is_wide = inputs.runtime.activations.has_wide_table(kind.attention)
    return FP32_BYTES * kind.attention.head_dim * (2 if is_wide else 1)
