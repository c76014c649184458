"""Real report: what a few processes trained, beside one process and the planner, as a screen and as JSON."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from meshwright.pytorch.real_world.real_run import RealRun
from meshwright.units import MIB

SCHEMA = "meshwright.real_verification/1"
STYLES = {True: "green", False: "bold red"}


def real_screen(run: RealRun) -> RenderableType:
    """What was run, losses and gradient norms step by step, the order, and the bytes by axis and kind."""
    told = "The processes trained as one would" if run.holds else "The processes did NOT train as one would"
    parts: list[RenderableType] = [
        Text(f"{told} ({run.elapsed_s:.0f} s).", style=STYLES[run.holds]),
        Text(f"Run for real: {run.words}.\n"),
        _steps(run),
        _differences(run),
        Text("\n".join(_orders(run))) if run.planned[0] else Text(""),
        _bytes(run),
    ]
    return Group(*parts, *(Text(f"Not run: {each}.") for each in run.left_out))


def _steps(run: RealRun) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("Step", "Loss", "One process", "Gradient norm", "One process"):
        table.add_column(name, justify="right")
    norms = run.gradient_norms, run.reference_gradient_norms
    for step, figures in enumerate(zip(run.losses, run.reference_losses, *norms, strict=True), 1):
        table.add_row(str(step), *(f"{figure:.7f}" for figure in figures))
    return table


def _differences(run: RealRun) -> Text:
    name, far = run.farthest_weight
    text = Text(f"Largest difference: loss {run.loss_difference:.1e}", style="" if run.same_loss else STYLES[False])
    style = "" if run.same_gradients else STYLES[False]
    return text.append(f", gradient norm {run.gradient_difference:.1e}, of one weight {far:.1e} ({name}).", style=style)


def _orders(run: RealRun) -> list[str]:
    lines = []
    for rank, (executed, planned) in enumerate(zip(run.executed, run.planned, strict=True)):
        told = "as planned" if executed == planned else f"NOT as planned ({' '.join(planned)})"
        lines.append(f"Rank {rank} worked {told}: {' '.join(executed)}")
    return lines


def _bytes(run: RealRun) -> Table:
    """Of the first rank, and of any that is off."""
    table = Table(box=None, pad_edge=False, title="Bytes of one step", title_justify="left")
    for name in ("Rank", "Axis", "Kind"):
        table.add_column(name)
    for name in ("Planned", "Logged"):
        table.add_column(name, justify="right")
    for rank, (logged, counted) in enumerate(zip(run.logged_bytes, run.counted_bytes, strict=True)):
        for key in sorted({**logged, **counted}):
            there, wanted = logged.get(key, 0), counted.get(key, 0)
            if rank == 0 or there != wanted:
                row = (str(rank), *key, f"{wanted / MIB:.3f} MiB", f"{there / MIB:.3f} MiB")
                table.add_row(*row, style="" if there == wanted else STYLES[False])
    return table


def real_document(run: RealRun) -> dict[str, Any]:
    """The same as JSON; bytes."""
    return {
        "schema": SCHEMA,
        "run": run.words,
        "left_out": list(run.left_out),
        "holds": run.holds,
        "losses": list(run.losses),
        "reference_losses": list(run.reference_losses),
        "gradient_norms": list(run.gradient_norms),
        "reference_gradient_norms": list(run.reference_gradient_norms),
        "loss_difference": run.loss_difference,
        "gradient_difference": run.gradient_difference,
        "farthest_weight": list(run.farthest_weight),
        "executed": [list(order) for order in run.executed],
        "planned": [list(order) for order in run.planned],
        "logged_bytes": [_entries(rank) for rank in run.logged_bytes],
        "counted_bytes": [_entries(rank) for rank in run.counted_bytes],
        "elapsed_s": run.elapsed_s,
    }


def _entries(counts: Any) -> list[dict[str, Any]]:
    return [{"axis": axis, "kind": kind, "bytes": size} for (axis, kind), size in sorted(counts.items())]
