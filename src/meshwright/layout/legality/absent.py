"""Rules of what a runtime does not have at all."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import Bools
from meshwright.layout.legality.rule import Rule
from meshwright.layout.plan import Plan, Recompute
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs


def _none(name: str, field: str, what: str) -> Rule:
    """The rule of a degree that must be 1, because the runtime has no such thing."""

    def legal(plan: Layout, inputs: Inputs) -> Bools:  # noqa: ARG001
        return np.equal(getattr(plan, field), 1)

    def reason(plan: Plan, inputs: Inputs) -> str:
        return f"{field} {getattr(plan, field)}: {inputs.runtime.id} has no {what}; nearest {field}: 1"

    return Rule(name, legal, reason)


def _sequence_parallel(plan: Layout, inputs: Inputs) -> Bools:  # noqa: ARG001
    return np.logical_not(plan.sp)


def _sequence_parallel_reason(plan: Plan, inputs: Inputs) -> str:
    return f"sp with tp {plan.tp}: {inputs.runtime.id} splits no norms or residuals over tp; only no sp would do"


def _selective_recompute(plan: Layout, inputs: Inputs) -> Bools:  # noqa: ARG001
    return np.not_equal(plan.recompute, int(Recompute.SELECTIVE))


def _selective_recompute_reason(plan: Plan, inputs: Inputs) -> str:
    what = f"recompute {plan.recompute.name.lower()} ({int(plan.recompute)})"
    return f"{what}: {inputs.runtime.id} recomputes whole layers or nothing; set recompute to none or full"


RULES = (
    _none("no_tensor_parallel", "tp", "tensor parallelism"),
    _none("no_context_parallel", "cp", "context parallelism"),
    _none("no_pipeline_parallel", "pp", "pipeline parallelism"),
    _none("no_interleaving", "vpp", "interleaved schedule"),
    _none("no_expert_parallel", "ep", "expert parallelism that works"),
    _none("no_expert_tensor_parallel", "etp", "tensor-parallel degree of its own for experts"),
    _none("no_replicas", "dp_replicate", "hybrid sharding"),
    Rule("no_sequence_parallel", _sequence_parallel, _sequence_parallel_reason),
    Rule("no_selective_recompute", _selective_recompute, _selective_recompute_reason),
)
