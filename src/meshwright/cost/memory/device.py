"""Device memory: what the allocator reserves, what lives outside of it, and whether all of it fits."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from meshwright.arrays import Floats, IntColumn, Ints
from meshwright.layout.groups import expert_data_ranks
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs

EIGHTY_PERCENT = 0.8


class Verdict(IntEnum):
    """Whether a plan fits in memory, from the surest to none.

    `SAFE` is 0 and so counts as false: ask `estimate.verdict.fits`, which only `OUT_OF_MEMORY` denies.
    """

    SAFE = 0
    AT_RISK = 1
    OUT_OF_MEMORY = 2

    def __str__(self) -> str:
        return self.name.lower().replace("_", "-")

    @property
    def fits(self) -> bool:
        """Whether it may run: safely or at risk."""
        return self is not Verdict.OUT_OF_MEMORY


def communicator_bytes(plan: Layout, inputs: Inputs) -> Floats:
    """Bytes of the NCCL communicators of one rank: groups of two or more ranks that run collectives, and neighbours.

    Tensor parallel, context parallel, data parallel, model parallel (the global gradient norm), the world, with tied
    embeddings the two end stages, with experts their exchange and the ranks that hold the same ones (Megatron-LM,
    parallel_state.py); a middle stage talks to two neighbours.
    plan: scalar or array (n,). Returns bytes, the least certain term: a measured TP 2, PP 2, DP 2 on 8 H100 held 7 GB,
    where 2.5 GB are counted here.
    Source: NVIDIA/nccl issues 964 and 1685 (0.55 GB for each communicator of collectives); verl PR 6408.
    """
    memory = inputs.runtime.memory
    sizes = [plan.tp, plan.cp, plan.dp * plan.cp, plan.tp * plan.pp, plan.tp * plan.pp * plan.dp * plan.cp]
    if inputs.model.tied_embeddings:
        sizes.append(plan.pp)
    if inputs.model.is_moe:
        sizes += [plan.ep, expert_data_ranks(plan)]
    groups = sum(np.greater(size, 1) * 1 for size in sizes)
    return groups * memory.communicator_bytes + np.minimum(plan.pp - 1, 2) * memory.pair_communicator_bytes


def verdict(allocated: Floats, reserved: Floats, communicators: Floats, inputs: Inputs) -> IntColumn:
    """The verdict as a code of `Verdict`.

    Safe when reserved + (f_safe - f) allocated + context + (1 + u) communicators <= visible memory, at risk when
    (1 + f_likely) allocated + context + communicators still fits, else out of memory: an allocator that runs short
    gives back what it only holds. f, the expected share in reserved, f_safe and f_likely are the runtime's; Megatron's
    0.093 and 0.04 bracket the worst ranks of 43 measured runs; u = 1.8, because one measured dense layout held 2.8
    times the communicators counted here.
    allocated, reserved, communicators: bytes, scalar or array (n,). Source: SimuMax's B200 runs, reserved over
    allocated.
    """
    memory, visible = inputs.runtime.memory, inputs.cluster.accelerator.visible_memory_bytes
    margin = (memory.fragmentation_safe - memory.fragmentation) * allocated
    most = reserved + margin + (1 + memory.communicator_uncertainty) * communicators
    least = (1 + memory.fragmentation_likely) * allocated + communicators
    safe, likely = most + memory.context_bytes <= visible, least + memory.context_bytes <= visible
    code: IntColumn = np.where(safe, Verdict.SAFE, np.where(likely, Verdict.AT_RISK, Verdict.OUT_OF_MEMORY))
    return code


def eighty_percent_usage(states_and_activations: Floats, inputs: Inputs) -> Floats:
    """Weights, gradients, optimizer states and activations over the memory on the vendor's label.

    states_and_activations: bytes, scalar or array (n,). Returns a share. Source: Fujii et al., arXiv:2411.06465.
    """
    return states_and_activations / inputs.cluster.accelerator.memory_bytes


def eighty_percent_verdict(states_and_activations: Floats, inputs: Inputs) -> Ints:
    """The 80 % rule of Fujii et al. (arXiv:2411.06465) as a code of `Verdict`: safe up to 80 % of the vendor's label.

    It applies to weights, gradients, optimizer states and activations alone; above 80 % a run may still succeed.
    states_and_activations: bytes, scalar or array (n,).
    """
    usage = eighty_percent_usage(states_and_activations, inputs)
    code: IntColumn = np.where(
        usage <= EIGHTY_PERCENT, Verdict.SAFE, np.where(usage <= 1, Verdict.AT_RISK, Verdict.OUT_OF_MEMORY)
    )
    return code
