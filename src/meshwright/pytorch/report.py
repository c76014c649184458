"""Report: what was held against PyTorch, as a screen and as JSON."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from meshwright.answers.document.terminal import terminal
from meshwright.answers.screen import headline
from meshwright.pytorch.fake_world.compare import CollectiveCount, Quantity, StageCheck
from meshwright.pytorch.fake_world.verify import Verification
from meshwright.units import GIB, MIB

SCHEMA = "meshwright.verification/1"
MOMENTS = {
    "forward": "in the forward pass",
    "head": "in the backward pass of the loss and the head",
    "last layer": "in the backward pass of the last layer",
    "next layer": "in the backward pass of the layer before the last",
    "between": "in the backward pass of a layer between",
    "first layer": "in the backward pass of the first layer",
    "embedding": "in the backward pass of the embedding, or as gradients are reduced",
    "optimizer": "in the optimizer's step",
}
STYLES = {True: "green", False: "bold red"}


def verification_screen(done: Verification) -> RenderableType:
    """The verdict, every stage's quantities, its peak and its traffic, and what was not compared."""
    parts: list[RenderableType] = [
        terminal([headline(done.inputs)]),
        Text(f"Plan: {done.plan}\n"),
        _verdict(done),
        _quantities(done),
    ]
    parts += [Text("\n".join(_peaks(done))), _traffic(done)]
    if done.scope.plan.pp > 1:
        parts.append(_orders(done))
    parts += [Text(note) for note in notes(done)]
    return Group(*parts)


def notes(done: Verification) -> list[str]:
    """How it was run, and what was not compared."""
    run, asked = done.scope.plan, done.plan
    layers = "all layers" if done.full else "two and four layers of each kind a chunk, extrapolated; --full runs all"
    told = [f"Run on fake tensors, one rank of every distinct stage of {run.num_gpus}, {layers}."]
    if run.num_microbatches < asked.num_microbatches:
        count = f"{run.num_microbatches} of {asked.num_microbatches}"
        told.append(f"Run with {count} micro-batches, for which the figures above are predicted too.")
    told.append("Exact: all but the peak, which may be 2 % off. Fragmentation and time are no part of this.")
    return told + [f"{note[0].upper()}{note[1:]}." for note in done.scope.unchecked]


def _verdict(done: Verification) -> Text:
    wrong = sum(stage.wrong + (not stage.order_holds) for stage in done.stages)
    told = "PyTorch agrees with every figure" if done.holds else f"PyTorch disagrees with {wrong} of the figures below"
    return Text(f"{told} ({done.elapsed_s:.0f} s).", style=STYLES[done.holds])


def _quantities(done: Verification) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("Stage", "Quantity"):
        table.add_column(name)
    for name in ("Planned", "PyTorch", "Ratio"):
        table.add_column(name, justify="right")
    for check in done.stages:
        for index, each in enumerate(check.quantities):
            stage = _stages(check) if index == 0 else ""
            figures = (_written(each, each.predicted), _written(each, each.observed), f"{each.ratio:.4f}")
            table.add_row(stage, each.name, *figures, style="" if each.holds else STYLES[False])
    return table


def _peaks(done: Verification) -> list[str]:
    """Where every stage's peak is."""
    lines = []
    for check in done.stages:
        if check.peak_at:
            moment, where = check.peak_at.split(": ", 1)
            operator = re.sub(r"^.*, ", "", where).split(".")
            name = ".".join(operator[:2]) if len(operator) > 1 else operator[0]
            lines.append(f"Stage {_stages(check)} peaks {MOMENTS[moment]}, at {name}.")
    return [*lines, ""]


def _written(quantity: Quantity, value: float) -> str:
    if quantity.unit == "count":
        return f"{value:,.0f}"
    return f"{value / GIB:.3f} GiB" if value >= GIB else f"{value / MIB:.2f} MiB"


def _stages(check: StageCheck) -> str:
    first, last = check.stages[0], check.stages[-1]
    return str(first) if first == last else f"{first}-{last}"


def _traffic(done: Verification) -> Table:
    """Collectives, those alike on several stages once."""
    table = Table(box=None, pad_edge=False, title="Collectives and messages of one rank", title_justify="left")
    for name in ("Stage", "Axis", "Kind", "Pass"):
        table.add_column(name)
    for name in ("Buffer", "Planned", "PyTorch"):
        table.add_column(name, justify="right")
    alike: dict[CollectiveCount, list[str]] = defaultdict(list)
    for check in done.stages:
        for each in check.collectives:
            alike[each].append(_stages(check))
    for each, stages in alike.items():
        axis, kind, number_format, size, phase = each.collective
        written = f"{size / MIB:,.2f} MiB {number_format}" if size >= MIB else f"{size:,} B {number_format}"
        row = (",".join(stages), axis, kind.replace("_", "-"), phase, written)
        table.add_row(*row, str(each.predicted), str(each.observed), style="" if each.holds else STYLES[False])
    return table


def _orders(done: Verification) -> Text:
    lines = []
    for check in done.stages:
        told = "as planned" if check.order_holds else "NOT as planned"
        shown = " ".join(check.order[:16]) + (" ..." if len(check.order) > 16 else "")
        lines.append(f"Stage {_stages(check)} worked {told}: {shown}")
    return Text("\n".join(lines))


def verification_document(done: Verification) -> dict[str, Any]:
    """The same as JSON; bytes and counts."""
    return {
        "schema": SCHEMA,
        "plan": done.plan.to_dict(),
        "run": {
            "micro_batches": done.scope.plan.num_microbatches,
            "all_layers": done.full,
            "elapsed_s": done.elapsed_s,
            "as_it_is": done.scope.native,
        },
        "holds": done.holds,
        "stages": [_stage_entry(check) for check in done.stages],
        "unchecked": list(done.scope.unchecked),
    }


def _stage_entry(check: StageCheck) -> dict[str, Any]:
    return {
        "stages": list(check.stages),
        "holds": check.holds,
        "quantities": [each._asdict() | {"ratio": each.ratio, "holds": each.holds} for each in check.quantities],
        "peak_at": check.peak_at,
        "collectives": [
            each.collective._asdict() | {"predicted": each.predicted, "observed": each.observed, "holds": each.holds}
            for each in check.collectives
        ],
        "order_holds": check.order_holds,
        "order": list(check.order),
    }
