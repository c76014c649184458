"""Routing: how tokens reach experts, and how unequally these share them in training, from what was measured."""

from __future__ import annotations

from functools import cache
from math import sqrt
from statistics import fmean, stdev
from typing import Annotated, NamedTuple

from pydantic import Field

from meshwright.specs import catalog
from meshwright.specs.base import Spec
from meshwright.specs.cluster import Cluster
from meshwright.specs.runtime import Runtime
from meshwright.specs.runtime.communication import Dispatcher
from meshwright.specs.student import STUDENT


class MeasuredSpread(Spec):
    """How unequal the experts of one training run were."""

    spread: Annotated[float, Field(ge=0, le=10)]
    """Standard deviation of the tokens of an expert over their mean."""
    what: str
    source: str


class ExpertSpread(NamedTuple):
    """Standard deviation of the tokens of an expert over their mean, shares."""

    least: float
    """One of ten training runs of others has less."""
    usual: float
    most: float
    """One of ten has more."""


def dispatcher_on(cluster: Cluster, runtime: Runtime) -> Dispatcher:
    """The runtime's dispatcher; an all-to-all where its usual one is fused and does not run on the cluster.

    Source: Megatron-Bridge@067f987df03b training/flex_dispatcher_backend.py, _fallback_to_alltoall.
    """
    usual = all(each.field != "dispatcher" for each in runtime.replaced)
    named = runtime.communication.dispatcher
    return "all_to_all" if named == "fused" and usual and not cluster.runs_fused_dispatch else named


@cache
def measured_spreads() -> tuple[MeasuredSpread, ...]:
    """What was measured, each with its source."""
    return tuple(MeasuredSpread(**entry) for entry in catalog.table("routing")["measured"])


@cache
def expert_spread() -> ExpertSpread:
    """The mean of what was measured, and where eight of ten further runs lie: t s sqrt(1 + 1 / n) around it."""
    spreads = [each.spread for each in measured_spreads()]
    count, usual = len(spreads), fmean(spreads)
    width = STUDENT[count - 2] * stdev(spreads) * sqrt(1 + 1 / count)
    return ExpertSpread(max(usual - width, 0.0), usual, usual + width)
