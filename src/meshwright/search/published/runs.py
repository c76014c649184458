"""Published: which kinds of plans a published run has, how large, and which plans were run for the same model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel

from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.search.published.extents import DEGREES, Extent, extent_for, generation, joined_extents
from meshwright.search.published.kinds import kinds
from meshwright.search.published.options import options_of
from meshwright.specs import catalog
from meshwright.specs.base import Spec
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.residuals import BITS
from meshwright.specs.weights import parameters_by_part

LAYOUT = ("tp", "sp", "cp", "pp", "vpp", "ep", "etp", "zero", "micro_batch")
"""What a published run's plan is known by; the rest (recomputation, how stages are cut) follows the memory."""
AS_FAST = 0.02
"""Of a step time, by which a run is no slower than another: what a run of one job repeated differs by; assumed."""
_Key = tuple[str, str, str, int, bool, int]
"""Model, family of runtimes, accelerator, how many, whether weights are frozen, bits."""
_Job = tuple[_Key, int, int]
"""A question's key, sequence length and global batch."""


class HeldMemory(NamedTuple):
    """What the fullest rank of a run held."""

    kind: str
    """Allocated, reserved or device memory."""
    gib: float
    """As it was measured."""
    predicted_gib: float
    """With its own settings."""


class Layout(BaseModel, frozen=True, extra="forbid"):
    """How a published run of a model was split; there are hundreds, so that it is no `Spec`, which takes longer."""

    model: str
    """As `model_key` says it."""
    model_name: str
    """As the run called it: models of other names may be as large."""
    family: str
    """Of its runtime."""
    accelerator: str
    accelerators: int
    freezes_weights: bool
    """Adapters beside frozen weights were trained, which need other memory than all weights."""
    bits: int
    """Of the operands of its products."""
    sequence_length: int
    global_batch: int
    beaten: bool
    """Another layout was measured to be faster in another job of the same model on as many accelerators, or took less a
    sequence with batches no larger, which leave more of a step to its ends."""
    degrees: tuple[int, ...]
    """Of `LAYOUT`."""
    recomputes_all: bool
    """The fastest of its job that was split so recomputed whole layers."""
    spells_chunks: bool
    """And named the layers of every chunk."""
    run: str
    """The fastest of its job that was split so, by the name of its row or recipe."""
    step_time_s: float | None
    """That it was measured to take; None where no time is printed."""
    predicted_s: float | None
    """That is predicted for it with its own settings, under constants fitted to all runs; None as well."""
    memory: HeldMemory | None
    """What it held; None where that is not printed."""
    plan: str
    """Its plan, by name."""
    options: tuple[str, ...]
    """What it had beside model, cluster, length and batch, as `options_of` says it."""


class PublishedRun(NamedTuple):
    """A plan that was run, and what it was measured to take."""

    plan: Plan
    inputs: Inputs
    step_time_s: float | None
    """None where no time is printed."""
    name: str = ""
    """Of its row or recipe."""
    predicted_s: float | None = None
    """What is predicted for it; None where that was not asked."""
    memory: HeldMemory | None = None
    """None where it is not printed."""


class PublishedPlans(Spec):
    """What the plans of published runs were like."""

    generations: dict[int, Extent]
    """By generation of accelerators."""
    layouts: tuple[Layout, ...]
    """Of every job those that were measured to be the fastest, and those of which no time is printed."""

    @cached_property
    def layouts_by_question(self) -> Mapping[tuple[str, str, str, int, bool, int], list[Layout]]:
        """By all of a question's key but the bits, and by sequence length."""
        known = defaultdict[tuple[str, str, str, int, bool, int], list[Layout]](list)
        for each in self.layouts:
            cluster = each.accelerator, each.accelerators
            known[each.model, each.family, *cluster, each.freezes_weights, each.sequence_length].append(each)
        return known


@cache
def published_plans() -> PublishedPlans:
    """Of all published runs that are represented."""
    return PublishedPlans(**catalog.written_table("published_plans"))


def published_plans_of(runs: Iterable[PublishedRun]) -> PublishedPlans:
    """What the plans of published runs are like."""
    runs = tuple(runs)
    jobs = _by_job(runs)
    fastest = {job: _by_degrees(_fastest(of_job)) for job, of_job in jobs.items()}
    every = ((job, degrees_of(run.plan)) for job, of_job in jobs.items() for run in of_job)
    beaten = {(job[0], degrees) for job, degrees in every if degrees not in fastest[job]} | _beaten_a_sequence(fastest)
    layouts = {
        (key[0], run.inputs.model.name, *key[1:], length, batch, (key, degrees) in beaten, degrees, *_told(run))
        for (key, length, batch), of_job in fastest.items()
        for degrees, run in of_job.items()
    }
    known = [dict(zip(Layout.model_fields, layout, strict=True)) for layout in sorted(layouts, key=str)]
    return PublishedPlans(generations=extents_of(runs), layouts=tuple(Layout(**each) for each in known))


