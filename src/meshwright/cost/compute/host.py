"""Time that the host takes to issue one layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from meshwright.arrays import Floats, larger
from meshwright.cost.batch_overlap import overlaps_micro_batches
from meshwright.cost.compute.experts import dispatches_fused
from meshwright.layout.plans import Layout
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import Experts, LayerKind
from meshwright.specs.packed import packed_matrices
from meshwright.specs.runtime.host import Host, PassSeconds

PRODUCTS_FORWARD, PRODUCTS_BACKWARD = 2, 4
"""Of each expert forward and backward. Source: two products of an expert (three with a gate of its own, which
frameworks fuse with the first), each with one for the gradient of its input and one for that of its weights."""


class IssueTime(NamedTuple):
    """Seconds that the host takes to issue both passes of one layer; scalar or array (n,)."""

    forward: Floats
    backward: Floats
    experts: Floats
    """Of forward, the products of each expert, which the host issues once it knows how many tokens each has."""


def issue_time(plan: Layout, inputs: Inputs, kind: LayerKind) -> IssueTime:
    """Seconds of the host for one layer of a kind and one micro-batch, whatever the sizes of its kernels.

    Of a layer of experts more, with every expert on the rank where each has kernels of its own, and where its passes
    are cut in pieces that run beside another micro-batch's. Recomputing the layer issues its forward pass once more.
    Hooks around it that shard or checkpoint it take theirs once each pass. CUDA graphs issue parts of it, or all.

    plan: scalar or array (n,). Returns seconds. Source: the runtime's section [host]; the accelerator's host_slowdown,
    and unbound_host_slowdown where ranks are not bound to cores.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import MIXTRAL
    >>> kind = MIXTRAL.model.layer_kinds[0]
    >>> [round(float(seconds) * 1e3, 2) for seconds in issue_time(Plan(dp=8, ep=4), MIXTRAL, kind)]  # 2 experts, bf16
    [4.14, 2.51, 0.04]
    """
    host = inputs.runtime.host
    if host.graphs == "iteration":
        return IssueTime(0.0, 0.0, 0.0)
    forward, backward = _around_products(plan, inputs, kind)
    hooks_forward, hooks_backward = _around_layer(plan, host)
    block = kind.feed_forward
    experts = _experts(plan, inputs, block) if isinstance(block, Experts) else IssueTime(0.0, 0.0, 0.0)
    again = (plan.recompute == Recompute.FULL) * (forward + experts.forward)
    accelerator = inputs.cluster.accelerator
    slowdown = accelerator.host_slowdown * (1.0 if host.binds_ranks else accelerator.unbound_host_slowdown)
    return IssueTime(
        slowdown * (forward + experts.forward + hooks_forward),
        slowdown * (backward + experts.backward + again + hooks_backward),
        slowdown * experts.experts,
    )


def _around_products(plan: Layout, inputs: Inputs, kind: LayerKind) -> tuple[Floats, Floats]:
    """Seconds of both passes of a layer without what each expert of the rank adds."""
    host, communication = inputs.runtime.host, inputs.runtime.communication
    attention_graph, block = host.graphs == "parts", kind.feed_forward
    parts: list[tuple[Floats, PassSeconds]] = [
        (-attention_graph, host.host_s_per_attention),
        (kind.attention.latent is not None and not attention_graph, host.host_s_per_latent_attention),
        (1.0 * (plan.zero == 3), host.host_s_per_gathered_layer),
        (len(inputs.adapters(kind)), host.host_s_per_adapter),
        (inputs.packs_weights * packed_matrices(inputs.model, kind), host.host_s_per_unpacked_weight),
        (_rotated_documents(plan, inputs) * (not attention_graph), host.host_s_per_rotated_document),
    ]
    if isinstance(block, Experts):
        fused = dispatches_fused(plan, inputs) & (communication.fused_kernels == "hybrid_ep")
        parts += [
            (1, host.host_s_per_expert_layer),
            (-(host.graphs in ("router", "parts")), host.host_s_per_router),
            (-1.0 * fused, host.host_s_per_all_to_all),
            (block.shared_ffn_size > 0, host.host_s_per_shared_expert),
            (1.0 * overlaps_micro_batches(plan, inputs, kind), host.host_s_per_overlapped_layer),
        ]
    else:
        layer = host.host_s_per_frozen_layer if inputs.freezes_weights else host.host_s_per_layer
        parts += [(1, layer), (1.0 * (plan.tp > 1), host.host_s_per_tensor_parallel_layer)]
    return _both_passes(parts)


def _around_layer(plan: Layout, host: Host) -> tuple[Floats, Floats]:
    """Seconds of both passes of what surrounds a layer, which is not recomputed with it."""
    return _both_passes(
        [
            (1.0 * (plan.zero >= 2), host.host_s_per_sharded_layer),
            (1.0 * (plan.recompute == Recompute.FULL), host.host_s_per_recomputed_layer),
            (1.0 * (plan.recompute == Recompute.SELECTIVE), host.host_s_per_partly_recomputed_layer),
        ]
    )


def _both_passes(parts: Sequence[tuple[Floats, PassSeconds]]) -> tuple[Floats, Floats]:
    """Seconds of each pass of parts with their counts."""
    return sum(count * part.forward for count, part in parts), sum(count * part.backward for count, part in parts)


def _rotated_documents(plan: Layout, inputs: Inputs) -> Floats:
    """Documents packed into one micro-batch, as many at least as are of their mean length over tokens."""
    job, rotates = inputs.job, not inputs.model.learned_positions
    return 1.0 * plan.micro_batch * job.sequence_length / job.attended_length * (rotates and bool(job.document_length))


def _experts(plan: Layout, inputs: Inputs, block: Experts) -> IssueTime:
    """What the experts of a rank add, where their products are kernels of their own."""
    host, kernels = inputs.runtime.host, inputs.runtime.kernels
    quantising, biases = kernels.expert_quantising_kernels, kernels.expert_bias_kernels
    forward, backward = (
        host.host_s_per_kernel * (products + inputs.recipe.quantises * apart + block.bias * added)
        for products, apart, added in (
            (PRODUCTS_FORWARD, quantising.forward, biases.forward),
            (PRODUCTS_BACKWARD, quantising.backward, biases.backward),
        )
    )
    if host.host_s_per_looped_expert.forward:
        forward, backward = host.host_s_per_looped_expert.forward, host.host_s_per_looped_expert.backward
    count = larger(block.count // plan.ep, 1) * (kernels.expert_products in ("each", "looped"))
    gathered, sharded = host.host_s_per_gathered_expert, 1.0 * (plan.zero == 3)
    return IssueTime(
        count * (forward + sharded * gathered.forward),
        count * (backward + sharded * gathered.backward),
        count * forward,
    )
