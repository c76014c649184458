"""The command that runs a plan on PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from meshwright.cli.groups import grouped
from meshwright.cli.one_plan import OnePlanOptions, inputs_and_plan
from meshwright.cli.options import AsJson, TimeLimit
from meshwright.cli.show import show
from meshwright.errors import NO_ANSWER, InvalidInput, Stopped

if TYPE_CHECKING:
    from meshwright.answers.document.blocks import Block
    from meshwright.layout.plan import Plan
    from meshwright.search.stop import Progress
    from meshwright.specs.inputs import Inputs


@grouped
def verify(
    context: typer.Context,
    asked: OnePlanOptions,
    full: Annotated[bool, typer.Option("--full", help="run every layer instead of two and four of each kind")] = False,
    real: Annotated[
        int | None, typer.Option(metavar="N", help="train a small model with N real processes instead, 2 to 4")
    ] = None,
    time_limit: TimeLimit = None,
    as_json: AsJson = False,
) -> None:
    """Run one plan in PyTorch on fake tensors and compare with the prediction; exit code 1 if they differ."""
    if real is not None and full:
        raise InvalidInput("--full is about fake tensors, and --real trains a small model; leave out one or the other")
    inputs, plan = inputs_and_plan(context, asked, legal=real is None)
    from meshwright.answers.progress.progress import stoppable_progress

    with stoppable_progress(time_limit, "Running ranks on PyTorch", patience_s=0.0) as progress:
        verified = progress.at_once(
            lambda: _fake(inputs, plan, full, progress.show) if real is None else _real(inputs, plan, real)
        )
    if verified is None:
        raise Stopped(NO_ANSWER)
    show(verified.document if as_json else verified.blocks, as_json)
    if not verified.holds:
        raise typer.Exit(1)


class _Verified(NamedTuple):
    holds: bool
    document: dict[str, Any]
    blocks: tuple[Block, ...]


def _fake(inputs: Inputs, plan: Plan, full: bool, progress: Progress) -> _Verified:
    from meshwright.pytorch.fake_world.verify import verify as run
    from meshwright.pytorch.report import verification_blocks, verification_document

    done = run(plan, inputs, full=full, progress=progress)
    return _Verified(done.holds, verification_document(done), verification_blocks(done))


def _real(inputs: Inputs, plan: Plan, processes: int) -> _Verified:
    from meshwright.answers.records import json_of
    from meshwright.pytorch.real_world.real import run_for_real
    from meshwright.pytorch.report import real_blocks

    run = run_for_real(plan, inputs, processes)
    return _Verified(run.holds, {"name": str(plan), **json_of(run)}, real_blocks(run))
