"""The command `limits`: how far a question can be taken."""

from __future__ import annotations

import typer

from meshwright.cli.groups import (
    ConstraintOptions,
    JobOptions,
    RuntimeOptions,
    SubjectOptions,
    grouped,
    inputs_of,
    require_subject,
)
from meshwright.cli.options import AsJson, TimeLimit, Workers
from meshwright.cli.show import end_where, show


@grouped
def limits(
    context: typer.Context,
    subject: SubjectOptions,
    job: JobOptions,
    framework: RuntimeOptions,
    allowed: ConstraintOptions,
    time_limit: TimeLimit = None,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Find the longest sequence, the fewest nodes and the largest micro-batch that fit safely."""
    from meshwright.answers.limits_table import limits_document, limits_screen
    from meshwright.answers.progress.progress import stoppable_progress
    from meshwright.search.executors import executor_of
    from meshwright.search.many_searches.limits import limits as limits_of

    named = subject.named(context.info_name)
    require_subject(named, "meshwright limits", "by --model and --cluster")
    inputs = inputs_of(named, job, framework, allowed=allowed)
    with stoppable_progress(time_limit) as progress, executor_of(workers) as executor:
        result = limits_of(inputs, progress, executor)
        if result.complete and not (result.asked.best or result.sequence or result.nodes):
            from meshwright.answers.unfit.nothing_fits import nothing_fits_or_stopped

            raise nothing_fits_or_stopped(result.asked, progress)
    show(limits_document(result) if as_json else limits_screen(result), as_json)
    end_where(progress.stopped)
