"""Clusters side by side: the best plan of each, what it waits for, and what training takes there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from meshwright.answers.compare.premises import Contradiction, cluster_premise
from meshwright.answers.compare.training import Deadline, Training, deadline_of, training_of
from meshwright.answers.plans.switched_plan import SwitchedPlan, switched_plan
from meshwright.answers.step_parts import from_peak
from meshwright.answers.unfit.nothing_fits import error_document, nothing_fits_or_stopped
from meshwright.cost.estimate import Estimate
from meshwright.errors import InvalidInput, MeshwrightError, NothingFits, Stopped
from meshwright.search import fan_out
from meshwright.search.find import Progress, SearchResult, find
from meshwright.search.many_searches.constraint_costs import ConstraintCost, constraint_costs
from meshwright.search.many_searches.min_max import Exclusion, OnePlan, one_plan
from meshwright.specs.cluster import Cluster
from meshwright.specs.inputs import Inputs


class Limiting(NamedTuple):
    """The largest part of a step beyond the ideal compute."""

    part: str
    """Its name in `from_peak`."""
    seconds: float


@dataclass(frozen=True)
class ClusterRow:
    """One cluster."""

    cluster: Cluster
    inputs: Inputs | None
    """The question on it; None where it makes none, such as a precision that its accelerator lacks."""
    result: SearchResult | None = None
    """None where the search refuses the question."""
    refusal: MeshwrightError | None = None
    """Why there is no plan, with what would work; None where there is one."""
    contradiction: Contradiction | None = None
    """Set where no layout could hold the model's states."""
    limiting: Limiting | None = None
    """Of the best plan."""
    constraint_costs: tuple[ConstraintCost, ...] = ()
    """What the best plan pays for the constraints of the question."""
    switched: SwitchedPlan | None = None
    """The best plan with other switches of the runtime, where that is faster."""
    training: Training | None = None
    deadline: Deadline | None = None

    @property
    def best(self) -> Estimate | None:
        """The best plan, if one fits."""
        return self.result.best[0] if self.result and self.result.best else None

    @property
    def tokens_per_s(self) -> float | None:
        """Of all accelerators, with the best plan."""
        return self.best.tokens_per_s_per_gpu * self.cluster.num_gpus if self.best else None

    @property
    def refused(self) -> str | None:
        """Why there is no plan, what contradicts itself first; None where there is one."""
        if self.refusal is None:
            return None
        return f"{self.contradiction.sentence}; {self.refusal}" if self.contradiction else str(self.refusal)


@dataclass(frozen=True)
class Wishes:
    """What is asked besides the plans."""

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

    def speed(self, row: ClusterRow) -> float | None:
        """How many times as fast as the first a cluster is."""
        return self.first.best.step_time_s / row.best.step_time_s if self.first.best and row.best else None


Question = tuple[Cluster, Inputs | InvalidInput]
"""A cluster with the question on it, or why it makes none."""


def questions_of(asked: Iterable[tuple[Cluster, Callable[[], Inputs]]]) -> list[Question]:
    """Clusters with what is asked of each; raises the first `InvalidInput` where none makes a question."""
    questions = [(cluster, _question(ask)) for cluster, ask in asked]
    refusals = [question for _, question in questions if isinstance(question, InvalidInput)]
    if len(refusals) == len(questions):
        raise refusals[0]
    return questions


def _question(ask: Callable[[], Inputs]) -> Inputs | InvalidInput:
    try:
        return ask()
    except InvalidInput as refusal:
        return refusal


def compare_clusters(
    questions: Sequence[Question],
    wishes: Wishes,
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> ClusterComparison:
    """The best plan of every cluster, with what training takes there; and, if wished for, one layout for all.

    progress, executor: as in `fan_out.answers`.
    Raises `NothingFits` when none has a plan and memory is why, `InvalidInput` when every one refuses the question.
    """
    rows = tuple(fan_out.answers(partial(_row, wishes), questions, executor, progress))
    if not any(row.best for row in rows):
        refusals = [row.refusal for row in rows]
        reasons = ((row.cluster.name, str(row.refused).replace("\n", "\n  ")) for row in rows)
        message = "no cluster has a plan:" + "".join(f"\n  - {name}: {reason}" for name, reason in reasons)
        if any(isinstance(refusal, Stopped) for refusal in refusals):
            raise Stopped(message)
        if not any(isinstance(refusal, NothingFits) for refusal in refusals):
            raise InvalidInput(message)
        raise NothingFits(message, {"clusters": {row.cluster.name: error_document(row.refusal) for row in rows}})
    answers = [row.result for row in rows if row.result]
    searched = wishes.one_plan and len(answers) == len(rows)
    layout = None
    if searched:
        with suppress(Stopped):
            layout = one_plan(answers, progress)
    return ClusterComparison(rows, wishes, layout)


def _row(wishes: Wishes, asked: Question, progress: Progress | None) -> ClusterRow:
    cluster, question = asked
    if not isinstance(question, Inputs):
        return ClusterRow(cluster, None, refusal=question)
    try:
        result = find(question, top=1, progress=progress)
    except (InvalidInput, Stopped) as refusal:
        return ClusterRow(cluster, question, refusal=refusal)
    best, price, days = result.best[0] if result.best else None, wishes.prices.get(cluster.name), wishes.deadline_days
    costs: tuple[ConstraintCost, ...] = ()
    switched, deadline = None, None
    if best:
        with suppress(Stopped):
            costs = constraint_costs(result, progress)
            switched = switched_plan(result, progress)
            deadline = deadline_of(best, question, days, price, progress) if days else None
    return ClusterRow(
        cluster=cluster,
        inputs=question,
        result=result,
        refusal=None if best else nothing_fits_or_stopped(result, progress, most=1),
        contradiction=None if best else cluster_premise(question),
        limiting=limiting_part(best, question) if best else None,
        constraint_costs=costs,
        switched=switched,
        training=training_of(best, question, price) if best else None,
        deadline=deadline,
    )


def limiting_part(estimate: Estimate, inputs: Inputs, beside: Collection[str] = ()) -> Limiting:
    """The largest part of a step beyond the ideal compute, and beside other parts of `from_peak`."""
    parts = from_peak(estimate, inputs).items()
    return max(
        (Limiting(*part) for part in parts if part[0] not in ("ideal_s", *beside)), key=lambda part: part.seconds
    )
