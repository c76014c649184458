"""Explain: one plan, its memory, its time and what would change it, from Python."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from meshwright.answers.document.answer import Answer
from meshwright.answers.document.blocks import Block
from meshwright.answers.explain.alternatives import cheap_search
from meshwright.answers.explain.table import explain_document, explain_screen
from meshwright.answers.public.pictures import memory_figure, waterfall_figure
from meshwright.arguments import checked
from meshwright.cost.estimate import Estimate
from meshwright.cost.step import estimate_each
from meshwright.layout.legality import require_legal
from meshwright.layout.plan import Plan
from meshwright.reprs import lines_of
from meshwright.search.find import SearchResult
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import Job
from meshwright.specs.reading.inputs import ClusterSource, ModelSource, read_inputs
from meshwright.specs.runtime import Runtime


@dataclass(frozen=True, repr=False)
class ExplainAnswer(Answer):
    """One plan explained, from `meshwright.explain`."""

    inputs: Inputs
    estimate: Estimate

    def __repr__(self) -> str:
        return lines_of(f"<ExplainAnswer {self.estimate.brief}>")

    @cached_property
    def near(self) -> SearchResult | None:
        """The best plans of the same question, searched for when they are asked for; None where that takes long."""
        return cheap_search(self.inputs)

    def to_dict(self) -> dict[str, Any]:
        """What `meshwright explain --json` prints, which is a plan file too."""
        return explain_document(self.estimate, self.inputs, self.near)

    def blocks(self) -> tuple[Block, ...]:
        """The screen of `meshwright explain` behind pictures of memory and time."""
        question, plan, *tables = explain_screen(self.estimate, self.inputs, self.near)
        pictures = memory_figure([self.estimate], self.inputs), waterfall_figure(self.estimate, self.inputs)
        return question, plan, *pictures, *tables

    def rows(self) -> list[dict[str, Any]]:
        """The stages of the pipeline, the first one first: layers, seconds of a micro-batch, bytes by component."""
        rows = []
        for stage in self.estimate.stages:
            sizes = {f"{name}_bytes": size for name, size in stage.memory._asdict().items()}
            cells = {name: value for name, value in vars(stage).items() if name != "memory"}
            rows.append(cells | {"peak_moment": str(stage.peak_moment), "device_bytes": stage.memory.device} | sizes)
        return rows


@checked
def explain(
    model: ModelSource, cluster: ClusterSource, job: Job, plan: Plan, *, runtime: Runtime | str | None = None
) -> ExplainAnswer:
    """One plan: whether it fits, where its memory and time go, and what every single change would do.

    The arguments are those of `estimate`. Raises `IllegalPlan` with every rule that the runtime would refuse it for.

    >>> layout = Plan(tp=8, sp=True, num_microbatches=64)
    >>> explained = explain("llama-3.1-8b", "1x8:h100", Job(sequence_length=8192, global_batch=64), layout)
    >>> str(explained.estimate.verdict)
    'safe'
    """
    inputs = read_inputs(model, cluster, job, runtime)
    require_legal(plan, inputs)
    (estimate,) = estimate_each([plan], inputs)
    return ExplainAnswer(inputs, estimate)
