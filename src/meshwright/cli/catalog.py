"""Commands that show what is known: a model, and the catalogue."""

from __future__ import annotations

from typing import Annotated

import typer

from meshwright.cli import completion
from meshwright.cli.options import AsJson, TextOnly
from meshwright.cli.show import show
from meshwright.errors import InvalidInput


def show_model(
    source: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            autocompletion=completion.models,
            help="config.json, its folder, a TOML file or a catalogue name",
        ),
    ],
    text_only: TextOnly = False,
    as_json: AsJson = False,
) -> None:
    """Show a model's architecture, its parameters by part, and which tp, pp and ep divide it."""
    from meshwright.answers.model_table import model_document, model_screen
    from meshwright.specs.reading.model import read_model

    model = read_model(source, text_only=text_only)
    show(model_document(model) if as_json else model_screen(model), as_json)


def catalog(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND", autocompletion=completion.kinds, help="models, accelerators, clusters or runtimes"
        ),
    ],
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="one entry, with its sources")] = None,
    as_json: AsJson = False,
) -> None:
    """List the known models, accelerators, clusters or runtimes, or show one with its sources."""
    from meshwright.answers.catalog_table import catalog_document, catalog_screen

    show(catalog_document(kind, name) if as_json else catalog_screen(kind, name), as_json)


def show_legend(
    words: Annotated[list[str], typer.Argument(metavar="PLAN", help='the name of a plan, as "tp8 sp pp2 zero1 m64"')],
    as_json: AsJson = False,
) -> None:
    """Explain each part of a plan's name."""
    from meshwright.answers.document.blocks import Table
    from meshwright.answers.plans.legend import legend

    name = " ".join(words)
    if not name.strip():
        raise InvalidInput('the name of a plan is empty; write one, as "tp8 sp pp2 zero1 m64"')
    rows = legend(name)
    show(dict(rows) if as_json else (Table(("word", "meaning"), tuple(rows), "ll"),), as_json)
