"""Rules of what a runtime does not have at all."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import Bools
from meshwright.layout.legality.named_layers import named_layers, numbers_of
from meshwright.layout.legality.rule import Rule
from meshwright.layout.plan import Plan, Recompute
from meshwright.layout.plans import Layout, of_chunks
from meshwright.specs.inputs import Inputs


def _none(name: str, field: str, what: str, without: int = 1) -> Rule:
    """The rule of a number that must stay at what stands for none, because the runtime has no such thing."""

    def legal(plan: Layout, inputs: Inputs) -> Bools:  # noqa: ARG001
        return np.equal(getattr(plan, field), without)

    def reason(plan: Plan, inputs: Inputs) -> str:
        return f"{field} {getattr(plan, field)}: {inputs.runtime.id} has no {what}; nearest {field}: {without}"

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


def _pipeline(plan: Layout, inputs: Inputs) -> Bools:  # noqa: ARG001
    counted = np.logical_or(plan.embedding_as_layer, plan.head_as_layer) | np.not_equal(plan.microbatch_group, 0)
    return np.equal(plan.pp, 1) & np.logical_not(named_layers(plan) | counted)


def _pipeline_reason(plan: Plan, inputs: Inputs) -> str:
    what = "" if plan.pp > 1 else " with numbers of layers or of micro-batches for stages"
    named = f"pp {plan.pp}{what}"
    return f"{named}: {inputs.runtime.id} has no pipeline parallelism; nearest pp: 1, with nothing said of stages"


def _end_stages(plan: Layout, inputs: Inputs) -> Bools:  # noqa: ARG001
    return np.equal(plan.first_stage_layers, 0) & np.equal(plan.last_stage_layers, 0)


def _end_stages_reason(plan: Plan, inputs: Inputs) -> str:
    return (
        f"first_stage_layers {plan.first_stage_layers} and last_stage_layers {plan.last_stage_layers}: "
        f"{inputs.runtime.id} takes no such numbers; nearest first_stage_layers: 0 and last_stage_layers: 0"
    )


def _chunks(plan: Layout, inputs: Inputs) -> Bools:  # noqa: ARG001
    return np.equal(of_chunks(plan, len), 0)


def _chunks_reason(plan: Plan, inputs: Inputs) -> str:
    return f"chunk_layers {numbers_of(plan)}: {inputs.runtime.id} splits the layers itself; name no chunk_layers"


RULES = (
    _none("no_tensor_parallel", "tp", "tensor parallelism"),
    _none("no_context_parallel", "cp", "context parallelism"),
    Rule("no_pipeline_parallel", _pipeline, _pipeline_reason),
    _none("no_interleaving", "vpp", "interleaved schedule"),
    _none("no_expert_parallel", "ep", "expert parallelism that works"),
    _none("no_expert_tensor_parallel", "etp", "tensor-parallel degree of its own for experts"),
    _none("no_replicas", "dp_replicate", "hybrid sharding"),
    _none("no_microbatch_group", "microbatch_group", "groups of micro-batches to choose", without=0),
    _none("no_recompute_layers", "recompute_layers", "recomputation of a part of the layers", without=0),
    Rule("no_end_stage_layers", _end_stages, _end_stages_reason),
    Rule("no_chunk_layers", _chunks, _chunks_reason),
    Rule("no_sequence_parallel", _sequence_parallel, _sequence_parallel_reason),
    Rule("no_selective_recompute", _selective_recompute, _selective_recompute_reason),
)
