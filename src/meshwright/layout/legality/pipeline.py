"""Rules of pipeline parallelism: layers for every stage and chunk."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import Bools, Ints
from meshwright.layout.legality.named_layers import named_layers, numbers_of
from meshwright.layout.legality.rule import Rule, change, divisors, nearest
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs


def _counted_layers(plan: Layout, inputs: Inputs) -> Ints:
    """Layers to split over the stages: the embedding and the head count where the plan says so."""
    return inputs.model.num_layers + plan.embedding_as_layer * 1 + plan.head_as_layer * 1


def _layers_per_stage(plan: Layout, inputs: Inputs) -> Ints:
    return _counted_layers(plan, inputs) % plan.pp == 0


def _layers_per_stage_reason(plan: Plan, inputs: Inputs) -> str:
    layers, counted = inputs.model.num_layers, _counted_layers(plan, inputs)
    hint = f"nearest pp: {nearest(plan.pp, divisors(counted))}"
    ends = [extra for extra in (1, 2) if (layers + extra) % plan.pp == 0 and layers + extra != counted]
    if ends and True in inputs.runtime.plans.ends_as_layers:
        hint += f"; or count {'the embedding or the head' if ends[0] == 1 else 'embedding and head'} as a layer"
    with_ends = f" ({counted} with the ends that count)" if counted != layers else ""
    return f"{layers} layers{with_ends} do not divide by pp {plan.pp}; {hint}"


def _layers_fill_chunks(plan: Layout, inputs: Inputs) -> Bools:
    layers, chunks = _counted_layers(plan, inputs), plan.pp * plan.vpp
    whole = np.equal(layers, inputs.model.num_layers) | (layers % chunks == 0)
    return named_layers(plan) | (
        np.greater_equal(layers, chunks) & (whole | (inputs.runtime.pipeline.stage_split == "front"))
    )


def _layers_fill_chunks_reason(plan: Plan, inputs: Inputs) -> str:
    layers, chunks = _counted_layers(plan, inputs), plan.pp * plan.vpp
    split = f"pp {plan.pp} x vpp {plan.vpp} = {chunks} chunks"
    if layers >= chunks:
        return f"{layers} layers with the ends that count do not divide by {split}; leave both out"
    fitting = [(axis, layers // other) for axis, other in (("pp", plan.vpp), ("vpp", plan.pp)) if layers >= other]
    fitting = fitting or [(axis, 1) for axis, degree in (("pp", plan.pp), ("vpp", plan.vpp)) if degree > 1]
    hints = "; ".join(f"nearest {axis}: {degree}" for axis, degree in fitting)
    return f"{layers} layers do not fill {split} with one each; {hints}"


def _layers_per_chunk(plan: Layout, inputs: Inputs) -> Ints:
    return _counted_layers(plan, inputs) // plan.pp % plan.vpp == 0


def _layers_per_chunk_reason(plan: Plan, inputs: Inputs) -> str:
    layers = _counted_layers(plan, inputs) // plan.pp
    return (
        f"{layers} layers of each of the pp {plan.pp} stages do not divide by vpp {plan.vpp}; "
        f"nearest vpp: {nearest(plan.vpp, divisors(layers)) or 1}"
    )


def _layers_per_round(plan: Layout, inputs: Inputs) -> Bools:
    return np.equal(inputs.model.num_layers % plan.vpp, 0)


def _layers_per_round_reason(plan: Plan, inputs: Inputs) -> str:
    layers = inputs.model.num_layers
    return f"{layers} layers do not divide by vpp {plan.vpp}; {change('vpp', plan.vpp, divisors(layers))}"


def _ends_as_layers(plan: Layout, inputs: Inputs) -> Bools:
    counts = plan.embedding_as_layer * 1 + plan.head_as_layer * 1
    allowed = (
        np.greater(plan.pp, 1) & (True in inputs.runtime.plans.ends_as_layers) & np.logical_not(named_layers(plan))
    )
    return np.equal(counts, 0) | (allowed & (inputs.model.num_layers >= plan.pp * plan.vpp - counts))


def _ends_as_layers_reason(plan: Plan, inputs: Inputs) -> str:
    if True not in inputs.runtime.plans.ends_as_layers:
        return f"{inputs.runtime.id} cannot count the ends of a pipeline of pp {plan.pp} as layers; leave both out"
    return (
        f"an end counts as a layer where pp is 2 or more, every chunk has one and the plan names no numbers of layers "
        f"itself, but pp is {plan.pp}, vpp {plan.vpp} and it names {numbers_of(plan)}; leave both out"
    )


def _interleaving(plan: Layout, inputs: Inputs) -> Ints:  # noqa: ARG001
    return np.equal(plan.vpp, 1) | np.greater(plan.pp, 1)


def _interleaving_reason(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    return f"vpp {plan.vpp} needs pp 2 or more; with pp 1 there are no stages to interleave"


RULES = (
    Rule("ends_as_layers", _ends_as_layers, _ends_as_layers_reason),
    Rule("layers_per_stage", _layers_per_stage, _layers_per_stage_reason),
    Rule("layers_fill_chunks", _layers_fill_chunks, _layers_fill_chunks_reason),
    Rule("layers_per_chunk", _layers_per_chunk, _layers_per_chunk_reason),
    Rule("layers_per_round", _layers_per_round, _layers_per_round_reason),
    Rule("interleaving", _interleaving, _interleaving_reason),
)
