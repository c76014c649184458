"""Commands about one plan: what it costs and why, and which rules it keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from meshwright.cli.groups import grouped
from meshwright.cli.one_plan import OnePlanOptions, one_plan, require_default_legal
from meshwright.cli.options import AsJson, Cite, More, TimeLimit
from meshwright.cli.show import end_where, show, show_cited

NEAREST = "Looking for the nearest plan that works"


@grouped
def explain(
    context: typer.Context,
    asked: OnePlanOptions,
    as_json: AsJson = False,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write one step as a Chrome trace, which ui.perfetto.dev opens")
    ] = None,
    more: More = False,
    cite: Cite = False,
    time_limit: TimeLimit = None,
) -> None:
    """Price one plan: whether it fits, where its memory and time go, and what each change would do."""
    from meshwright.answers.brief import note_lines, on_one_screen
    from meshwright.answers.explain.alternatives import cheap_search
    from meshwright.answers.explain.brief import explain_briefs, explain_stopped
    from meshwright.answers.explain.table import explain_document, explain_screen
    from meshwright.answers.explain.trace import write_trace
    from meshwright.answers.files import writable
    from meshwright.answers.launch.existing import launch_file_entry, launch_file_faults, launch_file_screen
    from meshwright.answers.launch.patch import launch_patch, launch_patch_entry, launch_patch_section
    from meshwright.answers.progress.progress import stoppable_progress
    from meshwright.cost.step import estimate_each
    from meshwright.launch.imports.patch import as_changed
    from meshwright.layout.legality import require_legal

    one = one_plan(context, asked)
    require_default_legal(one)
    inputs, plan, variation, launch, note = one
    told = as_changed(launch, plan, inputs) if launch else None
    if not variation:
        require_legal(plan, inputs, launch_file_faults(launch))
    with stoppable_progress(what=NEAREST) as progress:
        estimate = variation.priced(progress) if variation else estimate_each([plan], inputs)[0]
    traced = writable(trace, "--trace") if trace is not None else None
    if traced:
        write_trace(traced, estimate, inputs)

    before, of_file = (*launch_file_screen(told), *note_lines(note)), launch is not None

    def whole() -> Any:
        change = launch_patch(launch, estimate, near, variation)
        if as_json:
            explained: Any = explain_document(estimate, inputs, near, variation, of_file=of_file)
            return explained | launch_file_entry(told) | launch_patch_entry(change)
        beside = before, launch_patch_section(launch, change)
        if more or cite:
            return on_one_screen([explain_screen(estimate, inputs, near, variation, of_file=of_file)], *beside)
        return on_one_screen(explain_briefs(estimate, inputs, near, variation, of_file=of_file), *beside)

    with stoppable_progress(time_limit) as progress:
        near = cheap_search(inputs, progress)
        document = progress.at_once(whole)
    if document is None and as_json:
        brief = explain_document(estimate, inputs, variation=variation, complete=False, of_file=of_file)
        document = brief | launch_file_entry(told)
    elif document is None:
        document = *before, *explain_stopped(estimate, inputs, of_file=of_file)
    if cite:
        show_cited(document, [plan], inputs, as_json)
    else:
        show(document, as_json)
    end_where(progress.stopped)


@grouped
def check(context: typer.Context, asked: OnePlanOptions, more: More = False, as_json: AsJson = False) -> None:
    """Check one plan against every rule of its runtime; exit code 2 if one is broken."""
    from meshwright.answers.brief import note_lines
    from meshwright.answers.explain.check import check_document, check_of, check_screen
    from meshwright.answers.launch.existing import launch_file_entry, launch_file_screen
    from meshwright.answers.progress.progress import stoppable_progress
    from meshwright.launch.imports.patch import as_changed

    inputs, plan, variation, launch, note = one_plan(context, asked)
    launch = as_changed(launch, plan, inputs) if launch else None
    checked = check_of(plan, inputs, launch.rules if launch else None)
    with stoppable_progress(what=NEAREST) as progress:
        answer: Any = (
            check_document(checked, variation, progress) | launch_file_entry(launch)
            if as_json
            else (
                *(*launch_file_screen(launch), *note_lines(note)),
                *check_screen(checked, inputs, variation, progress, of_file=launch is not None, more=more),
            )
        )
    show(answer, as_json)
    if not checked.legal:
        raise typer.Exit(2)
