"""Clusters side by side: the best plan of each, what it waits for, and what training takes there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from meshwright.answers.compare.premises import Contradiction, cluster_premise
from meshwright.answers.compare.training import Deadline, Training, deadline_of, training_of
from meshwright.answers.nothing_fits import nothing_fits
from meshwright.answers.waterfall import from_peak
from meshwright.cost.estimate import Estimate
from meshwright.errors import InvalidInput, MeshwrightError, NothingFits
from meshwright.search.find import Progress, SearchResult, find
from meshwright.search.min_max import Exclusion, OnePlan, one_plan
from meshwright.specs.cluster import Cluster
from meshwright.specs.inputs import Inputs


@dataclass(frozen=True)
class ClusterRow:
    """One cluster."""

    cluster: Cluster
    inputs: Inputs | None
    """The question on it; None where it makes none, such as a precision that its accelerator lacks."""
    found: SearchResult | None
    """What the search found; None where it refuses the question."""
    refusal: MeshwrightError | None
    """Why there is no plan, with what would work; None where there is one."""
    premise: Contradiction | None
    """Set where no layout could hold the model's states."""
    limiting: tuple[str, float] | None
    """The largest part of the best plan's step beyond the ideal compute: its name in `from_peak`, and seconds."""
    training: Training | None
    deadline: Deadline | None

    @property
    def best(self) -> Estimate | None:
        """The best plan, if one fits."""
        return self.found.best[0] if self.found and self.found.best else None

    @property
    def refused(self) -> str | None:
        """Why there is no plan, what contradicts itself first; None where there is one."""
        if self.refusal is None:
            return None
        return f"{self.premise.told}; {self.refusal}" if self.premise else str(self.refusal)


@dataclass(frozen=True)
class Wishes:
    """What is asked beside the plans."""

    prices: Mapping[str, float] = field(default_factory=dict)
    """Of an accelerator-hour, by the name of the cluster."""
    deadline_days: float | None = None
    one_plan: bool = False
    """Whether to look for one layout for all."""


@dataclass(frozen=True)
class ClusterComparison:
    """Clusters side by side, in the order asked."""

    rows: tuple[ClusterRow, ...]
    wishes: Wishes
    one_plan: OnePlan | Exclusion | None
    """None where it was not asked for, or where a cluster refuses every plan."""

    @property
    def first(self) -> ClusterRow:
        """The first cluster that has a plan, which the others are compared with."""
        return next(row for row in self.rows if row.best)


def compare_clusters(
    questions: Sequence[tuple[Cluster, Inputs | InvalidInput]], wishes: Wishes, progress: Progress | None = None
) -> ClusterComparison:
    """The best plan of every cluster, with what training takes there; and, if wished for, one layout for all.

    questions: each cluster with the question on it, or why it makes none; progress: told as by `find`, anew for each.
    Raises `NothingFits` when none has a plan and memory is why, `InvalidInput` when every one refuses the question.
    """
    rows = tuple(_row(cluster, question, wishes, progress) for cluster, question in questions)
    if not any(row.best for row in rows):
        refusals = [row.refusal for row in rows]
        kind = NothingFits if any(isinstance(refusal, NothingFits) for refusal in refusals) else InvalidInput
        lines = "".join(f"\n  - {row.cluster.name}: {row.refused}" for row in rows)
        raise kind(f"no cluster has a plan:{lines}")
    answers = [row.found for row in rows if row.found]
    searched = wishes.one_plan and len(answers) == len(rows)
    return ClusterComparison(rows, wishes, one_plan(answers, progress) if searched else None)


def _row(cluster: Cluster, question: Inputs | InvalidInput, wishes: Wishes, progress: Progress | None) -> ClusterRow:
    if not isinstance(question, Inputs):
        return ClusterRow(cluster, None, None, question, None, None, None, None)
    try:
        found = find(question, top=1, progress=progress)
    except InvalidInput as refusal:
        return ClusterRow(cluster, question, None, refusal, None, None, None, None)
    best, price, days = found.best[0] if found.best else None, wishes.prices.get(cluster.name), wishes.deadline_days
    return ClusterRow(
        cluster=cluster,
        inputs=question,
        found=found,
        refusal=None if best else nothing_fits(found),
        premise=None if best else cluster_premise(question),
        limiting=limiting_part(best, question) if best else None,
        training=training_of(best, question, price) if best else None,
        deadline=deadline_of(best, question, days, price, progress) if days else None,
    )


def limiting_part(estimate: Estimate, inputs: Inputs) -> tuple[str, float]:
    """The largest part of a step beyond the ideal compute: its name in `from_peak`, and seconds."""
    parts = from_peak(estimate, inputs)
    name = max((name for name in parts if name != "ideal_s"), key=lambda name: parts[name])
    return name, parts[name]
