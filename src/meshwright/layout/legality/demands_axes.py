"""Demands of the Megatron family that spell out how a plan lays its axes."""

from __future__ import annotations

from itertools import groupby

from meshwright.layout.groups import context_split
from meshwright.layout.legality.demand import Demand
from meshwright.layout.plan import ContextExchange, Plan
from meshwright.layout.stages import chunk_sizes
from meshwright.specs.inputs import Inputs

EXCHANGES = {
    ContextExchange.RING: "p2p",
    ContextExchange.ALL_GATHER: "all_gather",
    ContextExchange.ALL_TO_ALL: "a2a",
    ContextExchange.HIERARCHICAL: "a2a+p2p",
}

DISPATCHERS = {"all_to_all": "alltoall", "all_gather": "allgather", "fused": "flex"}


def _unequal_chunks(plan: Plan, inputs: Inputs) -> bool:
    ends = plan.embedding_as_layer + plan.head_as_layer
    uneven = inputs.model.num_layers % (plan.pp * plan.vpp) != 0
    return plan.pp > 1 and not ends and (uneven or inputs.mtp_layers > 0)


def layout_string(layers: int, chunks: int, mtp_layers: int = 0) -> str:
    """Megatron-LM's `--pipeline-model-parallel-layout` of chunks as `chunk_sizes` makes them.

    E is the embedding, t a transformer layer, m one of multi-token prediction, L the loss, | the border of a chunk.

    >>> layout_string(61, 16), layout_string(61, 16, mtp_layers=1)
    ('Et*3|(t*4|)*13t*3|t*3L', 'Et*4|(t*4|)*14tmL')
    """
    sizes = chunk_sizes(layers, chunks, mtp_layers).tolist()
    inner = [f"t*{size}" if size > 1 else "t" * size for size in sizes]
    first, *middle, last = inner
    runs = ((chunk, len(list(run))) for chunk, run in groupby(middle))
    spelled = "".join(f"({chunk}|)*{count}" if count > 2 else f"{chunk}|" * count for chunk, count in runs)
    return f"E{first}|{spelled}{last}{'m' * mtp_layers}L"


def _layout_text(plan: Plan, inputs: Inputs) -> str:
    layers, chunks, predicted = inputs.model.num_layers, plan.pp * plan.vpp, inputs.mtp_layers
    why = f"the last of {chunks} chunks holds {predicted} of multi-token prediction"
    why = why if predicted else f"{layers} layers do not divide by {chunks} chunks"
    return f"--pipeline-model-parallel-layout '{layout_string(layers, chunks, predicted)}', as {why}"


def _context(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    return plan.cp > 1


def _context_text(plan: Plan, inputs: Inputs) -> str:
    split = context_split(plan, inputs)
    sizes = f" --hierarchical-context-parallel-sizes {split.heads} {split.ring}"
    mixed = sizes if plan.context_exchange == ContextExchange.HIERARCHICAL else ""
    return f"--cp-comm-type {EXCHANGES[plan.context_exchange]}{mixed}, the exchange of cp {plan.cp} that is priced"


def _replicas(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    return plan.dp_replicate > 1


def _replicas_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    return f"--num-distributed-optimizer-instances {plan.dp_replicate}, the replicas of the sharding group"


def _dispatcher(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    return plan.ep * plan.etp > 1


def _dispatcher_text(plan: Plan, inputs: Inputs) -> str:
    dispatcher = inputs.runtime.dispatcher
    backend = "hybridep" if inputs.cluster.accelerator.id.startswith("gb") else "deepep"
    fused = f" --moe-flex-dispatcher-backend {backend}" if dispatcher == "fused" else ""
    return (
        f"--moe-token-dispatcher-type {DISPATCHERS[dispatcher]}{fused}, the exchange of ep {plan.ep} x etp {plan.etp} "
        "that is priced"
    )


def _half_gradients(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    return inputs.job.gradients is not None


def _half_gradients_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    flag = "--grad-reduce-in-bf16" if inputs.gradient_bytes == 2 else "--accumulate-allreduce-grads-in-fp32"
    return f"{flag}, as the job asks for {inputs.job.gradients} gradients"


DEMANDS = (
    Demand("pipeline_layout", _unequal_chunks, _layout_text),
    Demand("context_exchange", _context, _context_text),
    Demand("sharding_replicas", _replicas, _replicas_text),
    Demand("expert_dispatcher", _dispatcher, _dispatcher_text),
    Demand("gradient_type", _half_gradients, _half_gradients_text),
)
