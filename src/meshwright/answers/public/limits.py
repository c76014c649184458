"""Limits: how far a question can be taken, from Python."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any

from meshwright.answers.document.answer import Answer
from meshwright.answers.document.blocks import Block
from meshwright.answers.limits_table import limits_document, limits_screen
from meshwright.answers.unfit.nothing_fits import nothing_fits
from meshwright.arguments import checked
from meshwright.reprs import list_of
from meshwright.search.find import Progress
from meshwright.search.many_searches.fewest_nodes import Limit
from meshwright.search.many_searches.limits import Limits
from meshwright.search.many_searches.limits import limits as limits_of
from meshwright.specs.constraints import Constraints
from meshwright.specs.job import Job
from meshwright.specs.reading.inputs import ClusterSource, ModelSource, read_inputs
from meshwright.specs.runtime import Runtime


class LimitsAnswer(Answer, Limits):
    """The limits of a question, from `meshwright.limits`."""

    def __repr__(self) -> str:
        inputs = self.asked.inputs
        title = f"<LimitsAnswer of {inputs.model.name} on {inputs.cluster.name}:"
        words = [f"{row['limit']} {row['reached']}: {row['plan']}" for row in self.rows()]
        return list_of(title, words or ["no plan is safe at any size"]) + ">"

    def to_dict(self) -> dict[str, Any]:
        """What `meshwright limits --json` prints."""
        return limits_document(self)

    def blocks(self) -> tuple[Block, ...]:
        """The screen of `meshwright limits`."""
        return limits_screen(self)

    def rows(self) -> list[dict[str, Any]]:
        """The limits that a plan reaches, with the columns that a sweep has for a plan."""
        from meshwright.answers.sweep.answer import planned

        return [
            {"limit": name, "reached": reached, **planned(limit.estimate, limit.inputs)}
            for name, reached, limit in self._reached()
        ]

    def _reached(self) -> list[tuple[str, int, Limit]]:
        sequence, nodes, micro_batch = self.sequence, self.nodes, self.micro_batch
        return [
            *([("sequence_length", sequence.inputs.job.sequence_length, sequence)] if sequence else []),
            *([("num_nodes", nodes.inputs.cluster.num_nodes, nodes)] if nodes else []),
            *([("micro_batch", micro_batch.estimate.plan.micro_batch, micro_batch)] if micro_batch else []),
        ]


@checked
def limits(
    model: ModelSource,
    cluster: ClusterSource,
    job: Job,
    *,
    runtime: Runtime | str | None = None,
    constraints: Constraints | None = None,
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> LimitsAnswer:
    """The longest sequence, the fewest nodes and the largest micro-batch that fit safely. The arguments are those of
    `plan`, and executor: what looks for them side by side, as a `ProcessPoolExecutor`; None: this process.

    Raises as `plan` does; `NothingFits` only where no plan is safe at any other size either.
    """
    result = limits_of(read_inputs(model, cluster, job, runtime, constraints), progress, executor)
    if not (result.asked.best or result.sequence or result.nodes):
        raise nothing_fits(result.asked)
    return LimitsAnswer(**vars(result))
