"""Exchange buffers: what the kernels of a fused dispatcher hold on a rank outside of PyTorch's allocator."""

from __future__ import annotations

from meshwright.arrays import Floats, where
from meshwright.cost.comms.group import axis_group
from meshwright.cost.shard import routed_tokens
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.precision import FP32_BYTES, HALF_BYTES

SCALED_ELEMENTS = 128
"""Of a token, with one scale of 4 bytes."""


def exchange_buffer_bytes(plan: Layout, inputs: Inputs) -> Floats:
    """Bytes of HybridEP's buffers on one rank, allocated once for every layer and micro-batch.

    T r w inside the domain, w = 2 h + 4 E / n + 4 h / 128: room for the case that all T tokens of all r ranks of ep and
    etp are sent to one rank, 2-byte tokens of h elements with scales and scores, of E experts in n domains. Over
    several, T (n - 1) (w + 2 (2 h + 4 E / n)) for what the others send in a dispatch and a combine, and
    T (2 h + 4 E + 4 h / 128) for what is sent. T is rounded up to 16. Dispatched 8-bit tokens count as 2-byte ones.
    plan: scalar or array (n,). Returns bytes, 0 where another dispatcher or nobody exchanges.
    Source: deepseek-ai/DeepEP@94a9f8f6 (hybrid-ep) csrc/hybrid_ep/buffer/intranode.cu (allocate_dispatch_buffers,
    allocate_combine_buffers, which share them), internode_doca.cu; deep_ep/hybrid_ep_buffer.py.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.behaviours import with_behaviours
    >>> from meshwright.specs.reading.examples import MIXTRAL
    >>> fused = ["dispatcher=fused", "fused_kernels=hybrid_ep"]
    >>> inputs = MIXTRAL.replace(runtime=with_behaviours(MIXTRAL.runtime, fused))
    >>> [float(exchange_buffer_bytes(Plan(dp=8, ep=8), each)) / (8 * 4096) for each in (MIXTRAL, inputs)]
    [0.0, 8352.0]
    """
    if not (inputs.model.is_moe and inputs.dispatcher == "fused"):
        return 0.0
    if inputs.runtime.communication.fused_kernels != "hybrid_ep":
        return 0.0
    group, hidden = axis_group("ep_etp", plan, inputs), inputs.model.hidden_size
    tokens, domains = -(-routed_tokens(plan, inputs) // 16) * 16, group.blocks[0]
    experts = max(each.count for each in inputs.model.mixtures)
    scales = FP32_BYTES * hidden / SCALED_ELEMENTS
    combined = HALF_BYTES * hidden + FP32_BYTES * experts / domains
    inside = group.ranks * (combined + scales)
    beyond = (domains - 1) * (3 * combined + scales) + HALF_BYTES * hidden + FP32_BYTES * experts + scales
    return where(group.ranks > 1, tokens * (inside + where(domains > 1, beyond, 0.0)), 0.0)
