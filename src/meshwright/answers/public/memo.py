"""Memo: the recommendation as a document, from Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meshwright.answers.document.answer import Answer
from meshwright.answers.document.blocks import Block, Document
from meshwright.answers.launch.baseline import Baseline
from meshwright.answers.memo.memo import memo as figures_of
from meshwright.answers.memo.memo import usual_baseline
from meshwright.answers.memo.output import memo_document, memo_entry
from meshwright.answers.memo.unfit import unfit, unfit_document, unfit_entry
from meshwright.answers.memo.write import memo_files, write_memo
from meshwright.arguments import checked
from meshwright.errors import InvalidInput
from meshwright.reprs import list_of
from meshwright.search.find import Progress, SearchResult, find
from meshwright.specs.constraints import Constraints
from meshwright.specs.job import Job
from meshwright.specs.reading.inputs import ClusterSource, ModelSource, read_inputs
from meshwright.specs.runtime import Runtime
from meshwright.units import MOST_PRICE, is_price

LOOKED_AT = 20
"""Of the best plans, those among which the recommendation and its runners-up are chosen."""


@dataclass(frozen=True, repr=False)
class MemoAnswer(Answer):
    """A recommendation, from `meshwright.memo`."""

    search: SearchResult
    page: Document
    """The memo."""
    figures: dict[str, Any]
    """What it is written from."""

    @property
    def fits(self) -> bool:
        """Whether any plan fits; else the memo is about what would."""
        return bool(self.search.best)

    def __repr__(self) -> str:
        best = self.search.best[0] if self.fits else self.search.leanest
        return list_of(f"<MemoAnswer: {self.page.title}", [best.brief]) + ">"

    @checked
    def write(self, *paths: str | Path) -> None:
        """Write it to files, .md, .html or .pdf; raises `InvalidInput` for another ending."""
        write_memo(self.page, memo_files([Path(path) for path in paths]))

    def to_dict(self) -> dict[str, Any]:
        """What `meshwright memo --json` prints."""
        return self.figures

    def document(self) -> Document:
        """The memo with its title."""
        return self.page

    def blocks(self) -> tuple[Block, ...]:
        """The memo."""
        return self.page.blocks

    def rows(self) -> list[dict[str, Any]]:
        """The recommended plan, then its runners-up, with the columns that a sweep has for a plan."""
        from meshwright.answers.sweep.answer import planned

        return [planned(each, self.search.inputs) for each in (*self.search.best, *self.search.other_splits)]


@checked
def memo(
    model: ModelSource,
    cluster: ClusterSource,
    job: Job,
    *,
    runtime: Runtime | str | None = None,
    constraints: Constraints | None = None,
    price: float | None = None,
    baseline_gpus: int | None = None,
    progress: Progress | None = None,
) -> MemoAnswer:
    """The recommendation memo: which plan, why, and what could go wrong; where nothing fits, what would.

    The arguments are those of `plan`, and: runtime: megatron-core where none is given, which the memo says; price: of
    an hour of one accelerator, in any currency; baseline_gpus: from which scaling starts, one node where none is given.
    Raises `InvalidInput` for a wrong question.
    """
    if price is not None and not is_price(price):
        raise InvalidInput(f"price {price!r} is not a price of an accelerator-hour, from 0 to {MOST_PRICE:g}")
    inputs = read_inputs(model, cluster, job, runtime, constraints)
    assumed = [] if "precision" in job.model_fields_set else [f"precision {job.precision}: the default"]
    assumed += [] if runtime else [f"runtime {inputs.runtime.id}: the default"]
    return memo_of(find(inputs, top=LOOKED_AT, progress=progress), assumed, price, baseline_gpus)


def memo_of(
    search: SearchResult,
    assumed: Sequence[str] = (),
    price: float | None = None,
    baseline_gpus: int | None = None,
    existing: Baseline | None = None,
    progress: Progress | None = None,
) -> MemoAnswer:
    """The memo of a search.

    assumed: options that were left to their defaults; existing: the plan of a launch file, the one to beat;
    progress: told (figures known, figures in all), some of which are searches.
    """
    if not search.best:
        missing = unfit(search, price)
        return MemoAnswer(search, unfit_document(missing), unfit_entry(missing))
    inputs, unsaid = search.inputs, [*assumed]
    if baseline_gpus is None:
        baseline_gpus, one = usual_baseline(inputs), "node" if inputs.cluster.num_nodes > 1 else "accelerator"
        unsaid.append(f"scaling starts from the fewest accelerators that fit, from one {one} up: the default")
    figures = figures_of(search, baseline_gpus, tuple(unsaid), price, existing, progress)
    return MemoAnswer(search, memo_document(figures), memo_entry(figures))
