"""Working set: what is alive for a moment while the backward pass of one layer runs, or its forward pass ends."""

from __future__ import annotations

from meshwright.arrays import Floats, larger, where
from meshwright.cost.compute.experts import expert_shard
from meshwright.cost.compute.ordered import ordered_workspace
from meshwright.cost.memory.graph_pool import expert_rooms
from meshwright.cost.memory.saved import Saved, attention_scores
from meshwright.cost.routing import routed_experts
from meshwright.cost.shard import Shard, dense_block
from meshwright.layout.plans import Layout
from meshwright.specs.choices import ContextExchange, Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import Experts, LayerKind, Mlp
from meshwright.specs.precision import FP32_BYTES, HALF_BYTES


def working_bytes(plan: Layout, inputs: Inputs, kind: LayerKind, shard: Shard, saved: Saved, ending: Floats) -> Floats:
    """Alive while a layer's backward runs, beyond what is saved: in the feed-forward block, or in the attention core,
    when the block's saved tensors are free; where it is computed again to its end, also when that ends.

    plan: scalar or array (n,); shard: sizes on the rank; saved: of the layer; ending: as `ending_bytes`. Returns bytes.
    Source: PyTorch 2.13, counted on fake tensors.

    >>> from meshwright.cost.shard import layer_shard
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> kind, saved = LLAMA.model.layer_kinds[0], Saved(*(0.0 for _ in Saved._fields))
    >>> shard = layer_shard(Plan(), LLAMA, kind)
    >>> float(working_bytes(Plan(), LLAMA, kind, shard, saved, 0.0)) > 2 * 8192 * (2 * 4096 + 3 * 14336) - 1
    True
    """
    of_core = context_transit_bytes(plan, inputs, shard)
    of_scores = inputs.runtime.activations.score_working_bytes * attention_scores(inputs, shard)
    at_core = of_core + of_scores + ordered_workspace(plan, inputs, shard) - (saved.feed_forward + saved.experts)
    if inputs.runtime.storage.weights == "half":
        return larger(_backward_bytes(plan, inputs, kind, shard) + of_core, at_core)
    at_core = at_core + _unit_attention_bytes(plan, inputs, kind, shard)
    working: Floats = larger(_unit_backward_bytes(plan, inputs, kind, shard), at_core)
    if inputs.runtime.activations.checkpoint_stops_early:
        return working
    gathered = inputs.model.hidden_size * (where(plan.sp, shard.tokens, 0) + shard.residual_tokens)
    # What reduces the down product's output is kept with sequence parallelism alone.
    selective = (plan.recompute == Recompute.SELECTIVE) & (plan.tp > 1) & (plan.sp < 1)
    to_its_end = (plan.recompute == Recompute.FULL) | selective
    return where(to_its_end, larger(working, HALF_BYTES * gathered + ending), working)


def context_transit_bytes(plan: Layout, inputs: Inputs, shard: Shard) -> Floats:
    """Keys, values and their gradients in transit: gathered whole, or in a ring the piece in use and the next.

    shard: sizes on the rank; plan: scalar or array (n,). Returns bytes. Source: torch 2.13, distributed/tensor/
    experimental/_context_parallel/_attention.py.

    >>> from meshwright.cost.shard import layer_shard
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> float(context_transit_bytes(Plan(), LLAMA, layer_shard(Plan(), LLAMA, LLAMA.model.layer_kinds[0])))
    0.0
    """
    local = HALF_BYTES * shard.tokens * shard.attended
    pieces = where(plan.context_exchange == ContextExchange.ALL_GATHER, plan.cp, 2)
    both = 1 + inputs.runtime.communication.context_gradient_bytes / HALF_BYTES
    return where(plan.cp > 1, both * pieces * local, 0.0)


def _unit_backward_bytes(plan: Layout, inputs: Inputs, kind: LayerKind, shard: Shard) -> Floats:
    """Alive in the feed-forward block's backward beyond what is saved, where weights have 2-byte gradients of their
    own: the gradient of the layer's output, that of the down weight, and either the gathered gradient with the
    product's, or, the product freed, the gradients of gate and up, unless these take their place. A weight that is
    unpacked takes as much as that gradient. Of experts the same, or before it the gradients of their weighed outputs
    and of the outputs, and these in 2 bytes.
    """
    hidden, block = inputs.model.hidden_size, dense_block(kind)
    residual = 1.0 * shard.residual_tokens * hidden
    gathered = where(plan.sp, 1.0 * shard.tokens * hidden, 0.0)
    inner = 1.0 * shard.tokens * shard.ffn
    products = larger(gathered + inner, _gradients_entering(inputs, block) * inner)
    has_weight = inputs.packs_weights or not inputs.freezes_weights
    dense = HALF_BYTES * (residual + hidden * shard.ffn * has_weight + products)
    if not kind.is_moe:
        return dense
    experts, routed = expert_shard(plan, inputs, kind), routed_experts(kind)
    inner = experts.rows * experts.ffn
    down = experts.experts * hidden * experts.ffn * (not inputs.freezes_weights)
    products = HALF_BYTES * (down + (2 if routed.gated else 1) * inner)
    width = inputs.runtime.activations.weighed_output_bytes
    weighed = (2 * width + HALF_BYTES) * (width > 0) * experts.tokens * routed.active * hidden
    return larger(dense, HALF_BYTES * residual + larger(products, weighed))


