"""Deadline: the fewest nodes whose fastest safe plan makes a step in time."""

from __future__ import annotations

import math
from collections.abc import Iterator

from meshwright.cost.memory.device import Verdict
from meshwright.errors import InvalidInput
from meshwright.search.find import Progress, find
from meshwright.search.limits import EVERY_ONE, MOST_TIMES_THE_NODES, Limit
from meshwright.specs.inputs import Inputs
from meshwright.specs.scale import with_nodes


def fewest_nodes_in_time(inputs: Inputs, step_s: float, progress: Progress | None = None) -> Limit | None:
    """The fewest nodes, from those of the question on, with a safe plan that takes at most `step_s` seconds a step.

    Doublings, then bisection, at last one by one, among them the numbers of which the ranks share most with the global
    batch, which stays: data parallelism takes no others. Which numbers are legal follows no order, so that fewer
    between two that were tried may now and then do as well; one node fewer does not.
    progress: told as by `find`. Returns None where 32 times the nodes are too few, and all that was tried before.
    """

    def priced(nodes: int) -> Limit | None:
        try:
            bigger = inputs.replace(cluster=with_nodes(inputs.cluster, nodes)) if nodes > asked else inputs
            found = find(bigger, top=1, progress=progress)
        except InvalidInput:
            return None
        best = found.best[0] if found.best else None
        return Limit(bigger, best) if best and best.verdict == Verdict.SAFE and best.step_time_s <= step_s else None

    asked = inputs.cluster.num_nodes
    low, high, found = asked - 1, asked, priced(asked)
    for nodes in _more(inputs):
        if found is None:
            low, high, found = high, nodes, priced(nodes)
    while found and high - low > EVERY_ONE:
        middle, quarter = (low + high) // 2, (high - low) // 4
        middle = _roundest(inputs, range(low + quarter, high - quarter), middle)
        limit = priced(middle)
        low, high, found = (low, middle, limit) if limit else (middle, high, found)
    return next(filter(None, map(priced, range(low + 1, high))), found) if found else None


def _more(inputs: Inputs) -> Iterator[int]:
    """More nodes, up to 32 times as many: every doubling, and before it the roundest number below."""
    nodes = inputs.cluster.num_nodes
    most = MOST_TIMES_THE_NODES * nodes
    while nodes < most:
        end = min(2 * nodes, most)
        yield from sorted({_roundest(inputs, range(nodes + 1, end + 1), end), end})
        nodes = end


def _roundest(inputs: Inputs, numbers: range, aim: int) -> int:
    """Of some numbers of nodes, the one whose ranks share most with the batch, of equals the nearest to an aim."""
    ranks, batch = inputs.cluster.gpus_per_node, inputs.job.global_batch
    return max(numbers, key=lambda nodes: (math.gcd(nodes * ranks, batch), -abs(nodes - aim)))
