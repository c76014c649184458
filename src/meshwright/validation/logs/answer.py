"""Runs of logs from Python: each measured, and predicted where its launch file is given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

from meshwright.answers.document.answer import Answer
from meshwright.answers.document.blocks import Block
from meshwright.answers.files import writable, write_whole
from meshwright.arguments import checked
from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file
from meshwright.reprs import list_of
from meshwright.validation.logs.arguments import question_of_log
from meshwright.validation.logs.log import read_log
from meshwright.validation.logs.runs import MeasuredRun, measured_runs, rows_csv
from meshwright.validation.logs.screen import runs_document, runs_screen


@dataclass(frozen=True, repr=False)
class RunsAnswer(Answer, Sequence[MeasuredRun]):
    """The runs of logs, from `meshwright.runs`: a sequence of them, and a table."""

    runs: tuple[MeasuredRun, ...]
    question: LaunchQuestion | None
    """Of their launch file."""

    def __len__(self) -> int:
        return len(self.runs)

    @overload
    def __getitem__(self, index: int) -> MeasuredRun: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[MeasuredRun, ...]: ...

    def __getitem__(self, index: int | slice) -> MeasuredRun | tuple[MeasuredRun, ...]:
        return self.runs[index]

    def __iter__(self) -> Iterator[MeasuredRun]:
        return iter(self.runs)

    def __repr__(self) -> str:
        return list_of("<RunsAnswer", [repr(run).removeprefix("<MeasuredRun ").rstrip(">") for run in self.runs]) + ">"

    def to_dict(self) -> dict[str, Any]:
        """What `meshwright runs --json` prints."""
        return runs_document(self.runs, self.question)

    def blocks(self) -> tuple[Block, ...]:
        """The screen of `meshwright runs`."""
        return runs_screen(self.runs, self.question)

    def rows(self) -> list[dict[str, Any]]:
        """The runs: seconds of a step and GiB by kind, measured and predicted, and errors as shares."""
        kinds = dict.fromkeys(kind for run in self.runs for kind in run.log.gib)
        return [_cells(run, kinds) for run in self.runs]


@checked
def runs(
    logs: str | Path | Iterable[str | Path],
    launch_file: str | Path | None = None,
    cluster: str | None = None,
    *,
    model: str | None = None,
    runtime: str | None = None,
    output_file: str | Path | None = None,
) -> RunsAnswer:
    """The runs of logs, each measured and, with their launch file, predicted.

    logs: one or several, each a file, gzipped or not, or a folder with the files of one run's ranks; launch_file: a
    framework's script or configuration, which is read and never run, or none where the log of Megatron-LM holds its
    arguments; cluster, model: what that file does not say; runtime: priced as another one; output_file: a CSV table to
    write, as `validate --runs` takes it. Raises `InvalidInput` for a log without steps, with what was looked for, and
    where log and launch file contradict each other.
    """
    table = writable(output_file) if output_file is not None else None
    paths = [logs] if isinstance(logs, str | Path) else logs
    read = [read_log(Path(each)) for each in paths]
    question, given = None, Given(cluster=cluster, model=model, runtime=runtime)
    if launch_file is not None:
        question = question_of_file(Path(launch_file), given)
    elif cluster is not None and read:
        question = question_of_log(read[0], given)
    measured = measured_runs(read, question)
    if table:
        write_whole(table, rows_csv([run.row for run in measured]))
    return RunsAnswer(tuple(measured), question)


def _cells(run: MeasuredRun, kinds: Iterable[str]) -> dict[str, Any]:
    cells: dict[str, Any] = {
        "log": str(run.log.path),
        "framework": run.log.framework,
        "plan": str(run.estimate.plan) if run.estimate else None,
        "step_time_measured_s": run.step_time_s,
        "step_time_predicted_s": run.step_time.predicted if run.step_time else None,
        "step_time_error": run.step_time.error if run.step_time else None,
    }
    for kind in kinds:
        pair = (run.memory or {}).get(kind)
        cells[f"{kind}_measured_gib"] = run.log.gib.get(kind)
        cells[f"{kind}_predicted_gib"] = pair.predicted if pair else None
    return cells
