"""Components: the bytes on one rank of a stage at its peak, by what they are for."""

from __future__ import annotations

from typing import Generic, NamedTuple

from meshwright.arrays import Amount, Floats, smaller, where
from meshwright.cost.comms.pipeline import message_parts
from meshwright.layout.groups import expert_data_ranks
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs


class Components(NamedTuple, Generic[Amount]):
    """Bytes on one rank of one stage, or of each, shape (r,)."""

    parameters: Amount
    gradients: Amount
    optimizer_states: Amount
    activations: Amount
    """Saved for backward, of all micro-batches in flight."""
    logits: Amount
    """Logits and cross-entropy working set, where they make the peak."""
    temporaries: Amount
    """Working set of one layer's backward, where it makes the peak, and message buffers; or what the optimizer needs
    beyond activations and logits, which are gone when it works."""
    workspaces: Amount
    fragmentation: Amount
    cuda_graphs: Amount
    """Held by the pool of CUDA graphs beyond what the same kernels need without them."""
    context: Amount
    communicators: Amount
    exchange_buffers: Amount
    """Of a fused dispatcher's kernels."""

    @property
    def allocated(self) -> Amount:
        """Live tensors at the peak, bytes."""
        return self.states + self.activations + self.logits + self.temporaries + self.workspaces

    @property
    def reserved(self) -> Amount:
        """What the allocator holds, bytes."""
        return self.allocated + self.fragmentation + self.cuda_graphs

    @property
    def device(self) -> Amount:
        """What the driver shows, bytes."""
        return self.reserved + self.context + self.communicators + self.exchange_buffers

    @property
    def states(self) -> Amount:
        """Parameters, gradients and optimizer states, bytes."""
        return self.parameters + self.gradients + self.optimizer_states


def communicator_bytes(plan: Layout, inputs: Inputs) -> Floats:
    """Bytes of the NCCL communicators of one rank: groups of two or more ranks that run collectives, and neighbours.

    Tensor parallel, context parallel, data parallel, model parallel (the global gradient norm), the world, with tied
    embeddings the two end stages, with experts their exchange and the ranks that hold the same ones (Megatron-LM,
    parallel_state.py); a middle stage talks to two neighbours. DeepSpeed's pipeline engine makes two more
    (runtime/pipe/topology.py, PipelineParallelGrid).
    plan: scalar or array (n,). Returns bytes, the least certain term: a measured TP 2, PP 2, DP 2 on 8 H100 held 7 GB,
    where 2.5 GB are counted here.
    Source: NVIDIA/nccl issues 964 and 1685 (0.55 GB for each communicator of collectives); verl PR 6408.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> float(communicator_bytes(Plan(tp=2, pp=2, dp=2), LLAMA)) / 1e9
    2.5
    """
    memory = inputs.runtime.memory
    sizes = [plan.tp, plan.cp, plan.dp * plan.cp, plan.tp * plan.pp, plan.tp * plan.pp * plan.dp * plan.cp]
    if inputs.model.tied_embeddings:
        sizes.append(plan.pp)
    if inputs.runtime.pipeline.own_groups:
        sizes += [plan.pp, where(plan.pp > 1, message_parts(plan, inputs), 1)]
    if inputs.model.is_moe:
        sizes += [plan.ep, expert_data_ranks(plan)]
    groups = sum((size > 1) * 1 for size in sizes)
    return groups * memory.communicator_bytes + smaller(plan.pp - 1, 2) * memory.pair_communicator_bytes
