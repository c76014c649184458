"""The command that reads logs of training runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from meshwright.cli.groups import grouped, refuse_given
from meshwright.cli.launch_file import ABOUT_A_FILE, OF_A_FILE, LaunchFileOptions, read_question
from meshwright.cli.options import AsJson, ModelIfAny, RuntimeName
from meshwright.cli.show import show


@grouped
def runs(
    context: typer.Context,
    logs: Annotated[list[Path], typer.Argument(metavar="LOG...", help="log files of one run, or a folder of them")],
    launch: LaunchFileOptions,
    cluster: Annotated[str | None, typer.Option(help="the cluster of the run, as in plan")] = None,
    model: ModelIfAny = None,
    runtime: RuntimeName = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="RUNS.csv", help="write rows for validate --runs and --measured")
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="TRACE.json", help="PyTorch profiler trace (.gz too), to show which part differs"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read step times and memory from training logs and compare them with the prediction for their launch file."""
    from meshwright.answers.files import writable, write_whole
    from meshwright.launch.imports.question import Given
    from meshwright.validation.logs.arguments import question_of_log
    from meshwright.validation.logs.log import read_log
    from meshwright.validation.logs.runs import measured_runs, rows_csv
    from meshwright.validation.logs.screen import runs_document, runs_screen
    from meshwright.validation.profile.parts import step_parts
    from meshwright.validation.profile.screen import trace_document, trace_screen
    from meshwright.validation.profile.spans import read_spans

    table = writable(out, "--out") if out else None
    question = read_question(launch, model, cluster, runtime) if launch.from_file else None
    if question is None:
        refuse_given(context, OF_A_FILE if cluster else (*OF_A_FILE, "model", "runtime"), ABOUT_A_FILE)
    read = [read_log(path) for path in logs]
    if question is None and cluster:
        question = question_of_log(read[0], Given(cluster=cluster, model=model, runtime=runtime))
    measured = measured_runs(read, question)
    parts = None
    if trace:
        plan, inputs = (question.plan, question.inputs) if question else (None, None)
        parts = step_parts(read_spans(trace, plan, inputs), measured[0].estimate, inputs)
    if table:
        write_whole(table, rows_csv([run.row for run in measured]))
    if as_json:
        show(runs_document(measured, question) | trace_document(trace, parts), as_json)
    else:
        show((*runs_screen(measured, question), *trace_screen(trace, parts)), as_json)
