"""Cuts: which ranks are trained, with how many micro-batches and layers, and how the whole follows from the parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from meshwright.errors import IllegalPlan
from meshwright.layout.legality import require_legal
from meshwright.layout.microbatches import filling
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.layout.splits import layers_of_chunks
from meshwright.pytorch.processes.records import Observed, ObservedMoment, ObservedPeak, Request, recounted
from meshwright.pytorch.scope import Scope
from meshwright.schedules.records import Schedule, blocks
from meshwright.specs.inputs import Inputs

FEWEST, MORE = 2, 4
"""Layers of each kind that a chunk is cut to."""

K = TypeVar("K")

Layers = tuple[int, ...]
"""The kind of every layer of a chunk."""


class Rank(NamedTuple):
    """The requests that tell what one stage's first rank does."""

    whole: Request
    fewest: Request
    """With the fewest layers of each kind a chunk; or the whole."""
    longer: Mapping[int, Request]
    """With `MORE` layers of one kind, by that kind; none where the whole is run."""

    @property
    def requests(self) -> tuple[Request, ...]:
        """What is run of it."""
        return self.fewest, *self.longer.values()


def fewer_micro_batches(plan: Plan, inputs: Inputs) -> tuple[Plan, Inputs]:
    """The plan with no more micro-batches than show all that a stage does: two; of 1F1B one more than it keeps; of
    other pipelines those that fill them.
    """
    enough = 2 if plan.pp == 1 else int(filling(Plans.of([plan])).num_microbatches[0])
    enough = plan.pp + 1 if plan.pp > 1 and plan.schedule == Schedule.ONE_F_ONE_B else enough
    for count in range(min(enough, plan.num_microbatches), plan.num_microbatches):
        fewer = replace(plan, num_microbatches=count)
        job = inputs.job.replace(global_batch=plan.dp * plan.micro_batch * count)
        asked = inputs.replace(job=job)
        try:
            require_legal(fewer, asked)
        except IllegalPlan:
            continue
        return fewer, asked
    return plan, inputs


def ranks(scope: Scope, *, full: bool) -> list[Rank]:
    """One rank of every stage, cut to two and four layers of each kind a chunk unless all are asked for."""
    plan, inputs = scope.plan, scope.inputs
    sizes = layers_of_chunks(inputs, plan)
    firsts = (np.cumsum(sizes) - sizes).tolist()
    kinds = [tuple(inputs.model.layer_pattern[first : first + size]) for first, size in zip(firsts, sizes, strict=True)]
    every = blocks(plan.schedule, plan.pp, plan.vpp)
    return [
        _rank(
            Request(
                inputs=scope.run_inputs,
                plan=scope.run_plan,
                stage=stage,
                chunks=tuple(kinds[position] for position in positions),
                positions=tuple(positions),
                first_layers=tuple(firsts[position] for position in positions),
                framework=scope.framework,
            ),
            full,
        )
        for stage, positions in enumerate(every.T.tolist())
    ]


def _rank(whole: Request, full: bool) -> Rank:
    chunks, plan = whole.chunks, whole.plan
    counts = Counter(chunks[0])
    alike = all(Counter(chunk) == counts for chunk in chunks)
    if full or not alike or plan.recompute_layers or any(FEWEST < count < MORE for count in counts.values()):
        return Rank(whole, whole, {})
    fewest = {kind: min(FEWEST, count) for kind, count in counts.items()}
    longer = {kind: _cut(whole, fewest | {kind: MORE}) for kind, count in sorted(counts.items()) if count >= MORE}
    return Rank(whole, _cut(whole, fewest) if longer else whole, longer)


def _cut(whole: Request, counts: Mapping[int, int]) -> Request:
    """The request with the first layers of each kind of every chunk, so many of a kind."""
    return replace(whole, chunks=tuple(_first_layers(chunk, counts) for chunk in whole.chunks))


