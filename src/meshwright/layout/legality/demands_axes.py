"""Demands of the Megatron family that spell out how a plan lays its axes."""

from __future__ import annotations

from meshwright.layout.groups import context_split
from meshwright.layout.legality.demand import Demand
from meshwright.layout.plan import ContextExchange, Plan
from meshwright.specs.inputs import Inputs

EXCHANGES = {
    ContextExchange.RING: "p2p",
    ContextExchange.ALL_GATHER: "all_gather",
    ContextExchange.ALL_TO_ALL: "a2a",
    ContextExchange.HIERARCHICAL: "a2a+p2p",
}

DISPATCHERS = {"all_to_all": "alltoall", "all_gather": "allgather", "fused": "flex"}


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
    dispatcher = inputs.runtime.communication.dispatcher
    backend = "hybridep" if inputs.cluster.accelerator.domain_spans_nodes else "deepep"
    fused = f" --moe-flex-dispatcher-backend {backend}" if dispatcher == "fused" else ""
    return (
        f"--moe-token-dispatcher-type {DISPATCHERS[dispatcher]}{fused}, the exchange of ep {plan.ep} x etp {plan.etp} "
        "that is priced"
    )


def _gradient_type(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    halved = inputs.gradient_bytes == 2 and inputs.recipe.half == "bf16"
    return inputs.job.gradients is not None or halved


def _gradient_type_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    if inputs.gradient_bytes == 4:
        flag = "--accumulate-allreduce-grads-in-fp32"
    elif inputs.recipe.half == "bf16":
        flag = "--grad-reduce-in-bf16"
    else:
        flag = "no --accumulate-allreduce-grads-in-fp32"
    return f"{flag}, as gradients of {inputs.gradient_bytes} bytes are priced"


def _quantised_weights(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    return inputs.stores_quantised


def _quantised_weights_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    shared = " --reuse-grad-buf-for-mxfp8-param-ag" if inputs.job.precision == "mxfp8" else ""
    return f"--fp8-param-gather{shared}: weights are priced as stored in {inputs.job.precision} alone"


def _narrow_states(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    return inputs.keeps_remainders or inputs.runtime.storage.moment_bytes == 2


def _narrow_states_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    moments = " --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16" if inputs.runtime.storage.moment_bytes == 2 else ""
    return (
        f"--use-precision-aware-optimizer{moments}: optimizer states of {inputs.optimizer_bytes} bytes a parameter are "
        "priced"
    )


DEMANDS = (
    Demand("context_exchange", _context, _context_text),
    Demand("sharding_replicas", _replicas, _replicas_text),
    Demand("expert_dispatcher", _dispatcher, _dispatcher_text),
    Demand("gradient_type", _gradient_type, _gradient_type_text),
    Demand("quantised_weights", _quantised_weights, _quantised_weights_text),
    Demand("narrow_optimizer_states", _narrow_states, _narrow_states_text),
)
