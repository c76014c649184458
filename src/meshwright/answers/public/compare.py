"""Compare: clusters side by side, or plans on one cluster, from Python."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any, overload

from meshwright.answers.compare.clusters import ClusterComparison, Wishes, compare_clusters, questions_of
from meshwright.answers.compare.clusters_table import clusters_document, clusters_screen
from meshwright.answers.compare.named import named_layouts
from meshwright.answers.compare.plans import PlanComparison, compare_plans
from meshwright.answers.compare.plans_table import plans_document, plans_screen
from meshwright.answers.compare.training import prices_of
from meshwright.answers.document.answer import Answer
from meshwright.answers.document.blocks import Block
from meshwright.arguments import checked
from meshwright.errors import InvalidInput
from meshwright.layout.plan import Plan
from meshwright.reprs import list_of
from meshwright.search.find import Progress
from meshwright.specs.cluster import Cluster
from meshwright.specs.constraints import Constraints
from meshwright.specs.job import Job
from meshwright.specs.model import Model
from meshwright.specs.reading.cluster import read_cluster
from meshwright.specs.reading.inputs import ClusterSource, ModelSource, read_inputs
from meshwright.specs.reading.model import read_model
from meshwright.specs.runtime import Runtime

Plans = Sequence[Plan] | Mapping[str, Plan]
"""Plans, by the names of their columns where they have any."""


@dataclass(frozen=True, repr=False)
class ClustersAnswer(Answer):
    """Clusters side by side, each with its best plan, from `meshwright.compare`."""

    comparison: ClusterComparison

    def __repr__(self) -> str:
        words = [f"{each.cluster.name}: {each.best.brief if each.best else 'no plan'}" for each in self.comparison.rows]
        return list_of("<ClustersAnswer", words) + ">"

    def to_dict(self) -> dict[str, Any]:
        """What `meshwright compare --json` prints."""
        return clusters_document(self.comparison)

    def blocks(self) -> tuple[Block, ...]:
        """The screen of `meshwright compare`."""
        return clusters_screen(self.comparison)

    def rows(self) -> list[dict[str, Any]]:
        """The clusters, with the columns that a sweep has for a plan; a cluster without a plan has none of them."""
        from meshwright.answers.sweep.answer import planned

        priced = [planned(row.best, row.inputs) if row.best and row.inputs else {} for row in self.comparison.rows]
        columns = dict.fromkeys(name for row in priced for name in row)
        return [
            {"cluster": row.cluster.name, "refused": row.refused, **columns, **cells}
            for row, cells in zip(self.comparison.rows, priced, strict=True)
        ]


@dataclass(frozen=True, repr=False)
class PlansAnswer(Answer):
    """Plans side by side on one cluster, from `meshwright.compare`."""

    comparison: PlanComparison

    def __repr__(self) -> str:
        words = [
            f"{each.label}: {each.estimate.brief if each.estimate else each.named.plan}"
            + (" (not legal)" if each.broken else "")
            for each in self.comparison.columns
        ]
        return list_of("<PlansAnswer", words) + ">"

    def to_dict(self) -> dict[str, Any]:
        """What `meshwright compare --json` prints."""
        return plans_document(self.comparison)

    def blocks(self) -> tuple[Block, ...]:
        """The screen of `meshwright compare`."""
        return plans_screen(self.comparison)

    def rows(self) -> list[dict[str, Any]]:
        """The plans, with the columns that a sweep has for a plan; one without a price has none of them."""
        from meshwright.answers.sweep.answer import planned

        plans = self.comparison.columns
        priced = [planned(each.estimate, each.named.inputs) if each.estimate else {} for each in plans]
        columns = dict.fromkeys(name for row in priced for name in row)
        return [
            {"name": each.label, "legal": not each.broken, **columns, **cells}
            for each, cells in zip(plans, priced, strict=True)
        ]


@overload
def compare(
    model: ModelSource,
    cluster: ClusterSource,
    job: Job,
    *,
    plans: Plans,
    runtime: Runtime | str | None = ...,
    progress: Progress | None = ...,
) -> PlansAnswer:
    """Plans on one cluster."""


@overload
def compare(
    model: ModelSource,
    cluster: Sequence[ClusterSource],
    job: Job,
    *,
    runtime: Runtime | str | None = ...,
    constraints: Constraints | None = ...,
    prices: Mapping[str, float] | None = ...,
    deadline_days: float | None = ...,
    one_plan: bool = ...,
    progress: Progress | None = ...,
    executor: Executor | None = ...,
) -> ClustersAnswer:
    """Clusters, each with its best plan."""


@checked
def compare(
    model: ModelSource,
    cluster: ClusterSource | Sequence[ClusterSource],
    job: Job,
    *,
    plans: Plans | None = None,
    runtime: Runtime | str | None = None,
    constraints: Constraints | None = None,
    prices: Mapping[str, float] | None = None,
    deadline_days: float | None = None,
    one_plan: bool = False,
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> PlansAnswer | ClustersAnswer:
    """Clusters side by side, each with its best plan; or plans on one cluster, with every difference.

    cluster: two or more, or one where plans are given; plans: a list, or a table by the names of their columns; the
    other arguments are those of `plan`, and of clusters: prices: of an accelerator-hour, by accelerator or cluster;
    deadline_days: in which all tokens should be trained on; one_plan: look for one layout for all; executor:
    what searches the clusters, as a `ProcessPoolExecutor`; None: this process.
    Raises `InvalidInput` for fewer than two things to compare, for arguments of clusters beside plans, and as `plan`
    does where no cluster has a plan.

    >>> job = Job(sequence_length=8192, global_batch=64)
    >>> both = {"fsdp": Plan(dp=8, zero=3, num_microbatches=8), "tp": Plan(tp=8, sp=True, num_microbatches=64)}
    >>> compare("llama-3.1-8b", "1x8:h100", job, plans=both).comparison.best.label
    'fsdp'
    """
    if plans is not None:
        of_clusters = {"constraints": constraints, "prices": prices, "deadline_days": deadline_days}
        given = [name for name, value in of_clusters.items() if value is not None] + ["one_plan"] * one_plan
        if given:
            raise InvalidInput(f"{', '.join(given)} beside plans: only a comparison of clusters takes them")
        inputs = read_inputs(model, _one(cluster), job, runtime)
        return PlansAnswer(compare_plans(named_layouts(plans, inputs), inputs, progress))
    clusters = _several(cluster)
    if (prices or deadline_days is not None) and not job.tokens:
        raise InvalidInput("prices and deadline_days are about a whole training: add tokens to the job")
    if deadline_days is not None and not 0 < deadline_days < math.inf:
        raise InvalidInput(f"deadline_days is {deadline_days:g}; it must be more than 0, as 60")
    by_name = {each.name: each for each in clusters}
    priced = prices_of([f"{name}={price!r}" for name, price in (prices or {}).items()], by_name)
    whole = model if isinstance(model, Model) else read_model(model)
    questions = questions_of((each, partial(read_inputs, whole, each, job, runtime, constraints)) for each in clusters)
    return ClustersAnswer(compare_clusters(questions, Wishes(priced, deadline_days, one_plan), progress, executor))


def _one(cluster: ClusterSource | Sequence[ClusterSource]) -> ClusterSource:
    if isinstance(cluster, list | tuple):
        raise InvalidInput("plans are compared on one cluster: give it by itself, not as a list")
    return cluster  # type: ignore[return-value]


def _several(cluster: ClusterSource | Sequence[ClusterSource]) -> list[Cluster]:
    """The clusters of a list, of which there are two or more, with different names."""
    asked: list[Any] = [*cluster] if isinstance(cluster, list | tuple) else [cluster]
    clusters = [each if isinstance(each, Cluster) else read_cluster(each) for each in asked]
    names = [each.name for each in clusters]
    if len(names) < 2 or len({*names}) < len(names):
        given = ", ".join(names) or "an empty list"
        nearest = "nearest: ['1x8:h100', '2x8:h100']"
        raise InvalidInput(
            f"compare takes two clusters or more of different names, or plans; given: {given}; {nearest}"
        )
    return clusters
