"""Rules of pipeline schedules: micro-batches that they need, stages that they can fill."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import Bools
from meshwright.layout.legality.rule import Rule, change
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs

ENDS = 2
"""The embedding and the head each weigh one layer where a runtime counts both when it cuts stages."""


def _fill(plan: Layout, inputs: Inputs) -> Bools:  # noqa: ARG001
    return np.greater(plan.vpp, 1) | np.greater_equal(plan.num_microbatches, plan.pp)


def _fill_reason(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    return (
        f"1F1B needs a micro-batch for each of the pp {plan.pp} stages, but there are {plan.num_microbatches}; "
        f"nearest num_microbatches: {plan.pp}; nearest pp: {plan.num_microbatches}"
    )


def _warm_up(plan: Layout, inputs: Inputs) -> Bools:  # noqa: ARG001
    return np.greater_equal(plan.num_microbatches, plan.pp - 1)


def _warm_up_reason(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    return (
        f"1F1B warms up with pp {plan.pp} - 1 micro-batches, but there are {plan.num_microbatches}; "
        f"nearest num_microbatches: {plan.pp - 1}; nearest pp: {plan.num_microbatches + 1}"
    )


def _rounds(plan: Layout, inputs: Inputs) -> Bools:  # noqa: ARG001
    rounds = np.maximum(plan.num_microbatches // plan.pp, 1)
    return np.equal(plan.vpp, 1) | (plan.num_microbatches % rounds == 0)


def _rounds_reason(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    count, rounds = plan.num_microbatches, plan.num_microbatches // plan.pp
    near = range(max(count - plan.pp, 1), count + plan.pp + 1)
    even = [each for each in near if each % max(each // plan.pp, 1) == 0]
    return (
        f"interleaving runs {count} micro-batches in {count} // pp {plan.pp} = {rounds} equal rounds, which do not "
        f"divide them; {change('num_microbatches', count, even)}, or vpp 1"
    )


def _beyond_two(plan: Layout, inputs: Inputs) -> Bools:  # noqa: ARG001
    return np.equal(plan.vpp, 1) | np.greater(plan.pp, 2)


def _beyond_two_reason(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    return f"vpp {plan.vpp} needs more than 2 stages, but pp is {plan.pp}; nearest pp: 3, or vpp 1"


def _hold_layers(plan: Layout, inputs: Inputs) -> Bools:
    return np.equal(plan.pp, 1) | np.less_equal(plan.pp * plan.vpp, inputs.model.num_layers + ENDS)


def _hold_layers_reason(plan: Plan, inputs: Inputs) -> str:
    layers = inputs.model.num_layers + ENDS
    hint = f"nearest vpp: {layers // plan.pp}" if plan.pp <= layers else "nearest pp: 1"
    return (
        f"pp {plan.pp} x vpp {plan.vpp} = {plan.pp * plan.vpp} stages, but there are {layers} layers to hold, "
        f"embedding and head among them; {hint}"
    )


def _untied(plan: Layout, inputs: Inputs) -> Bools:
    return np.equal(plan.pp, 1) | (not inputs.model.tied_embeddings)


def _untied_reason(plan: Plan, inputs: Inputs) -> str:
    return (
        f"{inputs.model.name} ties its head to the embedding, and {inputs.runtime.id} keeps no copy for the last "
        f"of pp {plan.pp} stages; nearest pp: 1"
    )


RULES = (
    Rule("microbatches_fill_stages", _fill, _fill_reason),
    Rule("microbatches_warm_up", _warm_up, _warm_up_reason),
    Rule("microbatch_rounds", _rounds, _rounds_reason),
    Rule("interleaving_beyond_two", _beyond_two, _beyond_two_reason),
    Rule("stages_hold_layers", _hold_layers, _hold_layers_reason),
    Rule("untied_pipeline", _untied, _untied_reason),
)