def _beaten_a_sequence(
    fastest: Mapping[_Job, Mapping[tuple[int, ...], PublishedRun]],
) -> set[tuple[_Key, tuple[int, ...]]]:
    """Layouts of which no run took as little a sequence as one of another layout with a batch no larger than theirs."""
    paces = defaultdict[tuple[_Key, int], dict[tuple[int, ...], list[tuple[int, float]]]](lambda: defaultdict(list))
    for (key, length, batch), of_job in fastest.items():
        for degrees, run in of_job.items():
            if run.step_time_s:
                paces[key, length][degrees].append((batch, run.step_time_s / batch))
    return {
        (key, degrees)
        for (key, _), of_layout in paces.items()
        for degrees, own in of_layout.items()
        for other, others in of_layout.items()
        if other != degrees
        and any(batch <= min(own)[0] and pace * (1 + AS_FAST) < min(each for _, each in own) for batch, pace in others)
    }


def _by_job(runs: Iterable[PublishedRun]) -> Mapping[_Job, list[PublishedRun]]:
    jobs = defaultdict[_Job, list[PublishedRun]](list)
    for run in runs:
        job = run.inputs.job
        jobs[question_key(run.inputs), job.sequence_length, job.global_batch].append(run)
    return jobs


def _told(run: PublishedRun) -> tuple[Any, ...]:
    """The fields of a layout that are its run's own."""
    recomputes_all, spells_chunks = run.plan.recompute == Recompute.FULL, bool(run.plan.chunk_layers)
    printed = run.name, run.step_time_s, run.predicted_s, run.memory, str(run.plan), options_of(run.inputs)
    return (recomputes_all, spells_chunks, *printed)


def extents_of(runs: Iterable[PublishedRun]) -> dict[int, Extent]:
    """How far the plans of runs go, by generation of accelerators."""
    jobs = ((of_job, _least_s(of_job)) for of_job in _by_job(runs).values())
    parts = ((run, _is_as_fast(run, least)) for of_job, least in jobs for run in of_job)
    extents = joined_extents({generation(run.inputs): _extent_of(run, unbeaten)} for run, unbeaten in parts)
    return dict(sorted(extents.items()))


def _extent_of(run: PublishedRun, unbeaten: bool) -> Extent:
    of_kinds = kinds(Plans.of([run.plan]), run.inputs).items()
    accelerators = {name: run.plan.num_gpus * is_of.item() for name, is_of in of_kinds}
    return Extent(
        degrees={name: getattr(run.plan, name) for name in DEGREES},
        accelerators=accelerators,
        unbeaten={name: many * unbeaten for name, many in accelerators.items()},
        most_accelerators=run.plan.num_gpus,
    )


@cache
def extent(number: int) -> Extent:
    """How far published runs go that speak for accelerators of a generation; number: as `generation` gives it."""
    return extent_for(number, published_plans().generations)


def _fastest(runs: Sequence[PublishedRun]) -> list[PublishedRun]:
    """Of the runs of one job those that none was measured to beat."""
    least = _least_s(runs)
    return [run for run in runs if _is_as_fast(run, least)]


def _least_s(runs: Sequence[PublishedRun]) -> float:
    return min((run.step_time_s for run in runs if run.step_time_s), default=0.0)


def _is_as_fast(run: PublishedRun, least_s: float) -> bool:
    return not run.step_time_s or run.step_time_s <= least_s * (1 + AS_FAST)


def _by_degrees(runs: Sequence[PublishedRun]) -> dict[tuple[int, ...], PublishedRun]:
    """The fastest run of each layout; one whose time is printed, where there is one."""
    fastest_last = sorted(runs, key=lambda run: run.step_time_s or np.inf, reverse=True)
    return {degrees_of(run.plan): run for run in fastest_last}


def model_key(inputs: Inputs) -> str:
    """What one model has in common with itself under other names: layers, billions of parameters and experts."""
    model = inputs.model
    experts = max((each.count for each in model.mixtures), default=0)
    parameters = round(sum(parameters_by_part(model).values()), -9)
    return f"{model.num_layers} layers, {parameters} parameters, {experts} experts"


def degrees_of(plan: Plan) -> tuple[int, ...]:
    """Of `LAYOUT`."""
    return tuple(int(getattr(plan, name)) for name in LAYOUT)


def question_key(inputs: Inputs) -> _Key:
    """What a question has in common with a layout, but for its sequences and its batch."""
    cluster, bits = inputs.cluster, BITS[inputs.recipe.number_format]
    job = model_key(inputs), inputs.runtime.family, cluster.accelerator.id, cluster.num_gpus
    return (*job, inputs.freezes_weights, bits)
