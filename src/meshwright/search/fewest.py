"""Fewest: the smallest number of nodes whose best plan is what is wanted."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.fit import Verdict
from meshwright.errors import InvalidInput
from meshwright.search.find import Progress, find
from meshwright.specs.inputs import Inputs
from meshwright.specs.scale import with_nodes

MOST_TIMES_THE_NODES = 32
EVERY_ONE = 8
"""Between two numbers of nodes that are no further apart, every one is tried: which are legal follows no order."""


@dataclass(frozen=True)
class Limit:
    """The fastest plan that fits safely at a limit."""

    inputs: Inputs
    """The question at the limit: as asked, but for its length and batch or its nodes."""
    estimate: Estimate


def fewest_nodes(
    inputs: Inputs,
    wanted: Callable[[Estimate], bool] = lambda _: True,
    first: int = 1,
    progress: Progress | None = None,
) -> Limit | None:
    """The fewest nodes, from `first` on, whose best plan is safe and wanted.

    Doublings, then bisection, at last one by one, among them the numbers of which the ranks share most with the global
    batch, which stays: data parallelism takes no others. Which numbers are legal follows no order, so that fewer
    between two that were tried may now and then do as well; one node fewer does not.
    wanted: of a safe plan; progress: told as by `find`. Returns None where 32 times the asked nodes are too few, and
    all that was tried before.
    """

    def priced(nodes: int) -> Limit | None:
        try:
            there = inputs.replace(cluster=with_nodes(inputs.cluster, nodes)) if nodes != asked else inputs
            answer = find(there, top=1, progress=progress)
        except InvalidInput:
            return None
        best = answer.best[0] if answer.best else None
        return Limit(there, best) if best and best.verdict == Verdict.SAFE and wanted(best) else None

    asked = inputs.cluster.num_nodes
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
