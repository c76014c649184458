"""Rules of pipeline parallelism: layers for every stage and chunk."""

from __future__ import annotations

from meshwright.arrays import Ints, negated
from meshwright.layout.legality.named_layers import named_layers, numbers_of
from meshwright.layout.legality.rule import Ruling, change, divisors, invariant, lacking, nearest, one, restriction
from meshwright.layout.plans import Layout
from meshwright.schedules.records import Schedule
from meshwright.specs.model import Model
from meshwright.specs.runtime import Runtime


@invariant
def pipeline_parallel(plan: Layout, runtime: Runtime) -> Ruling:
    """pp is 1 unless the runtime has pipeline parallelism."""
    yield from lacking(plan, "pp", runtime.plans.pipeline_parallel, f"{runtime.id} has no pipeline parallelism")


@invariant
def interleaving(plan: Layout, runtime: Runtime) -> Ruling:
    """vpp 2 or more needs pp 2 or more, and a runtime with a schedule of several chunks."""
    known = runtime.plans.schedules
    has = any(each.record.chunks != 1 for each in Schedule if each.record.name in known)
    yield (plan.vpp == 1) | ((plan.pp > 1) & has)
    none = f"{runtime.id} has no schedule of several chunks; nearest vpp: 1"
    alone = "needs pp 2 or more; with pp 1 there are no stages to interleave"
    yield f"vpp {plan.vpp} {alone}" if has else f"vpp {plan.vpp}: {none}"


@invariant
def ends_as_layers(plan: Layout, model: Model, runtime: Runtime) -> Ruling:
    """An end counts as a layer only in a pipeline of a runtime that has this, where every chunk has a layer or an end
    and the plan names no numbers of layers.
    """
    counts = plan.embedding_as_layer * 1 + plan.head_as_layer * 1
    allowed = (plan.pp > 1) & (True in runtime.plans.ends_as_layers) & negated(named_layers(plan))
    yield (counts == 0) | (allowed & (model.num_layers >= plan.pp * plan.vpp - counts))
    if True not in runtime.plans.ends_as_layers:
        yield f"{runtime.id} cannot count the ends of a pipeline of pp {plan.pp} as layers; leave both out"
    yield (
        f"an end counts as a layer where pp is 2 or more, every chunk has one and the plan names no numbers of layers "
        f"itself, but pp is {plan.pp}, vpp {plan.vpp} and it names {numbers_of(one(plan))}; leave both out"
    )


@invariant
def layers_per_stage(plan: Layout, model: Model, runtime: Runtime) -> Ruling:
    """Where stages are alike, pp divides the layers, with the ends that count."""
    counted = _counted_layers(plan, model)
    yield (counted % plan.pp == 0) | (runtime.pipeline.stage_split != "even")
    plan, layers = one(plan), model.num_layers
    hint = f"nearest pp: {nearest(plan.pp, divisors(int(counted)))}"
    hint += _with_ends(int(counted), model, runtime, plan.pp)
    with_ends = f" ({counted} with the ends that count)" if counted != layers else ""
    yield f"{layers} layers{with_ends} are not divisible by pp {plan.pp}; {hint}"


@invariant
def layers_per_chunk(plan: Layout, model: Model, runtime: Runtime) -> Ruling:
    """Where stages are alike, vpp divides the layers of each."""
    layers = _counted_layers(plan, model) // plan.pp
    yield (layers % plan.vpp == 0) | (runtime.pipeline.stage_split != "even")
    yield (
        f"{layers} layers of each of the pp {plan.pp} stages are not divisible by vpp {plan.vpp}; "
        f"nearest vpp: {nearest(one(plan).vpp, divisors(int(layers))) or 1}"
    )


@invariant
def layers_fill_chunks(plan: Layout, model: Model, runtime: Runtime) -> Ruling:
    """There are as many layers, with the ends that count, as pp x vpp chunks, unless the plan names the layers; where
    an end counts as one, chunks are alike, unless the first ones take what is left.
    """
    layers, chunks = _counted_layers(plan, model), plan.pp * plan.vpp
    whole = (layers == model.num_layers) | (layers % chunks == 0)
    filled = (layers >= chunks) & (whole | (runtime.pipeline.stage_split == "front"))
    yield named_layers(plan) | filled
    plan = one(plan)
    split = f"pp {plan.pp} x vpp {plan.vpp} = {chunks} chunks"
    if layers >= chunks:
        yield f"{layers} layers with the ends that count are not divisible by {split}; leave both out"
    stages = max((each for each in divisors(plan.pp, plan.dp) if each * plan.vpp <= layers), default=0)
    fitting = [(axis, degree) for axis, degree in (("pp", stages), ("vpp", layers // plan.pp)) if degree]
    fitting = fitting or [(axis, 1) for axis, degree in (("pp", plan.pp), ("vpp", plan.vpp)) if degree > 1]
    hints = "; ".join(f"nearest {axis}: {degree}" for axis, degree in fitting)
    hints += _with_ends(int(layers), model, runtime, int(chunks))
    yield f"{layers} layers do not fill {split} with one each; {hints}"


@invariant
def layers_per_round(plan: Layout, model: Model, runtime: Runtime) -> Ruling:
    """Where the last stages of each round take what is left, vpp divides the layers."""
    layers = model.num_layers
    yield (layers % plan.vpp == 0) | (runtime.pipeline.stage_split != "back")
    yield f"{layers} layers are not divisible by vpp {plan.vpp}; {change('vpp', plan.vpp, divisors(layers))}"


@restriction
def untied_pipeline(plan: Layout, model: Model, runtime: Runtime) -> Ruling:
    """A model that ties its head to the embedding needs pp 1."""
    yield (plan.pp == 1) | (not model.tied_embeddings)
    yield (
        f"{model.name} ties its head to the embedding, and {runtime.id} keeps no copy for the last of pp {plan.pp} "
        "stages; nearest pp: 1"
    )


def _with_ends(counted: int, model: Model, runtime: Runtime, parts: int) -> str:
    """The fewest ends that make the layers divisible when they count as layers, where the runtime has that; counted:
    layers, with the ends that do.
    """
    ends = [
        extra for extra in (1, 2) if (model.num_layers + extra) % parts == 0 and model.num_layers + extra != counted
    ]
    if not ends or True not in runtime.plans.ends_as_layers:
        return ""
    options = "--embedding-as-layer or --head-as-layer" if ends[0] == 1 else "--embedding-as-layer --head-as-layer"
    return f"; or count {'an end' if ends[0] == 1 else 'both ends'} as a layer: {options}"


def _counted_layers(plan: Layout, model: Model) -> Ints:
    """Layers to split over the stages: the embedding and the head count where the plan says so."""
    return model.num_layers + plan.embedding_as_layer * 1 + plan.head_as_layer * 1
