"""The best plan of each runtime, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from meshwright.answers.crossover_text import crossover_entry, crossover_lines
from meshwright.answers.document.blocks import Block, Lines, Paragraph, Table
from meshwright.answers.nothing_fits import nothing_fits
from meshwright.answers.plan_file import plan_document
from meshwright.answers.screen import SPEED_COLUMNS, headline, job_words, speed_cells, without_plan
from meshwright.errors import InvalidInput, InvalidSpec, MeshwrightError, NothingFits
from meshwright.search.crossover import Crossover, crossover
from meshwright.search.find import Progress, SearchResult, find
from meshwright.specs import catalog
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.inputs import Inputs
from meshwright.specs.runtime import read_runtime

Answers = dict[str, SearchResult | MeshwrightError]
"""Per runtime, what its search found, or why it has no plan."""


def answers_of_each(
    inputs: Inputs, top: int, behaviours: Sequence[str] = (), progress: Progress | None = None
) -> Answers:
    """Search once for every runtime of the catalogue, the fastest first, those without a plan last.

    behaviours: replaced in each, as `with_behaviours` takes them; progress: told as by `find`, anew for each runtime.
    Raises `NothingFits` when no runtime has a plan that fits, `InvalidInput` when every one refuses the question.
    """
    answers: Answers = {}
    for name in catalog.names("runtimes"):
        try:
            runtime = with_behaviours(read_runtime(name), behaviours)
            found = find(inputs.replace(runtime=runtime), top=top, progress=progress)
            answers[name] = found if found.best else nothing_fits(found)
        except MeshwrightError as refusal:
            answers[name] = refusal
    if not any(isinstance(answer, SearchResult) for answer in answers.values()):
        invalid = [answer.faults for answer in answers.values() if isinstance(answer, InvalidSpec)]
        if len(invalid) == len(answers) and len(set(invalid)) == 1:
            raise InvalidSpec("the question for every runtime", invalid[0])
        kind = NothingFits if any(isinstance(each, NothingFits) for each in answers.values()) else InvalidInput
        raise kind("no runtime has a plan:" + "".join(f"\n  - {runtime}: {told}" for runtime, told in answers.items()))
    return dict(sorted(answers.items(), key=lambda answer: _step_time(answer[1])))


def crossover_of(answers: Answers, progress: Progress | None = None) -> Crossover | None:
    """Fully sharded plans against 3D ones, over all runtimes; None for a cluster without links between nodes.

    progress: told (plans considered, plans of all runtimes).
    """
    return crossover([answer for answer in answers.values() if isinstance(answer, SearchResult)], progress)


def runtimes_document(answers: Answers, crossing: Crossover | None) -> dict[str, Any]:
    """Per runtime its plan file, or the reason why it has no plan; then one family of plans against the other."""
    return {
        "schema": "meshwright.runtimes/1",
        "runtimes": {
            runtime: plan_document(answer) if isinstance(answer, SearchResult) else {"refused": str(answer)}
            for runtime, answer in answers.items()
        },
        "crossover": crossover_entry(crossing) if crossing else None,
    }


def runtimes_screen(answers: Answers, crossing: Crossover | None) -> tuple[Block, ...]:
    """One row for each runtime: its best plan, how fast and how large it is; then the two families of plans."""
    found = {runtime: answer for runtime, answer in answers.items() if isinstance(answer, SearchResult)}
    rows = tuple((runtime, str(each.best[0].plan), *speed_cells(each.best[0])) for runtime, each in found.items())
    refused = [f"{runtime}: {answer}" for runtime, answer in answers.items() if runtime not in found]
    inputs = next(iter(found.values())).inputs
    question = (*headline(inputs).lines[:-1], job_words(inputs), *_replaced(inputs))
    return (
        Lines(question),
        Table(("runtime", "best plan", *SPEED_COLUMNS), rows, "llrrr"),
        *without_plan(refused),
        *([Lines(tuple(crossover_lines(crossing)))] if crossing else []),
        Paragraph("meshwright plan --runtime NAME shows one in full."),
    )


def _replaced(inputs: Inputs) -> list[str]:
    """What the question replaced, which is the same in every runtime."""
    changes = [change.partition(" in place of ")[0] for change in inputs.runtime.replaced]
    return [f"Replaced in every runtime: {', '.join(changes)}"] if changes else []


def _step_time(answer: SearchResult | MeshwrightError) -> float:
    return answer.best[0].step_time_s if isinstance(answer, SearchResult) else float("inf")
