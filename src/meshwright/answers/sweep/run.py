"""Run: ask every question of a sweep that is not answered yet, and write its tables."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from meshwright.answers.document.answer import Answer
from meshwright.answers.document.blocks import Block
from meshwright.answers.sweep.answer import Batch, answers_of, planner_hash, sizes_of
from meshwright.answers.sweep.columns import COLUMNS, REFUSED, Row, labels_of
from meshwright.answers.sweep.folder import SweepFolder, opened
from meshwright.answers.sweep.page import page_of
from meshwright.answers.sweep.parquet import require_parquet
from meshwright.answers.sweep.table import counts_words, sweep_document, sweep_screen
from meshwright.arguments import checked
from meshwright.errors import InvalidInput, Stopped
from meshwright.reprs import lines_of
from meshwright.search.executors import InProcess, Processes, executor_of, lost_worker
from meshwright.search.fan_out import results
from meshwright.search.find import Progress
from meshwright.specs.inputs import Inputs
from meshwright.specs.sweep.read_sweep import read_sweep
from meshwright.specs.sweep.sweep import Sweep, SweepQuestion

KEY = 16
"""Digits of the key of a question."""
MOST_PLANS = 100_000
"""Of the questions that a worker gets at once: about a second of work, against which handing out is nothing, and which
is lost at most where a sweep is ended."""
MOST_QUESTIONS = 64
COUNTED = 256
"""Questions whose plans a worker counts at once."""
REASONS = 5
"""Why questions cannot be asked, of which an error names so many."""
Asked = dict[str, Inputs]
"""Questions by key."""


@dataclass(frozen=True)
class SweepSize:
    """How much a sweep has to do."""

    questions: int
    refused: int
    """Questions whose parts do not go together."""
    answered: int
    """Questions that an earlier run has answered."""
    plans: int
    """Of the others."""


@dataclass(frozen=True, repr=False)
class SweepResult(Answer):
    """What a sweep has written."""

    table: tuple[Row, ...]
    """A row for each question, in the order of the file; cells by column."""
    best: Path
    """The table of best plans, the same rows as Parquet."""
    plans: Path | None
    """The folder with a Parquet table of all plans of each question, where they were asked for."""
    page: Path
    """The page with tables and pictures."""
    unanswered: int = 0
    """Questions that were not reached, where it was stopped: then neither table nor page is written, and the same sweep
    goes on from here."""

    def __repr__(self) -> str:
        return lines_of(f"<SweepResult of {counts_words(self.table)}; {self.best}>")

    @property
    def files(self) -> list[Path]:
        """What was written."""
        return [] if self.unanswered else [self.best, *([self.plans] if self.plans else []), self.page]

    def to_dict(self) -> dict[str, Any]:
        """What `meshwright sweep --json` prints."""
        return sweep_document(self.table, self.files, self.unanswered)

    def blocks(self) -> tuple[Block, ...]:
        """The screen of `meshwright sweep`."""
        return sweep_screen(self.table, self.files, self.unanswered)

    def rows(self) -> list[Row]:
        """The best plan of every question, or why it has none, with the columns of the Parquet table."""
        return [{name: row.get(name) for name in COLUMNS} for row in self.table]


@checked
def sweep(
    source: str | Path | Mapping[str, Any],
    out: str | Path,
    *,
    all_plans: bool = False,
    workers: int | None = None,
    dask: str | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
    started: Callable[[SweepSize], None] | None = None,
) -> SweepResult:
    """The best plan of every question of a sweep, as a Parquet table and a page in a directory.

    What an earlier run in that directory has answered is not asked again, however it ended. source: a sweep file, or
    the same as a table; out: the directory; all_plans: write all legal plans of each question too; workers: processes,
    a count, one for each core where none is given, 1: this process; dask: the address of a Dask scheduler, or `local`,
    whose workers do the work in their place; executor: any other that does; progress: told (plans priced, plans in
    all), and where it stops, what was answered is the answer; started: told the size before the work starts.
    Raises `InvalidSpec` with every mistake of the file before anything is done, and `InvalidInput` where pyarrow is
    missing, the directory cannot be written to, or a worker is lost; what was answered is kept.
    """
    asked = read_sweep(source)
    require_parquet()
    questions = [(question, _key(question)) for question in asked.questions()]
    _require_one([question for question, _ in questions])
    with opened(out, all_plans) as folder:
        known = folder.known()
        open_ = {
            key: question.inputs
            for question, key in questions
            if isinstance(question.inputs, Inputs) and not _answered(key, known, folder, all_plans)
        }
        if open_ or started:
            with nullcontext(executor) if executor else executor_of(workers if open_ else 1, dask) as pool:
                sizes = _sizes(open_, pool)
                if started:
                    started(_size([question for question, _ in questions], open_, sizes))
                known |= _answers(open_, sizes, folder, all_plans, pool, progress)
        reached = [(question, key) for question, key in questions if key not in open_ or key in known]
        rows = [_row(question, key, known, asked) for question, key in reached]
        if len(rows) == len(questions):
            folder.finish(rows, page_of(rows), all_plans)
    plans, unanswered = folder.plans if all_plans else None, len(questions) - len(rows)
    return SweepResult(tuple(rows), folder.best, plans, folder.page, unanswered)


def _key(question: SweepQuestion) -> str:
    """What an answer is known by: of equal questions to equal planners the same; nothing for what is no question."""
    if not isinstance(question.inputs, Inputs):
        return ""
    return hashlib.sha256(f"{planner_hash()} {question.inputs.content_hash}".encode()).hexdigest()[:KEY]


def _require_one(questions: list[SweepQuestion]) -> None:
    """Raise `InvalidInput` where every question is refused before it is asked."""
    refusals = [question.inputs for question in questions if isinstance(question.inputs, InvalidInput)]
    if not questions:
        raise InvalidInput("the sweep asks nothing: models, clusters and jobs must hold one or more each")
    if len(refusals) == len(questions):
        reasons = [*dict.fromkeys(map(str, refusals))]
        listed = "".join(f"\n- {reason}" for reason in reasons[:REASONS])
        more = f"\n- and {len(reasons) - REASONS} more" if len(reasons) > REASONS else ""
        raise InvalidInput(f"none of the {len(questions)} questions of the sweep can be asked:{listed}{more}")


def _answered(key: str, known: Mapping[str, Row], folder: SweepFolder, all_plans: bool) -> bool:
    return key in known and (not all_plans or known[key]["status"] == REFUSED or folder.has_plans(key))


def _sizes(open_: Asked, executor: Executor) -> dict[str, int]:
    sizes: dict[str, int] = {}
    pieces = [dict(piece) for piece in _pieces([*open_.items()])]
    for _, counted in results(sizes_of, pieces, executor):
        sizes |= counted
    return sizes


def _pieces(items: list[tuple[str, Inputs]]) -> Iterator[list[tuple[str, Inputs]]]:
    return (items[start : start + COUNTED] for start in range(0, len(items), COUNTED))


def _size(questions: list[SweepQuestion], open_: Asked, sizes: Mapping[str, int]) -> SweepSize:
    refused = sum(not isinstance(question.inputs, Inputs) for question in questions)
    return SweepSize(len(questions), refused, len(questions) - refused - len(open_), sum(sizes.values()))


def _answers(
    open_: Asked,
    sizes: Mapping[str, int],
    folder: SweepFolder,
    all_plans: bool,
    executor: Executor,
    progress: Progress | None,
) -> dict[str, Row]:
    """The answers of all open questions by key, each written before the next is counted as done."""
    plans = folder.plans if all_plans else None
    batches = [Batch(questions, planner_hash(), plans) for questions in _batches(open_, sizes)]
    answers: dict[str, Row] = {}
    total = sum(sizes.values())

    def look(done: int = 0, _: int = 0) -> None:
        if progress:
            progress(sum(sizes[key] for key in answers) + done, total)

    work = partial(answers_of, progress=look) if isinstance(executor, InProcess) else answers_of
    try:
        for _, batch in results(work, batches, executor, look=look):
            folder.keep(batch)
            answers |= batch
        look()
    except Stopped:
        if isinstance(executor, Processes):
            executor.stop.set()
        return answers
    except Exception as error:
        if not lost_worker(error):
            raise
        what = "a worker ended in the middle of its work, for want of memory perhaps; what was answered is kept"
        raise InvalidInput(f"{what}: run the same sweep again, with fewer workers if need be") from None
    return answers


def _batches(open_: Asked, sizes: Mapping[str, int]) -> Iterator[Asked]:
    """Questions in a row that together have about as many plans as one worker should get."""
    batch: Asked = {}
    plans = 0
    for key, inputs in open_.items():
        if batch and (plans + sizes[key] > MOST_PLANS or len(batch) == MOST_QUESTIONS):
            yield batch
            batch, plans = {}, 0
        batch[key] = inputs
        plans += sizes[key]
    if batch:
        yield batch


def _row(question: SweepQuestion, key: str, known: Mapping[str, Row], asked: Sweep) -> Row:
    """What was asked, what was answered, and what training costs at the prices of the sweep."""
    row: Row = {**known.get(key, {}), **labels_of(question, key)}
    hours, price = row.get("accelerator_hours"), asked.prices.get(question.cluster)
    return row | {"cost": None if hours is None or price is None else hours * price}
