"""Show: an answer on standard output."""

from __future__ import annotations

from typing import Any


def show(answer: Any, as_json: bool) -> None:
    """Print an answer: as JSON, or as a screen for the width of the terminal.

    answer: what JSON holds; or blocks of a document, or what rich prints.
    """
    if as_json:
        import json

        print(json.dumps(answer, indent=2, allow_nan=False), flush=True)
        return
    from rich.console import Console

    from meshwright.answers.document.terminal import terminal

    screen = terminal(answer) if isinstance(answer, tuple) else answer
    Console(markup=False, emoji=False, highlight=False).print(screen)
