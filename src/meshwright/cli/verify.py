"""The command that runs a plan on PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from meshwright.cli.options import AsJson
from meshwright.cli.show import show

if TYPE_CHECKING:
    from meshwright.layout.plan import Plan
    from meshwright.specs.inputs import Inputs


def verify(
    inputs: Inputs,
    plan: Plan,
    full: Annotated[bool, typer.Option("--full", help="run every layer, not two and four of each kind")] = False,
    as_json: AsJson = False,
) -> None:
    """Run one plan on PyTorch, on fake tensors in a world of full size, and compare; exit code 1 if a figure is off."""
    from meshwright.pytorch.report import verification_document, verification_screen
    from meshwright.pytorch.verify import verify as run

    done = run(plan, inputs, full=full)
    show(verification_document(done) if as_json else verification_screen(done), as_json)
    if not done.holds:
        raise typer.Exit(1)