def _unit_attention_bytes(plan: Layout, inputs: Inputs, kind: LayerKind, shard: Shard) -> Floats:
    """Alive in the attention core's backward, where weights have 2-byte gradients of their own: those of the block and
    of the output projection, the gradient of the layer's output, and those of the core's output, queries, keys and
    values; pieces of a sequence add up their queries' in fp32.
    """
    hidden, block = inputs.model.hidden_size, dense_block(kind)
    weights = 1.0 * hidden * (shard.core + (0 if block is None else (3 if block.gated else 2) * shard.ffn))
    if kind.is_moe:
        experts = expert_shard(plan, inputs, kind)
        weights = weights + experts.experts * hidden * (experts.width + experts.ffn)
    summed = where(plan.cp > 1, 1.0 * inputs.runtime.communication.context_gradient_bytes, 0.0)
    gradients = HALF_BYTES * (shard.core + shard.query + shard.attended) + summed * shard.query
    weights = weights * (not inputs.freezes_weights)
    return HALF_BYTES * (weights + shard.residual_tokens * hidden) + shard.tokens * gradients


def ending_bytes(plan: Layout, inputs: Inputs, kind: LayerKind, shard: Shard) -> Floats:
    """Alive when the down product has just been reduced: its part of the sum whole, with sequence parallelism a second
    time in the order of the scatter, and what is received; then the sum with the residual. Where scores weigh what
    experts put out, beside what is kept: their rows as they came back, in fp32 and cast, and the sum that they enter;
    in 2 bytes no fp32 ones.

    plan: scalar or array (n,); shard: sizes on the rank. Returns bytes. Source: PyTorch 2.13, counted on fake tensors.

    >>> from meshwright.cost.shard import layer_shard
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> kind = LLAMA.model.layer_kinds[0]
    >>> float(ending_bytes(Plan(), LLAMA, kind, layer_shard(Plan(), LLAMA, kind))) / (8192 * 4096)
    2.0
    """
    whole = 1.0 * shard.tokens * inputs.model.hidden_size
    residual = 1.0 * shard.residual_tokens * inputs.model.hidden_size
    parts = where(plan.sp, 2.0 * whole + 2.0 * residual, where(plan.tp > 1, 2.0 * whole, residual))
    width = inputs.runtime.activations.weighed_output_bytes
    if not (kind.is_moe and width):
        return HALF_BYTES * parts
    routed = (2 * HALF_BYTES + FP32_BYTES * (width == FP32_BYTES)) * routed_experts(kind).active + HALF_BYTES
    rows = 1.0 * expert_shard(plan, inputs, kind).tokens * inputs.model.hidden_size
    alive: Floats = larger(HALF_BYTES * parts, routed * rows)
    return alive


def _backward_bytes(plan: Layout, inputs: Inputs, kind: LayerKind, shard: Shard) -> Floats:
    """Gradients alive in the feed-forward block's backward: its output's (whole), the product's, and gate and up's,
    unless these take their place; beside them the input that is gathered again, and gate and up as they are cast back
    where 8 bits of them are kept. Of experts the same of their rows, whose output's gradients arrive as they are
    dispatched.
    """
    hidden, block = inputs.model.hidden_size, dense_block(kind)
    inner = (1 + _entering(inputs, block)) * shard.ffn if block else 0
    alive = 1.0 * HALF_BYTES * shard.tokens * (2 * hidden + inner)
    if not kind.is_moe:
        return alive
    experts = expert_shard(plan, inputs, kind)
    _, rows = expert_rooms(plan, inputs, kind, experts)
    inner = (1 + _entering(inputs, routed_experts(kind))) * experts.ffn
    return larger(alive, rows * (inputs.dispatch_bytes[1] * hidden + HALF_BYTES * (hidden + inner)))


def _entering(inputs: Inputs, block: Mlp | Experts) -> int:
    """Of each element of the FFN, those that enter its activation: their gradients, and themselves if cast back."""
    cast = inputs.runtime.elementwise_bytes.kept_input_bytes(block) < HALF_BYTES
    if isinstance(block, Mlp) and not cast:
        return _gradients_entering(inputs, block)
    return (2 if block.gated else 1) * (2 if cast else 1)


def _gradients_entering(inputs: Inputs, block: Mlp | None) -> int:
    """Of each element of the FFN, gradients of what enters its activation that have memory of their own."""
    if block is None or not block.gated:
        return 1
    return 0 if inputs.runtime.elementwise_bytes.gated_gradients_in_place else 2
