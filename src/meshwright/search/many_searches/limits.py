"""Limits: the longest sequence, the fewest nodes and the largest micro-batch with a plan that fits safely."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from meshwright.cost.footprint import footprints_of
from meshwright.cost.memory.fit import Verdict
from meshwright.cost.step import estimate_each, estimates_of
from meshwright.errors import InvalidInput, Stopped
from meshwright.layout.legality import check
from meshwright.layout.legality.rule import divisors
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.search import fan_out
from meshwright.search.find import Progress, SearchResult, chunks, find
from meshwright.search.many_searches.constraint_costs import ConstraintCost, constraint_costs
from meshwright.search.many_searches.fewest_nodes import Limit, fewest_inside, limit_of
from meshwright.search.plan_space.space import size
from meshwright.search.ranking.rank import order
from meshwright.search.stop import goes_on
from meshwright.specs.constraints import Constraints
from meshwright.specs.inputs import Inputs

SHORT = 8192
"""Tokens below which a length is looked at in finer steps."""
GRAIN, SHORT_GRAIN = 1024, 128
"""Lengths are looked at in multiples of the first, short ones of the second, tokens."""
MOST_TIMES_THE_TOKENS = 2
"""A batch of more tokens, over those asked for, is tried only where none of fewer is legal."""


@dataclass(frozen=True)
class Limits:
    """How far a question can be taken; None: no plan is safe at any size looked at."""

    asked: SearchResult
    """The question as it was asked, with its best plan if any fits."""
    sequence: Limit | None
    """The longest sequence, a multiple of its `grain`, with about as many tokens in a step."""
    nodes: Limit | None
    """The fewest nodes."""
    micro_batch: Limit | None
    """The largest micro-batch."""
    constraint_costs: tuple[ConstraintCost, ...]
    """Of the question as it was asked."""
    complete: bool = True
    """Whether no search was stopped: else limits may be further out, or were not looked for."""


def limits(inputs: Inputs, progress: Progress | None = None, executor: Executor | None = None) -> Limits:
    """The limits of a question, each found by pricing the questions around it with `find`.

    progress, executor: as in `fan_out.answers`; stopped, the limits found so far are the answer. Raises as `find` does
    for the question as asked.
    """
    parts = fan_out.answers(partial(_part, inputs), [*PARTS], executor, progress)
    (asked, costs), sequence, nodes, micro_batch = (part.value for part in parts)
    return Limits(
        asked=asked,
        sequence=sequence,
        nodes=nodes,
        micro_batch=micro_batch,
        constraint_costs=costs,
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


def longer_and_longer(inputs: Inputs, progress: Progress | None = None) -> Iterator[Limit]:
    """Sequences with a plan that fits safely, each longer than the one before: doublings or halvings, then bisection.

    They start where about one sequence is the whole step, near which most limits lie. The batch is the whole number of
    sequences nearest to the asked tokens in a step, or where no plan is safe or legal with that the nearest that more
    data-parallel ranks divide. progress: told as by `find`.
    """

    def priced(length: int) -> Limit | None:
        return _at_length(inputs, length, progress)

    low = GRAIN << max(inputs.job.tokens_per_step // GRAIN, 1).bit_length() - 1
    longest = priced(low)
    while longest:
        yield longest
        longer = priced(2 * low)
        if not longer:
            break
        low, longest = 2 * low, longer
    while longest is None and low > SHORT_GRAIN:
        low //= 2
        longest = priced(low)
        if longest:
            yield longest
    high = 2 * low
    while longest and high - low > grain(low):
        middle = (low + high) // 2
        limit = priced(middle)
        low, high = (middle, high) if limit else (low, middle)
        if limit:
            yield limit


def grain(length: int) -> int:
    """The step in which lengths are looked at, tokens. length: tokens, from which on.

    >>> grain(1024), grain(8192)
    (128, 1024)
    """
    return SHORT_GRAIN if length < SHORT else GRAIN


def largest_micro_batch(inputs: Inputs, progress: Progress | None = None) -> Limit | None:
    """The largest micro-batch of the plans that fit safely, with the fastest of those plans; of plans that keep tensor
    parallelism within a scale-up domain, unless none of these is safe.

    Unless the question names micro-batches, every divisor of the global batch is tried, also beyond the tokens at which
    a search for the best plan stops. progress: told as by `find`.
    """
    domain = inputs.cluster.levels[0].size
    return _of_largest_micro_batch(inputs, progress, domain) or _of_largest_micro_batch(inputs, progress)


def _of_largest_micro_batch(inputs: Inputs, progress: Progress | None, most_tp: int | None = None) -> Limit | None:
    """The same of the plans of no larger tp. most_tp: None: of any."""
    largest: list[Plan] = []
    for chunk in _told(of_any_micro_batch(inputs), progress):
        most = max((plan.micro_batch for plan in largest), default=1)
        plans = chunk.take((chunk.micro_batch >= most) & (chunk.tp <= (most_tp or inputs.cluster.num_gpus)))
        if not len(plans):
            continue
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


def of_any_micro_batch(inputs: Inputs) -> Inputs:
    """The question with every divisor of its global batch as a micro-batch; as it is where it names some."""
    given = inputs.constraints.given
    every = {"micro_batch": tuple(divisors(inputs.job.global_batch))}
    return inputs.replace(constraints=Constraints(**every | given))


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
            limit = limit_of(inputs.replace(job=job), progress)
        except InvalidInput:
            continue
        legal = True
        if limit:
            return limit
    return None


PARTS: dict[str, Callable[[Inputs, Progress | None], Iterator[Any]]] = {
    "asked": _asked,
    "sequence": longer_and_longer,
    "nodes": lambda inputs, progress: iter([fewest_inside(inputs, progress)]),
    "micro_batch": lambda inputs, progress: iter([largest_micro_batch(inputs, progress)]),
}
"""What is looked for on its own: every value better than the one before."""
