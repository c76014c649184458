"""Runs of logs, as JSON and on a screen: predicted, measured and the difference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from meshwright.answers.document.blocks import Block, Bullets, Heading, Lines, Table
from meshwright.answers.records import document_of
from meshwright.answers.words import plural
from meshwright.launch.imports.question import LaunchQuestion
from meshwright.units import GIB, format_gib, format_seconds
from meshwright.validation.logs.log import RunLog
from meshwright.validation.logs.runs import MeasuredRun
from meshwright.validation.outcomes import Pair

SCHEMA = "meshwright.runs/1"
SHOWN = 8
"""Steps that a line lists."""
UNITS = {"steps": "", "samples": " a sample", "tokens": " a token", "tokens of a GPU": " a token of one GPU"}


def runs_document(measured: Sequence[MeasuredRun], question: LaunchQuestion | None) -> dict[str, Any]:
    """Every run with its steps, its memory and, with a launch file, what is predicted."""
    entries = [
        {
            "log": str(run.log.path),
            "framework": run.log.framework,
            "counts": run.log.pace,
            "lines": {key: value for key, value in run.log.typical._asdict().items() if key != "outliers"},
            "outliers": [each._asdict() | {"why": run.log.why.get(each.step)} for each in run.log.typical.outliers],
            "memory_gib": run.log.memory,
            "step_time_s": _pair(run.step_time) or {"measured": run.step_time_s},
            "interval": run.interval._asdict() if run.interval else None,
            "memory": {kind: _pair(pair) for kind, pair in (run.memory or {}).items()},
            "row": {column: value for column, value in run.row.items() if value},
        }
        for run in measured
    ]
    planned = (
        {"launch_file": str(question.path), "notes": question.notes, "plan": question.plan, "inputs": question.inputs}
        if question
        else {}
    )
    return document_of(schema=SCHEMA, **planned, runs=entries)


def _pair(pair: Pair | None) -> dict[str, float] | None:
    return {"measured": pair.measured, "predicted": pair.predicted, "error": pair.error} if pair else None


def runs_screen(measured: Sequence[MeasuredRun], question: LaunchQuestion | None) -> tuple[Block, ...]:
    """What was read, predicted beside measured, and what stands out."""
    return tuple(block for run in measured for block in _run(run, question))


def _run(run: MeasuredRun, question: LaunchQuestion | None) -> Iterator[Block]:
    yield Lines((f"Log: **{run.log.path}**", f"{run.log.framework}: {steps_line(run.log)}"))
    if question and run.estimate and run.step_time and run.interval:
        ranks = question.inputs.cluster.num_gpus
        tokens = question.inputs.job.tokens_per_step / ranks
        yield Lines((f"Plan of {question.path.name}: **{run.estimate.plan}** on {question.inputs.cluster.name}",))
        step, pace = run.step_time, Pair(tokens / run.step_time.measured, tokens / run.step_time.predicted)
        rows = [
            ("step time", format_seconds(step.predicted), format_seconds(step.measured), _error(step)),
            ("tokens/s/GPU", f"{pace.predicted:,.0f}", f"{pace.measured:,.0f}", _error(pace)),
        ]
        for kind, pair in (run.memory or {}).items():
            rows.append(
                (f"memory, {kind}", format_gib(pair.predicted * GIB), format_gib(pair.measured * GIB), _error(pair))
            )
        low, high = format_seconds(run.interval.p10), format_seconds(run.interval.p90)
        inside = run.interval.p10 <= step.measured <= run.interval.p90
        where = "inside" if inside else "outside"
        note = f"8 in 10 runs like this take {low} to {high}; this one is {where} that range."
        yield Table(("", "predicted", "measured", "difference"), tuple(rows), note=note)
    else:
        yield Lines((*_alone(run),))
    if notes := [*_notes(run), *(question.notes if question else ())]:
        yield Heading("Notes on these figures", 3)
        yield Bullets(tuple(notes))


def steps_line(log: RunLog) -> str:
    """What was taken of a log, and how far its steps spread."""
    typical, unit = log.typical, UNITS[log.pace]
    spread = f"8 in 10 are between {_in(typical.p10, log)} and {_in(typical.p90, log)}"
    left = f", without {plural(typical.warm_up, 'warm-up line')}" if typical.warm_up else ""
    other = f", without {typical.other_batch} of another global batch" if typical.other_batch else ""
    return f"median {_in(typical.median, log)}{unit} of {typical.used} lines{left}{other}; {spread}"


def _in(seconds: float, log: RunLog) -> str:
    return format_seconds(seconds) if log.pace == "steps" else f"{seconds:.3g} s"


def _alone(run: MeasuredRun) -> Iterator[str]:
    if run.log.pace == "tokens of a GPU":
        yield f"{1 / run.log.typical.median:,.0f} tokens/s/GPU"
    elif run.step_time_s:
        yield f"step time {format_seconds(run.step_time_s)}"
    yield from (f"memory, {kind}: {format_gib(gib * GIB)}" for kind, gib in run.log.gib.items())
    yield "To compare this with a prediction, add the launch file and the cluster: --from run.sh --cluster 8x8:h100"


def _notes(run: MeasuredRun) -> Iterator[str]:
    log = run.log
    if outliers := log.typical.outliers:
        shown = [f"{each.step} ({_in(each.seconds, log)}{_why(log, each.step)})" for each in outliers[:SHOWN]]
        more = f" and {len(outliers) - SHOWN} more" if len(outliers) > SHOWN else ""
        yield f"steps much slower than the median, which they do not affect: {', '.join(shown)}{more}"
    if log.typical.used < 5:
        yield f"a median of only {log.typical.used} lines is unreliable; log more steps"
    if run.row["refused"]:
        yield f"validate cannot predict this run: {run.row['refused']}"
    pipelined = run.estimate and run.estimate.plan.pp > 1
    for kind, ranks in log.memory.items():
        if pipelined and [*ranks] == [""]:
            yield f"{kind} memory: the log does not say which rank this is; it is compared with the fullest stage"


def _why(log: RunLog, step: int) -> str:
    return f", {log.why[step]}" if step in log.why else ""


def _error(pair: Pair) -> str:
    return f"{pair.error:+.1%}"
