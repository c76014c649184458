"""Commands about one plan: what it costs and why, and which rules it keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from meshwright.cli.groups import grouped
from meshwright.cli.one_plan import OnePlanOptions, one_plan
from meshwright.cli.options import AsJson, Cite, More
from meshwright.cli.show import show, show_cited


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
) -> None:
    """Price one plan: whether it fits, where its memory and time go, and what every single change would do."""
    import time

    from meshwright.answers.alternatives import cheap_search
    from meshwright.answers.brief import on_one_screen
    from meshwright.answers.explain_brief import explain_briefs
    from meshwright.answers.explain_table import explain_document, explain_screen
    from meshwright.answers.files import writable
    from meshwright.answers.launch_file import launch_file_entry, launch_file_screen
    from meshwright.answers.launch_patch import launch_patch, launch_patch_entry, launch_patch_section
    from meshwright.answers.trace import write_trace
    from meshwright.cost.step import estimate_each
    from meshwright.layout.legality import require_legal

    inputs, plan, variation, launch = one_plan(context, asked)
    started = time.perf_counter()
    if not variation:
        require_legal(plan, inputs)
    estimate = variation.estimate if variation else estimate_each([plan], inputs)[0]
    traced = writable(trace, "--trace") if trace is not None else None
    near = cheap_search(inputs)
    if traced:
        write_trace(traced, estimate, inputs)
    elapsed = time.perf_counter() - started
    change = launch_patch(launch, estimate, near, variation)
    if as_json:
        document: Any = explain_document(estimate, inputs, elapsed, near, variation)
        document |= launch_file_entry(launch) | launch_patch_entry(change)
    else:
        beside = launch_file_screen(launch), launch_patch_section(launch, change)
        whole = more or cite
        answers = (
            [explain_screen(estimate, inputs, near, variation)]
            if whole
            else explain_briefs(estimate, inputs, near, variation)
        )
        document = on_one_screen(answers, *beside)
    if cite:
        show_cited(document, [plan], inputs, as_json)
    else:
        show(document, as_json)


@grouped
def check(context: typer.Context, asked: OnePlanOptions, as_json: AsJson = False) -> None:
    """Check one plan against every rule of its runtime; exit code 2 if one is broken."""
    from meshwright.answers.check_table import check_document, check_of, check_screen
    from meshwright.answers.launch_file import launch_file_entry, launch_file_screen

    inputs, plan, variation, launch = one_plan(context, asked)
    checked = check_of(plan, inputs)
    if as_json:
        show(check_document(checked, variation) | launch_file_entry(launch), as_json)
    else:
        show((*launch_file_screen(launch), *check_screen(checked, inputs, variation)), as_json)
    if not checked.legal:
        raise typer.Exit(2)
