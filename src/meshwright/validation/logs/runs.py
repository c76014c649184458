"""Runs: what logs measured beside what is predicted for their launch file, and the rows that hold it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from meshwright.answers.basis.uncertainty import Interval, step_time_interval
from meshwright.cost.estimate import Estimate
from meshwright.cost.step import estimate_each
from meshwright.errors import InvalidInput
from meshwright.launch.imports.question import LaunchQuestion
from meshwright.layout.legality import require_legal
from meshwright.reprs import lines_of
from meshwright.text_files import csv_text
from meshwright.units import format_seconds
from meshwright.validation.logs.log import RunLog
from meshwright.validation.outcomes import KINDS, Pair, predicted_gib
from meshwright.validation.rows.table import COLUMNS, Row
from meshwright.validation.rows.written import row_of

ARGUMENTS = {
    "tensor_model_parallel_size": "tp",
    "pipeline_model_parallel_size": "pp",
    "context_parallel_size": "cp",
    "expert_model_parallel_size": "ep",
    "micro_batch_size": "micro_batch",
    "data_parallel_size": "dp",
}
"""Arguments that Megatron prints when it starts, and the field of the plan that they are."""


@dataclass(frozen=True)
class MeasuredRun:
    """One run: its log, and what is predicted for it where its launch file is given."""

    log: RunLog
    row: Row
    step_time_s: float | None
    """Measured: the median; None: the log has a rate, and no launch file says of what."""
    step_time: Pair | None = None
    memory: dict[str, Pair] | None = None
    """GiB by kind."""
    estimate: Estimate | None = None
    interval: Interval | None = None

    def __repr__(self) -> str:
        measured = "no step time" if self.step_time_s is None else f"{format_seconds(self.step_time_s)} a step measured"
        pair = self.step_time
        predicted = f", {format_seconds(pair.predicted)} predicted ({pair.error:+.1%})" if pair else ""
        return lines_of(f"<MeasuredRun {self.log.path}: {measured}{predicted}>")


def measured_runs(logs: Sequence[RunLog], question: LaunchQuestion | None) -> list[MeasuredRun]:
    """Every log beside what is predicted for the plan of the launch file; raises `InvalidInput` where they contradict
    each other, and `IllegalPlan` for a plan that its framework refuses.
    """
    if question is None:
        return [_unplanned(log) for log in logs]
    require_legal(question.plan, question.inputs)
    (estimate,) = estimate_each([question.plan], question.inputs)
    interval = step_time_interval(estimate, question.inputs)
    row = row_of(question.plan, question.inputs)
    return [_planned(log, question, estimate, interval, row) for log in logs]


def rows_csv(rows: Sequence[Row]) -> str:
    """A table of measured runs, of the columns that any row fills."""
    used = [column for column in COLUMNS if any(row[column] for row in rows)]
    return csv_text(used, rows)


def _unplanned(log: RunLog) -> MeasuredRun:
    """What a log alone says: the row lacks its model and its plan."""
    seconds = log.typical.median if log.pace == "steps" else None
    row = dict.fromkeys(COLUMNS, "") | _measured_columns(log, seconds)
    if log.typical.batch:
        row["global_batch_size"] = str(log.typical.batch)
    if log.pace == "tokens of a GPU":
        row["tokens_per_s_per_gpu"] = f"{1 / log.typical.median:.6g}"
    return MeasuredRun(log=log, row=row, step_time_s=seconds)


def _planned(log: RunLog, question: LaunchQuestion, estimate: Estimate, interval: Interval, row: Row) -> MeasuredRun:
    _require_same_run(log, question)
    seconds = log.typical.median * _units_of_a_step(log, question)
    memory = {kind: Pair(gib, _predicted(log, kind, estimate)) for kind, gib in log.gib.items() if kind in KINDS}
    return MeasuredRun(
        log=log,
        row=row | _measured_columns(log, seconds) | {"dataset": question.path.stem, "config_key": question.path.name},
        step_time_s=seconds,
        step_time=Pair(seconds, estimate.step_time_s),
        memory=memory,
        estimate=estimate,
        interval=interval,
    )


def _units_of_a_step(log: RunLog, question: LaunchQuestion) -> float:
    """How many of what the log counts a second make one step."""
    job, ranks = question.inputs.job, question.inputs.cluster.num_gpus
    return {
        "steps": 1,
        "samples": job.global_batch,
        "tokens": job.tokens_per_step,
        "tokens of a GPU": job.tokens_per_step / ranks,
    }[log.pace]


def _predicted(log: RunLog, kind: str, estimate: Estimate) -> float:
    """GiB on the stage of the one rank whose memory is printed, else on the worst one."""
    rank, plan = log.rank(kind), estimate.plan
    if rank is None or rank >= plan.num_gpus or len(estimate.stages) == 1:
        return predicted_gib(estimate.memory, kind)
    return predicted_gib(estimate.stages[rank * plan.pp // plan.num_gpus].memory, kind)


def _measured_columns(log: RunLog, seconds: float | None) -> Row:
    typical = log.typical
    kind = next((kind for kind in KINDS if kind in log.gib), "")
    rank = log.rank(kind) if kind else None
    notes = f"median of {typical.used} lines from step {typical.first_step}; {typical.warm_up} left out at the start"
    return {
        "id": log.path.stem,
        "quality": "ok",
        "fits": "yes",
        "step_time_s": f"{seconds:.6g}" if seconds else "",
        "memory_gib": f"{log.gib[kind]:.6g}" if kind else "",
        "memory_kind": kind,
        "memory_rank": "" if rank is None else str(rank),
        "source": log.path.name,
        "notes": notes,
    }


def _require_same_run(log: RunLog, question: LaunchQuestion) -> None:
    """Raise `InvalidInput` where what a log prints of its run is not what the launch file says."""
    plan, inputs = question.plan, question.inputs
    told = {"global batch size": (log.typical.batch, inputs.job.global_batch)} if log.typical.batch else {}
    wanted = {name: getattr(plan, field) for name, field in ARGUMENTS.items()}
    wanted |= {"world_size": inputs.cluster.num_gpus, "seq_length": inputs.job.sequence_length}
    for name, value in wanted.items():
        printed = log.arguments.get(name, "")
        if printed.isascii() and printed.isdecimal() and len(printed) < 10:
            told[name] = (int(printed), value)
    wrong = [
        f"{name} is {printed} in the log and {value} there"
        for name, (printed, value) in told.items()
        if printed != value
    ]
    if wrong:
        raise InvalidInput(
            f"the log {str(log.path)!r} is not of a run of {str(question.path)!r} on {inputs.cluster.name}: "
            f"{'; '.join(wrong)}; name its own launch file and cluster"
        )
