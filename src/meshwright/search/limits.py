"""Limits: the longest sequence, the fewest nodes and the largest micro-batch with a plan that fits safely."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from meshwright.cost.estimate import Estimate
from meshwright.cost.flops import model_flops_per_step
from meshwright.cost.footprint import footprints_of
from meshwright.cost.memory.fit import Verdict
from meshwright.cost.step import estimate_each, estimates_of
from meshwright.errors import InvalidInput, Stopped
from meshwright.layout.legality import check
from meshwright.layout.legality.rule import divisors
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.search import fan_out
from meshwright.search.constraint_costs import ConstraintCost, constraint_costs
from meshwright.search.find import Progress, SearchResult, chunks, find
from meshwright.search.least_states import least_nodes
from meshwright.search.rank import order
from meshwright.search.space import size
from meshwright.search.stop import goes_on
from meshwright.specs.inputs import Inputs
from meshwright.specs.scale import with_nodes

GRAIN = 1024
"""Lengths are looked at in multiples of this, tokens."""
MOST_TIMES_THE_TOKENS = 2
"""A batch of more tokens, over those asked for, is tried only where none of fewer is legal."""
MOST_TIMES_THE_NODES = 32
EVERY_ONE = 8
"""Between two numbers of nodes that are no further apart, every one is tried: which are legal follows no order."""


@dataclass(frozen=True)
class Limit:
    """The fastest plan that fits safely at a limit."""

    inputs: Inputs
    """The question at the limit: as asked, but for its length and batch or its nodes."""
    estimate: Estimate


@dataclass(frozen=True)
class Limits:
    """How far a question can be taken; None: no plan is safe at any size looked at."""

    asked: SearchResult
    """The question as it was asked, with its best plan if any fits."""
    sequence: Limit | None
    """The longest sequence, a multiple of `GRAIN` tokens, with about as many tokens in a step."""
    nodes: Limit | None
    """The fewest nodes."""
    micro_batch: Limit | None
    """The largest micro-batch."""
    constraint_costs: tuple[ConstraintCost, ...]
    """Of the question as it was asked."""
    elapsed_s: float
    complete: bool = True
    """Whether no search was stopped: else limits may be further out, or were not looked for."""


def limits(inputs: Inputs, progress: Progress | None = None, executor: Executor | None = None) -> Limits:
    """The limits of a question, each found by pricing the questions around it with `find`.

    progress, executor: as in `fan_out.answers`; stopped, the limits found so far are the answer. Raises as `find` does
    for the question as asked.
    """
    started = time.perf_counter()
    parts = fan_out.answers(partial(_part, inputs), [*PARTS], executor, progress)
    (asked, costs), sequence, nodes, micro_batch = (part.value for part in parts)
    return Limits(
        asked=asked,
        sequence=sequence,
        nodes=nodes,
        micro_batch=micro_batch,
        constraint_costs=costs,
        elapsed_s=time.perf_counter() - started,
        complete=asked.complete and all(part.complete for part in parts),
    )


class _Part(NamedTuple):
    """One of `PARTS`."""

    value: Any
    """The last that was found, None where nothing was."""
    complete: bool


def _part(inputs: Inputs, name: str, progress: Progress | None) -> _Part:
    known = None
    try:
        for each in PARTS[name](inputs, progress):
            known = each
    except Stopped:
        if name == "asked" and known is None:
            raise
        return _Part(known, complete=False)
    return _Part(known, complete=True)


def _asked(inputs: Inputs, progress: Progress | None) -> Iterator[tuple[SearchResult, tuple[ConstraintCost, ...]]]:
    """The answer to the question as asked; then with what its constraints cost."""
    answer = find(inputs, top=1, progress=progress)
    yield answer, ()
    if answer.complete and answer.best:
        yield answer, constraint_costs(answer, progress)


def _found(inputs: Inputs, progress: Progress | None) -> SearchResult:
    """The answer of a whole search; raises `Stopped` where it is stopped."""
    answer = find(inputs, top=1, progress=progress)
    if not answer.complete:
        raise Stopped("the search is not complete")
    return answer


def longest_sequence(inputs: Inputs, progress: Progress | None = None) -> Limit | None:
    """The last of `longer_and_longer`; None where no length is safe."""
    return next(reversed([None, *longer_and_longer(inputs, progress)]))


def longer_and_longer(inputs: Inputs, progress: Progress | None = None) -> Iterator[Limit]:
    """Sequences with a plan that fits safely, each longer than the one before: doublings or halvings, then bisection.

    They start where about one sequence is the whole step, near which most limits lie. The batch is the whole number of
    sequences nearest to the asked tokens in a step, or where no plan is safe or legal with that the nearest that more
    data-parallel ranks divide. progress: told as by `find`.
    """

    def priced(units: int) -> Limit | None:
        return _at_length(inputs, units * GRAIN, progress)

    low = 1 << max(inputs.job.tokens_per_step // GRAIN, 1).bit_length() - 1
    longest = priced(low)
    while longest:
        yield longest
        longer = priced(2 * low)
        if not longer:
            break
        low, longest = 2 * low, longer
    while longest is None and low > 1:
        low //= 2
        longest = priced(low)
        if longest:
            yield longest
    high = 2 * low
    while longest and high - low > 1:
        middle = (low + high) // 2
        limit = priced(middle)
        low, high = (middle, high) if limit else (low, middle)
        if limit:
            yield limit


def largest_micro_batch(inputs: Inputs, progress: Progress | None = None) -> Limit | None:
    """The largest micro-batch of the plans that fit safely, with the fastest of those plans.

    progress: told as by `find`.
    """
    largest: list[Plan] = []
    for chunk in _told(inputs, progress):
        most = max((plan.micro_batch for plan in largest), default=1)
        plans = chunk.take(chunk.micro_batch >= most)
        legal = plans.take(check(plans, inputs).legal)
        if not len(legal):
            continue
        memory = footprints_of(legal, inputs)
        safe = memory.take(memory.verdict == Verdict.SAFE)
        if len(safe):
            ranked = order(estimates_of(safe))
            largest.append(safe.plans[int(ranked[safe.plans.micro_batch[ranked].argmax()])])
    priced = estimate_each(largest, inputs) if largest else ()
    best = max(priced, key=lambda estimate: (estimate.plan.micro_batch, -estimate.step_time_s), default=None)
    return Limit(inputs, best) if best else None


def _told(inputs: Inputs, progress: Progress | None) -> Iterator[Plans]:
    """The plans of a question, in tables; raises `Stopped` where progress ends it."""
    done, total = 0, size(inputs)
    for chunk in chain([Plans.of([])], chunks(inputs)):
        done += len(chunk)
        if len(chunk):
            yield chunk
        if not goes_on(progress, done, total):
            raise Stopped("the search is not complete")


def _at_length(inputs: Inputs, length: int, progress: Progress | None) -> Limit | None:
    """The fastest safe plan at a sequence length, with the first batch that has one."""
    world = inputs.cluster.num_gpus
    near = max(round(inputs.job.tokens_per_step / length), 1)
    wide = max(count for count in divisors(world) if count <= near)
    legal = False
    for batch in dict.fromkeys((near, round(near / wide) * wide, max(round(near / world), 1) * world)):
        if legal and batch > MOST_TIMES_THE_TOKENS * near:
            break
        try:
            job = inputs.job.replace(sequence_length=length, global_batch=batch)
            answer = _found(inputs.replace(job=job), progress)
        except InvalidInput:
            continue
        legal = True
        if limit := _safe(answer):
            return limit
    return None


def _safe(answer: SearchResult) -> Limit | None:
    """The fastest plan of an answer if it is safe."""
    safe = answer.best[:1] and answer.best[0].verdict == Verdict.SAFE
    return Limit(answer.inputs, answer.best[0]) if safe else None


def fewest_nodes(
    inputs: Inputs,
    within_s: float = math.inf,
    first: int = 1,
    progress: Progress | None = None,
) -> Limit | None:
    """The fewest nodes, from `first` on, whose best plan is safe and makes a step in time.

    Numbers on which not even the states fit, or on which the dense peak itself is too slow, are passed over; then
    doublings, bisection, at last one by one, among them the numbers of which the ranks share most with the global
    batch, which stays: data parallelism takes no others. Which numbers are legal follows no order, so that fewer
    between two that were tried may now and then do as well; one node fewer does not.
    within_s: seconds that a step may take; progress: told as by `find`. Returns None where 32 times the asked nodes are
    too few, and all that was tried before.
    """

    def priced(nodes: int) -> Limit | None:
        try:
            there = inputs.replace(cluster=with_nodes(inputs.cluster, nodes)) if nodes != asked else inputs
            limit = _safe(_found(there, progress)) if _least_step_s(there) <= within_s else None
        except InvalidInput:
            return None
        return limit if limit and limit.estimate.step_time_s <= within_s else None

    asked = inputs.cluster.num_nodes
    enough = least_nodes(inputs, MOST_TIMES_THE_NODES * asked)
    if enough is None:
        return None
    first = max(first, enough)
    low, high, fewest = first - 1, first, priced(first)
    for nodes in _more(inputs, first):
        if fewest is None:
            low, high, fewest = high, nodes, priced(nodes)
    while fewest and high - low > EVERY_ONE:
        middle, quarter = (low + high) // 2, (high - low) // 4
        middle = _roundest(inputs, range(low + quarter, high - quarter), middle)
        limit = priced(middle)
        low, high, fewest = (low, middle, limit) if limit else (middle, high, fewest)
    return next(filter(None, map(priced, range(low + 1, high))), fewest) if fewest else None


def _least_step_s(inputs: Inputs) -> float:
    """Seconds of a step at the dense peak, which no plan undercuts; 0 where experts leave out tokens."""
    if inputs.expert_capacity is not None:
        return 0.0
    return model_flops_per_step(inputs) / (inputs.peak_flops * inputs.cluster.num_gpus)


def _more(inputs: Inputs, first: int) -> Iterator[int]:
    """More nodes, up to 32 times as many as asked: every doubling, and before it the roundest number below."""
    nodes, most = first, MOST_TIMES_THE_NODES * inputs.cluster.num_nodes
    while nodes < most:
        end = min(2 * nodes, most)
        yield from sorted({_roundest(inputs, range(nodes + 1, end + 1), end), end})
        nodes = end


def _roundest(inputs: Inputs, numbers: range, aim: int) -> int:
    """Of some numbers of nodes, that whose ranks share most with the global batch, of equals the nearest to an aim."""
    ranks, batch = inputs.cluster.gpus_per_node, inputs.job.global_batch
    return max(numbers, key=lambda nodes: (math.gcd(nodes * ranks, batch), -abs(nodes - aim)))


PARTS: dict[str, Callable[[Inputs, Progress | None], Iterator[Any]]] = {
    "asked": _asked,
    "sequence": longer_and_longer,
    "nodes": lambda inputs, progress: iter([fewest_nodes(inputs, progress=progress)]),
    "micro_batch": lambda inputs, progress: iter([largest_micro_batch(inputs, progress)]),
}
"""What is looked for on its own: every value better than the one before."""