def _first_layers(chunk: Layers, counts: Mapping[int, int]) -> Layers:
    return tuple(kind for index, kind in enumerate(chunk) if chunk[:index].count(kind) < counts[kind])


def extrapolated(rank: Rank, observed: Sequence[Observed]) -> Observed:
    """What the whole rank does, every quantity linear in the layers of each kind; of gradients that replicas sum all at
    once, their bytes.

    observed: what was seen of each of the rank's requests.
    """
    if rank.whole.plan.zero < 2:
        whole = _extrapolated(rank, [_in_bytes(each) for each in observed])
        return replace(whole, collectives={each._replace(bytes=size): 1 for each, size in whole.collectives.items()})
    return _extrapolated(rank, observed)


def _in_bytes(observed: Observed) -> Observed:
    """With the bytes of all collectives of a kind in the place of how often they are issued."""
    sizes = {each: each.bytes * count for each, count in observed.collectives.items()}
    return replace(observed, collectives=recounted(sizes, lambda each: each._replace(bytes=0)))


def _extrapolated(rank: Rank, observed: Sequence[Observed]) -> Observed:
    fewest, whole = observed[0], rank.whole.chunks[0]
    total = fewest
    for kind, longer in zip(rank.longer, observed[1:], strict=True):
        total = _further(total, fewest, longer, (whole.count(kind) - FEWEST) / (MORE - FEWEST))
    return total


def _further(total: Observed, base: Observed, more: Observed, times: float) -> Observed:
    """total + times (more - base), field by field."""
    peaks: dict[ObservedMoment, ObservedPeak] = {}
    for action in dict.fromkeys(moment.action for moment in more.peaks):
        known, fewer, longer = (_of_action(each.peaks, action) for each in (total, base, more))
        of_action = _peaks_of_action(known, fewer, longer, times)
        peaks |= {ObservedMoment(name, action): peak for name, peak in of_action.items()}
    sizes: dict[str, Any] = _linear(_sizes(total), _sizes(base), _sizes(more), times)
    collectives = _linear(total.collectives, base.collectives, more.collectives, times)
    return replace(total, peaks=peaks, collectives=collectives, **sizes)


def _sizes(observed: Observed) -> dict[str, int]:
    """The fields that are one number."""
    return {name: value for name, value in vars(observed).items() if isinstance(value, int)}


Peaks = Mapping[str, ObservedPeak]
"""By the name of their moment."""


def _of_action(peaks: Mapping[ObservedMoment, ObservedPeak], action: str) -> dict[str, ObservedPeak]:
    return {moment.name: peak for moment, peak in peaks.items() if moment.action == action}


def _peaks_of_action(total: Peaks, base: Peaks, more: Peaks, times: float) -> dict[str, ObservedPeak]:
    """The peak of every moment of one action. The layer before the last one, which two layers do not have, grows as
    the last does; the first one, whose neighbour two layers do not have, as the embedding does.
    """
    peaks = {
        name: ObservedPeak(_linear(total[name].parts, base[name].parts, more[name].parts, times), more[name].where)
        for name in total
    }
    if "first layer" in more and "embedding" in more:
        growth = more["embedding"].total - base["embedding"].total
        whole = {**more["first layer"].parts, "further layers": round(growth * (times - 1))}
        peaks["first layer"] = ObservedPeak(whole, more["first layer"].where)
    if "next layer" in more and "next layer" not in total:
        before, after = base["last layer"].parts, more["last layer"].parts
        parts = _linear(more["next layer"].parts, before, after, times - 1)
        peaks["next layer"] = ObservedPeak(parts, more["next layer"].where)
    return peaks


def _linear(total: Mapping[K, int], base: Mapping[K, int], more: Mapping[K, int], times: float) -> dict[K, int]:
    """total + times (more - base), key by key."""
    keys = {**total, **base, **more}
    return {key: round(total.get(key, 0) + times * (more.get(key, 0) - base.get(key, 0))) for key in keys}
