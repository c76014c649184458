"""Crossing: whether tensor parallelism leaves a scale-up domain, and whether that is known to be for want of memory."""

from __future__ import annotations

from meshwright.search.find import SearchResult
from meshwright.search.many_searches.constraint_costs import constrained


def crosses_domains(result: SearchResult) -> bool:
    """Whether the tensor-parallel ranks of the recommended plan are more than a domain has."""
    return result.best[0].plan.tp > result.inputs.cluster.levels[0].size


def nothing_fits_inside(result: SearchResult) -> bool:
    """Whether it is known that no plan fits whose tensor-parallel ranks are in one domain: the search was free and
    complete, and its answer has every split that fits. It has them all where it lists fewer other splits than plans,
    as both lists are cut at the same length.
    """
    whole = result.complete and not constrained(result.inputs) and len(result.other_splits) < len(result.best)
    size = result.inputs.cluster.levels[0].size
    return whole and all(each.plan.tp > size for each in (*result.best, *result.other_splits))
