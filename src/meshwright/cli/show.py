"""Show: an answer on standard output."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer

from meshwright.errors import INTERRUPTED

if TYPE_CHECKING:
    from meshwright.layout.plan import Plan
    from meshwright.specs.inputs import Inputs


def show(answer: Any, as_json: bool) -> None:
    """Print an answer: as JSON, or as a screen for the width of the terminal.

    answer: what JSON holds; or blocks of a document, or what rich prints.
    """
    if as_json:
        import json

        print(json.dumps(answer, indent=2, allow_nan=False).replace("\x7f", r"\u007f"), flush=True)
        return
    from rich.console import Console

    from meshwright.answers.document.terminal import terminal

    screen = terminal(answer) if isinstance(answer, tuple) else answer
    Console(markup=False, emoji=False, highlight=False).print(screen, crop=False)


def show_cited(answer: Any, plans: list[Plan], inputs: Inputs, as_json: bool) -> None:
    """Print an answer about plans with the papers and the data behind it."""
    from meshwright.answers.basis.cite import citation_list, citations
    from meshwright.answers.records import json_of

    if as_json:
        show(answer | {"citations": json_of(citations(plans, inputs))}, as_json)
    else:
        show(answer, as_json)
        show(citation_list(plans, inputs), as_json)


def end_where(stopped: bool) -> None:
    """Exit as an interrupted command where what was asked was stopped, after its answer."""
    if stopped:
        print("meshwright: stopped early; this answer is not complete", file=sys.stderr)
        raise typer.Exit(INTERRUPTED)
