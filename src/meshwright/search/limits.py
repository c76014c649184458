"""Limits: the longest sequence, the fewest nodes and the largest micro-batch with a plan that fits safely."""

from __future__ import annotations

import time
from dataclasses import dataclass

from meshwright.cost.footprint import footprints_of
from meshwright.cost.memory.fit import Verdict
from meshwright.cost.step import estimate_each, estimate_plans
from meshwright.errors import InvalidInput
from meshwright.layout.legality import check
from meshwright.layout.legality.rule import divisors
from meshwright.layout.plan import Plan
from meshwright.search.fewest import Limit, fewest_nodes
from meshwright.search.find import Progress, SearchResult, chunks, find
from meshwright.search.rank import order
from meshwright.specs.inputs import Inputs

GRAIN = 1024
"""Lengths are looked at in multiples of this, tokens."""
MOST_TIMES_THE_TOKENS = 2
"""A batch of more tokens, over those asked for, is tried only where none of fewer is legal."""


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
    elapsed_s: float


def limits(inputs: Inputs, progress: Progress | None = None) -> Limits:
    """The limits of a question, each found by pricing the questions around it with `find`.

    progress: told as by `find`, anew for each search. Raises as `find` does for the question as asked.
    """
    started = time.perf_counter()
    asked = find(inputs, top=1, progress=progress)
    return Limits(
        asked=asked,
        sequence=longest_sequence(inputs, progress),
        nodes=fewest_nodes(inputs, progress=progress),
        micro_batch=largest_micro_batch(inputs),
        elapsed_s=time.perf_counter() - started,
    )


def longest_sequence(inputs: Inputs, progress: Progress | None = None) -> Limit | None:
    """The longest sequence with a plan that fits safely: doublings or halvings, then bisection.

    They start where about one sequence is the whole step, near which most limits lie. The batch is the whole number of
    sequences nearest to the asked tokens in a step, or where no plan is safe or legal with that the nearest that more
    data-parallel ranks divide. progress: told as by `find`.
    """

    def priced(units: int) -> Limit | None:
        return _at_length(inputs, units * GRAIN, progress)

    low = 1 << max(inputs.job.tokens_per_step // GRAIN, 1).bit_length() - 1
    longest = priced(low)
    while longest and (longer := priced(2 * low)):
        low, longest = 2 * low, longer
    while longest is None and low > 1:
        low //= 2
        longest = priced(low)
    high = 2 * low
    while longest and high - low > 1:
        middle = (low + high) // 2
        limit = priced(middle)
        low, high, longest = (middle, high, limit) if limit else (low, middle, longest)
    return longest


def largest_micro_batch(inputs: Inputs) -> Limit | None:
    """The largest micro-batch of the plans that fit safely, with the fastest of those plans."""
    largest: list[Plan] = []
    for chunk in chunks(inputs):
        most = max((plan.micro_batch for plan in largest), default=1)
        plans = chunk.take(chunk.micro_batch >= most)
        legal = plans.take(check(plans, inputs).legal)
        if not len(legal):
            continue
        safe = legal.take(footprints_of(legal, inputs).verdict == Verdict.SAFE)
        if len(safe):
            ranked = order(estimate_plans(safe, inputs))
            largest.append(safe[int(ranked[safe.micro_batch[ranked].argmax()])])
    priced = estimate_each(largest, inputs) if largest else ()
    best = max(priced, key=lambda estimate: (estimate.plan.micro_batch, -estimate.step_time_s), default=None)
    return Limit(inputs, best) if best else None


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
            answer = find(inputs.replace(job=job), top=1, progress=progress)
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
