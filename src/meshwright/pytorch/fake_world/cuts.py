"""Cuts: which ranks are trained, with how many micro-batches and layers, and how the whole follows from the parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from meshwright.errors import IllegalPlan
from meshwright.layout.legality import require_legal
from meshwright.layout.microbatches import filling
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.layout.splits import layers_of_chunks
from meshwright.pytorch.processes.observed import Collective, Observed, ObservedMoment, ObservedPeak
from meshwright.pytorch.processes.request import Request
from meshwright.pytorch.scope import Scope
from meshwright.schedules.records import Schedule, blocks
from meshwright.specs.inputs import Inputs

FEWEST, MORE = 2, 4
"""Layers of each kind that a chunk is cut to."""

K = TypeVar("K")

Layers = tuple[int, ...]
"""The kind of every layer of a chunk."""


class Rank(NamedTuple):
    """The requests that tell what one stage's first rank does, and its layers."""

    whole: Request
    cuts: tuple[Request, ...]
    """The first has the fewest layers of each kind, every other one more of one kind; or the whole alone."""


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
    ends = np.cumsum(sizes)
    kinds = [tuple(inputs.model.layer_pattern[end - size : end]) for size, end in zip(sizes, ends, strict=True)]
    held = blocks(plan.schedule, plan.pp, plan.vpp)
    return [_rank(scope, stage, held[:, stage].tolist(), kinds, full) for stage in range(plan.pp)]


def _rank(scope: Scope, stage: int, positions: list[int], kinds: list[Layers], full: bool) -> Rank:
    chunks, plan = tuple(kinds[position] for position in positions), scope.run_plan
    whole = Request(inputs=scope.run_inputs, plan=plan, stage=stage, chunks=chunks, positions=tuple(positions))
    counts = Counter(chunks[0])
    alike = all(Counter(chunk) == counts for chunk in chunks)
    if full or not alike or plan.recompute_layers or any(FEWEST < count < MORE for count in counts.values()):
        return Rank(whole, (whole,))
    fewest = {kind: min(FEWEST, count) for kind, count in counts.items()}
    sizes = [fewest, *(fewest | {kind: MORE} for kind, count in sorted(counts.items()) if count >= MORE)]
    return Rank(whole, tuple(whole.with_chunks(tuple(_cut(chunk, size) for chunk in chunks)) for size in sizes))


def _cut(chunk: Layers, counts: Mapping[int, int]) -> Layers:
    """A chunk's first layers of each kind."""
    seen = dict.fromkeys(counts, 0)
    kept = []
    for kind in chunk:
        seen[kind] += 1
        if seen[kind] <= counts[kind]:
            kept.append(kind)
    return tuple(kept)


def extrapolated(rank: Rank, seen: Sequence[Observed]) -> Observed:
    """What the whole rank does, every quantity linear in the layers of each kind; of gradients that replicas sum all at
    once, their bytes.
    """
    if rank.whole.plan.zero < 2:
        by_bytes = _extrapolated(rank, [replace(each, collectives=_by_bytes(each.collectives)) for each in seen])
        return replace(by_bytes, collectives=_at_once(by_bytes.collectives))
    return _extrapolated(rank, seen)


def _by_bytes(collectives: Mapping[Collective, int]) -> dict[Collective, int]:
    """The bytes of each collective in the place of how often it is issued."""
    return {each._replace(bytes=0): each.bytes * count for each, count in collectives.items()}


def _at_once(collectives: Mapping[Collective, int]) -> dict[Collective, int]:
    return {each._replace(bytes=count): 1 for each, count in collectives.items()}


def _extrapolated(rank: Rank, seen: Sequence[Observed]) -> Observed:
    base, whole = seen[0], rank.whole.chunks[0]
    fewest = rank.cuts[0].chunks[0]
    total = base
    for cut, more in zip(rank.cuts[1:], seen[1:], strict=True):
        kind = next(kind for kind in set(whole) if cut.chunks[0].count(kind) > fewest.count(kind))
        step = cut.chunks[0].count(kind) - fewest.count(kind)
        times = (whole.count(kind) - fewest.count(kind)) / step
        total = _further(total, base, more, times)
    return total


def _further(total: Observed, base: Observed, more: Observed, times: float) -> Observed:
    """total + times (more - base), field by field."""
    moved: dict[str, Any] = {}
    for field in fields(Observed):
        at, start, end = (getattr(each, field.name) for each in (total, base, more))
        if field.name == "peaks":
            moved["peaks"] = _moved_peaks(at, start, end, times)
        elif isinstance(at, Mapping):
            moved[field.name] = _moved(at, start, end, times)
        elif isinstance(at, int):
            moved[field.name] = round(at + times * (end - start))
    return replace(total, **moved)


Peaks = Mapping[str, ObservedPeak]
PeaksOfMoments = Mapping[ObservedMoment, ObservedPeak]


def _moved_peaks(
    at: PeaksOfMoments, start: PeaksOfMoments, end: PeaksOfMoments, times: float
) -> dict[ObservedMoment, ObservedPeak]:
    """The peak of every moment, action by action."""
    moved: dict[ObservedMoment, ObservedPeak] = {}
    for action in dict.fromkeys(moment.action for moment in end):
        before, fewer, more = (_of_action(peaks, action) for peaks in (at, start, end))
        moved |= {
            ObservedMoment(name, action): peak for name, peak in _moved_action(before, fewer, more, times).items()
        }
    return moved


def _of_action(peaks: PeaksOfMoments, action: str) -> dict[str, ObservedPeak]:
    return {moment.name: peak for moment, peak in peaks.items() if moment.action == action}


def _moved_action(at: Peaks, start: Peaks, end: Peaks, times: float) -> dict[str, ObservedPeak]:
    """The peak of every moment of one action. The layer before the last one, which two layers do not have, moves as
    the last does; the first one, whose neighbour two layers do not have, as the embedding does.
    """
    moved = {
        moment: ObservedPeak(_moved(at[moment].parts, start[moment].parts, end[moment].parts, times), end[moment].where)
        for moment in at
    }
    if "first layer" in end and "embedding" in end:
        before, after = start["embedding"].parts, end["embedding"].parts
        more = sum(after.values()) - sum(before.values())
        whole = {**end["first layer"].parts, "further layers": round(more * (times - 1))}
        moved["first layer"] = ObservedPeak(whole, end["first layer"].where)
    if "next layer" in end and "next layer" not in at:
        before, after = start["last layer"].parts, end["last layer"].parts
        parts = _moved(end["next layer"].parts, before, after, times - 1)
        moved["next layer"] = ObservedPeak(parts, end["next layer"].where)
    return moved


def _moved(at: Mapping[K, int], start: Mapping[K, int], end: Mapping[K, int], times: float) -> dict[K, int]:
    keys = {**at, **start, **end}
    return {key: round(at.get(key, 0) + times * (end.get(key, 0) - start.get(key, 0))) for key in keys}
