"""Other questions: what is best, and what the recommended layout does, with half the network or another batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from meshwright.answers.memo.scaling import same_layout
from meshwright.answers.pace import longer
from meshwright.cost.estimate import Estimate
from meshwright.cost.step import estimate_each
from meshwright.errors import IllegalPlan, InvalidInput
from meshwright.search.safe import recommended
from meshwright.specs.inputs import Inputs
from meshwright.specs.scale import network_levels, with_network


@dataclass(frozen=True)
class OtherQuestion:
    """The question with one thing changed."""

    change: str
    """In words."""
    inputs: Inputs
    best: Estimate | None
    """The plan that is recommended there; None where none fits."""
    same: Estimate | None
    """The layout that is recommended here; None where it is not legal there."""

    @property
    def loss(self) -> float | None:
        """How much longer a step takes with the layout recommended here, a share; None where one of both is missing."""
        return longer(self.same, self.best) if self.same and self.best else None


def other_questions(best: Estimate, inputs: Inputs) -> tuple[OtherQuestion, ...]:
    """Each change searched anew. best: the plan recommended for the question."""
    return tuple(_answered(change, changed, best) for change, changed in _changed(inputs))


def _changed(inputs: Inputs) -> Iterator[tuple[str, Inputs]]:
    job, batch = inputs.job, inputs.job.global_batch
    if network_levels(inputs.cluster):
        yield "half the network", inputs.replace(cluster=with_network(inputs.cluster, 0.5))
    for words, sequences in (("half the batch", batch // 2), ("twice the batch", 2 * batch)):
        if sequences:
            yield words, inputs.replace(job=job.replace(global_batch=sequences, assumptions=()))


def _answered(change: str, inputs: Inputs, best: Estimate) -> OtherQuestion:
    try:
        there = recommended(inputs)
    except (IllegalPlan, InvalidInput):
        there = None
    layout = same_layout(best.plan, inputs)
    return OtherQuestion(change, inputs, there, estimate_each([layout], inputs)[0] if layout else None)
