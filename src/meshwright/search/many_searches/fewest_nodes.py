"""Fewest nodes: on how few a question has a plan that fits safely, and makes a step in time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial

from meshwright.cost.estimate import Estimate
from meshwright.cost.flops import model_flops_per_step
from meshwright.errors import InvalidInput
from meshwright.search.fits.least_states import least_nodes
from meshwright.search.safe import safe_plan
from meshwright.search.stop import Progress
from meshwright.specs.inputs import Inputs
from meshwright.specs.scale import with_nodes

MOST_TIMES_THE_NODES = 32
EVERY_ONE = 8
"""Between two numbers of nodes that are no further apart, every one is tried: which are legal follows no order."""
FEW_NODES, STEPS = 8, 8
"""Up to twice so many nodes each number is a round one; beyond, so many of every doubling."""


@dataclass(frozen=True)
class Limit:
    """The fastest plan that fits safely at a limit."""

    inputs: Inputs
    """The question at the limit: as asked, but for its length and batch or its nodes."""
    estimate: Estimate


def limit_of(inputs: Inputs, progress: Progress | None) -> Limit | None:
    """The plan that a search of a question recommends, where it is safe; raises as `safe_plan` does."""
    best = safe_plan(inputs, progress)
    return Limit(inputs, best) if best else None


def step_time_s(limit: Limit) -> float:
    """Seconds of a step, as predicted."""
    return limit.estimate.step_time_s


def fewest_nodes(
    inputs: Inputs,
    within_s: float = math.inf,
    first: int = 1,
    progress: Progress | None = None,
    seconds: Callable[[Limit], float] = step_time_s,
    at: Callable[[int], Limit | None] | None = None,
) -> Limit | None:
    """The fewest nodes, from `first` on, whose best plan is safe and makes a step in time.

    Numbers on which not even the states fit, or on which the dense peak itself is too slow, are passed over; then
    doublings, bisection, at last one by one, among them the numbers of which the ranks share most with the global
    batch, which stays: data parallelism takes no others. Which numbers are legal follows no order, so that fewer
    between two that were tried may now and then do as well; one node fewer does not.
    within_s: seconds that a step may take; progress: told as by `find`; seconds: what a step takes; at: `safe_at` of a
    number of nodes, for those who ask for more of them; None: that alone. Returns None where 32 times the asked nodes
    are too few, and all that was tried before.
    """

    known = at or partial(safe_at, inputs, progress=progress)

    def priced(nodes: int) -> Limit | None:
        limit = known(nodes) if _least_step_s(inputs, nodes) <= within_s else None
        return limit if limit and seconds(limit) <= within_s else None

    enough = least_nodes(inputs, MOST_TIMES_THE_NODES * inputs.cluster.num_nodes)
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


def fewest_inside(
    inputs: Inputs, progress: Progress | None = None, at: Callable[[int], Limit | None] | None = None
) -> Limit | None:
    """The fewest nodes whose best plan is safe and keeps tensor parallelism within a scale-up domain; where no number
    has such a plan, the fewest whose best plan is safe. progress, at: as of `fewest_nodes`.
    """
    known = at or cache(partial(safe_at, inputs, progress=progress))

    def inside(nodes: int) -> Limit | None:
        limit = known(nodes)
        return limit if limit and stays_inside(limit) else None

    return fewest_nodes(inputs, at=inside) or fewest_nodes(inputs, at=known)


def stays_inside(limit: Limit) -> bool:
    """Whether the tensor-parallel ranks of a limit's plan are no more than a scale-up domain has."""
    return limit.estimate.plan.tp <= limit.inputs.cluster.levels[0].size


def safe_at(inputs: Inputs, nodes: int, progress: Progress | None = None) -> Limit | None:
    """The fastest plan that fits safely on so many nodes; None where there is none. progress: told as by `find`."""
    try:
        asked = nodes == inputs.cluster.num_nodes
        there = inputs if asked else inputs.replace(cluster=with_nodes(inputs.cluster, nodes))
        return limit_of(there, progress)
    except InvalidInput:
        return None


def _least_step_s(inputs: Inputs, nodes: int) -> float:
    """Seconds of a step at the dense peak of so many nodes, which no plan undercuts; 0 where experts drop tokens."""
    if inputs.expert_capacity is not None:
        return 0.0
    return float(model_flops_per_step(inputs)) / (inputs.peak_flops * (nodes * inputs.cluster.gpus_per_node))


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


def round_numbers(nodes: int) -> Iterator[int]:
    """Numbers of nodes beyond a number: every one up to 16, then every second up to 32, every fourth up to 64 …,
    up to twice as many.

    >>> [*round_numbers(13)], [*round_numbers(33)]
    ([14, 15, 16, 18, 20, 22, 24, 26], [36, 40, 44, 48, 52, 56, 60, 64])
    """
    return (
        each
        for each in range(nodes + 1, 2 * max(nodes, FEW_NODES) + 1)
        if each % max((1 << each.bit_length() - 1) // STEPS, 1) == 0
    )
