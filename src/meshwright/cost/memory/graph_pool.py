"""Graph pool: what CUDA graphs hold on a rank beyond what the same kernels need when the host issues them."""

from __future__ import annotations

from meshwright.arrays import Floats, larger, smaller, where
from meshwright.cost.compute.experts import ExpertShard, expert_shard
from meshwright.cost.routing import routed_experts, routed_rows
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind
from meshwright.specs.precision import HALF_BYTES

OF_LAYERS = ("router", "parts")
"""Graphs of the parts of one layer and micro-batch each."""
WHOLE_STEP = "iteration"
"""One graph of the whole step."""


def handed_out_bytes(plan: Layout, inputs: Inputs, kind: LayerKind) -> Floats:
    """What the graphs of one layer of experts hand to an all-to-all, for one micro-batch.

    2 T k h with ep, T tokens of the rank and k experts a token: the graph that prepares the dispatch puts the rows in
    the order of their experts. What a graph puts out stays until its backward graph has read it, where without graphs
    these rows are free once they are sent. A fused dispatcher sorts in its own kernel, outside of the graphs. What
    backward needs, the pool has in place of the allocator.
    plan: scalar or array (n,). Returns bytes. Source: TransformerEngine@d0067d0da pytorch/graph.py,
    make_graphed_callables (static_outputs); Megatron-LM core_v0.16.0, core/transformer/moe/token_dispatcher.py
    (dispatch_preprocess) and moe_layer.py. Qwen3 30B with micro-batches of two sequences of 4096 tokens on H200: 12.0
    GiB; 14.77 GiB were printed for the whole pool.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.behaviours import with_behaviours
    >>> from meshwright.specs.reading.examples import MIXTRAL
    >>> inputs = MIXTRAL.replace(runtime=with_behaviours(MIXTRAL.runtime, ["host.graphs=router"]))
    >>> kind = inputs.model.layer_kinds[0]
    >>> [float(handed_out_bytes(Plan(dp=8, ep=ep), inputs, kind)) / (2 * 4096 * 4096) for ep in (1, 8)]
    [0.0, 2.0]
    """
    graphed = inputs.runtime.host.graphs in OF_LAYERS and inputs.dispatcher == "all_to_all"
    if not (kind.is_moe and graphed):
        return 0.0
    rows = expert_shard(plan, inputs, kind).tokens * routed_experts(kind).active
    return where(plan.ep > 1, 1.0 * HALF_BYTES * rows * inputs.model.hidden_size, 0.0)


def expert_rooms(plan: Layout, inputs: Inputs, kind: LayerKind, shard: ExpertShard) -> tuple[Floats, Floats]:
    """Rows that one layer of experts has room for on its rank: kept for backward, and while it works.

    As many as arrive; where one CUDA graph is the whole step the runtime's times those of an even share, if they are
    more: sizes must not change. Kept ones are packed under recipes that mark them (`marks_expert_rows`); under others
    they take all the room that they came in. plan: scalar or array (n,); shard: sizes on the rank. Returns counts.
    Source: Megatron-LM@d98e8a64ddf3 docs/user-guide/features/paged_stash.md; core/transformer/moe/paged_stash.py;
    TransformerEngine@d0067d0da pytorch/ops/fused/grouped_mlp.py L842, L1749. In bf16 Hy3 held 6 and 18 GiB more with 5
    and 15 layers more in flight, 1.2 GiB a layer: 1.16 are priced so, and 1.00 if the rows were packed.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.behaviours import with_behaviours
    >>> from meshwright.specs.reading.examples import MIXTRAL
    >>> room = ["host.graphs=iteration", "graphed_expert_rows=1.5", "stashed_expert_rows=1.2"]
    >>> inputs = MIXTRAL.replace(runtime=with_behaviours(MIXTRAL.runtime, room))
    >>> kind, plan = inputs.model.layer_kinds[0], Plan(dp=8, ep=8)
    >>> rooms = expert_rooms(plan, inputs, kind, expert_shard(plan, inputs, kind))
    >>> [round(float(rows)) for rows in rooms]  # in bf16, of 8192 in the mean
    [12288, 12288]
    """
    if inputs.runtime.host.graphs != WHOLE_STEP:
        return shard.rows, shard.rows
    mean, activations = routed_rows(plan, inputs, kind, shard.tokens).mean, inputs.runtime.activations
    working = activations.graphed_expert_rows
    kept = activations.stashed_expert_rows if inputs.recipe.marks_expert_rows else working
    return larger(shard.rows, kept * mean), larger(shard.rows, working * mean)


def pool_bytes(handed_out: Floats, updating: Floats, in_backward: Floats, inputs: Inputs) -> Floats:
    """What the pool of a rank's CUDA graphs holds beyond what the same kernels need without them.

    With graphs of layers, what these hand out; with one of the whole step min(U, B): the memory of the B bytes that
    micro-batches need serves nothing else, so that the U bytes of the update are beside it and not in its place.
    handed_out: of all micro-batches in flight; updating: U; in_backward: B, activations with the logits or the working
    set; bytes, scalar or array (r,). Returns bytes. Source: `handed_out_bytes`; Megatron-LM@d98e8a64ddf3
    core/full_cuda_graph.py (the optimizer is outside of the graph); PyTorch 2.13, CUDACachingAllocator (PrivatePool).

    >>> from meshwright.specs.behaviours import with_behaviours
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> whole = LLAMA.replace(runtime=with_behaviours(LLAMA.runtime, ["host.graphs=iteration"]))
    >>> [pool_bytes(0.0, 3e9, 40e9, inputs) for inputs in (LLAMA, whole)]
    [0.0, 3000000000.0]
    """
    return smaller(updating, in_backward) if inputs.runtime.host.graphs == WHOLE_STEP else handed_out
