"""Which layers of experts exchange tokens beside the opposite pass of another micro-batch, and how well."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import Bools, Floats, smaller
from meshwright.cost.repeated import repeated_parts
from meshwright.layout.plans import Layout
from meshwright.schedules.records import true_by_code
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind

_BOTH_WAYS = true_by_code(lambda record: record.placement == "both-ways")


def overlap_share(inputs: Inputs) -> Floats:
    """Share of the opposite pass that hides the exchanges of experts, by the runtime's dispatcher; 0: none.

    Returns a share. Source: the runtime's section [overlap]; NVIDIA/Megatron-LM@d98e8a64ddf3 core/transformer/
    transformer_config.py L3016: alltoall and flex alone, no all-gather.

    >>> from meshwright.specs.reading.examples import MIXTRAL
    >>> overlap_share(MIXTRAL)
    0.0
    """
    overlap, dispatcher = inputs.runtime.overlap, inputs.dispatcher
    return {"fused": overlap.fused_expert, "all_to_all": overlap.expert}.get(dispatcher, 0.0)


def overlaps_micro_batches(plan: Layout, inputs: Inputs, kind: LayerKind) -> Bools:
    """Whether the layers of a kind run one pass beside the opposite one of another micro-batch.

    Where the runtime does, experts are divided, a pipeline has several chunks a rank or works both ways, and neither
    whole layers nor the mixture are computed again.
    plan: scalar or array (n,). Returns booleans. Source: NVIDIA/Megatron-LM, core/transformer/transformer_config.py,
    overlap_moe_expert_parallel_comm; Megatron-Bridge v0.6.0, training/comm_overlap.py L478-518; of DualPipe
    arXiv:2412.19437, section 3.2.1.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.behaviours import with_behaviours
    >>> from meshwright.specs.reading.examples import MIXTRAL
    >>> runtime = with_behaviours(MIXTRAL.runtime, ["overlap.expert=0.7"])
    >>> inputs, kind = MIXTRAL.replace(runtime=runtime), MIXTRAL.model.layer_kinds[0]
    >>> [bool(overlaps_micro_batches(Plan(dp=8, ep=8, pp=2, vpp=vpp), inputs, kind)) for vpp in (1, 2)]
    [False, True]
    """
    if not (kind.is_moe and overlap_share(inputs)):
        return False
    again = (plan.recompute == Recompute.FULL) | (repeated_parts(plan, kind).experts > 0)
    paired = (plan.pp == 1) | (plan.vpp > 1) | _BOTH_WAYS[plan.schedule]
    return (plan.ep > 1) & paired & np.logical_not(again)


def unpaired_share(plan: Layout) -> Floats:
    """Share of the passes of a micro-batch that have no opposite pass beside them: min(pp / m, 1).

    Without a pipeline those are the first forward pass and the last backward one. Interleaved, stage r works 2 (pp - r
    - 1) + (vpp - 1) pp + 1 of its m vpp chunks forward before the first backward, and as many backward after the last
    forward: pp vpp in the mean of stages. DualPipe is taken to have as many. plan: scalar or array (n,). Returns a
    share. Source: NVIDIA/Megatron-LM@d98e8a64ddf3 core/pipeline_parallel/combined_1f1b.py and schedules.py L960-970.

    >>> from meshwright.layout.plan import Plan
    >>> [unpaired_share(Plan(pp=pp, num_microbatches=8)) for pp in (1, 4, 16)]
    [0.125, 0.5, 1.0]
    """
    return smaller(plan.pp / plan.num_microbatches, 1.0)


def holds_two(plan: Layout, inputs: Inputs, kind: LayerKind) -> Bools:
    """Whether what the layers of a kind keep stands twice where the runtime gives it back when both passes have ended.

    plan: scalar or array (n,). Returns booleans. Source: the runtime's `keeps_paired`.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import MIXTRAL
    >>> bool(holds_two(Plan(dp=8, ep=8, num_microbatches=4), MIXTRAL, MIXTRAL.model.layer_kinds[0]))  # no overlap
    False
    """
    return overlaps_micro_batches(plan, inputs, kind) & (plan.pp == 1) & (plan.num_microbatches > 1)
