"""Report: what was held against PyTorch, on fake tensors or for real, as blocks of a screen and as JSON."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from meshwright.answers.document.blocks import Block, Bullets, Heading, Lines, Paragraph, Table, Toned
from meshwright.answers.records import json_of
from meshwright.answers.screen import headline
from meshwright.pytorch.fake_world.compare import CollectiveCount, Quantity, StageCheck
from meshwright.pytorch.fake_world.verify import Verification
from meshwright.pytorch.frameworks import TRANSFORMERS
from meshwright.pytorch.real_world.real_run import RealRun
from meshwright.pytorch.scope import NATIVE
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
SHOWN_ACTIONS = 16


def verification_blocks(done: Verification) -> tuple[Block, ...]:
    """The verdict, every stage's quantities, its peak and its traffic, and what was not compared."""
    peaks = tuple(_peak(check) for check in done.stages if check.peak_at)
    orders = tuple(_order(check) for check in done.stages if check.order)
    return (
        Lines((*headline(done.inputs).lines, f"Plan: {done.plan}")),
        Paragraph(Toned(_verdict(done), "good" if done.holds else "bad")),
        _quantities(done),
        *([Lines(peaks)] if peaks else []),
        _collectives(done),
        *([Lines(orders)] if orders else []),
        Lines(tuple(_notes(done))),
    )


def _verdict(done: Verification) -> str:
    """How many figures agree, of which part of the plan, and how they follow from what was run."""
    count, wrong = len(done.results), done.results.count(False)
    figures = "compared" if done.scope.native else f"that {done.inputs.runtime.id} shares with {NATIVE}"
    layers = "with all layers run" if done.all_layers else "extrapolated from two and four layers of each kind"
    agrees = f"disagrees with {wrong} of the" if wrong else "agrees with all"
    ran = done.scope.framework or "PyTorch"
    return f"{ran} {agrees} {count} figures {figures} ({done.elapsed_s:.0f} s), {layers}."


def _notes(done: Verification) -> Iterator[str]:
    """How it was run, and what was not compared."""
    run, asked = done.scope.plan, done.plan
    layers = "all layers"
    if not done.all_layers:
        layers = "two and four layers of each kind a chunk, extrapolated; --full runs all"
    yield f"Run on fake tensors: one rank of each distinct stage of {run.num_gpus} ranks, {layers}."
    yield f"Run on {_whose(done)}."
    if done.scope.uncompiled:
        yield "Run without torch.compile (--with compiled=false); the predicted figures above are without it too."
    if run.num_microbatches < asked.num_microbatches:
        count = f"{run.num_microbatches} of {asked.num_microbatches}"
        yield f"Run with {count} micro-batches; the predicted figures above are for as many."
    yield "All figures must match exactly; only the peak may be 2 % off. Fragmentation and time are not checked."
    yield from (f"{note[0].upper()}{note[1:]}." for note in done.scope.unchecked)


def _whose(done: Verification) -> str:
    """Whose model and wrapping was run, and why it was not the framework's own."""
    scope = done.scope
    if scope.framework.startswith(TRANSFORMERS):
        wrapped = "wrapped as accelerate does for FSDP2" if scope.plan.zero > 1 else "in DistributedDataParallel"
        return f"{scope.framework}'s own model, loss and checkpointing, {wrapped}, with a stand-in for fused attention"
    if scope.framework:
        return (
            f"{scope.framework}'s own model, checkpointing and sharding, with stand-ins for fused attention and norms"
        )
    because = f": {scope.own_because}" if scope.own_because else ""
    return f"a model of Meshwright's own, split and wrapped as {NATIVE} does{because}"


def _row(cells: Iterable[str], right: bool) -> tuple[str, ...]:
    """A row of a table, red where it is not right."""
    return tuple(cells) if right else tuple(Toned(cell, "bad") for cell in cells)


def _quantities(done: Verification) -> Table:
    rows = []
    for check in done.stages:
        for index, each in enumerate(check.quantities):
            figures = (_size(each, each.predicted), _size(each, each.observed), f"{each.ratio:.4f}")
            rows.append(_row((_stages(check) if index == 0 else "", each.name, *figures), each.holds))
    return Table(("Stage", "Quantity", "Planned", "PyTorch", "Ratio"), tuple(rows), "llrrr")


def _size(quantity: Quantity, value: float) -> str:
    if quantity.unit == "count":
        return f"{value:,.0f}"
    return f"{value / GIB:.3f} GiB" if value >= GIB else f"{value / MIB:.2f} MiB"


def _stages(check: StageCheck) -> str:
    first, last = check.stages[0], check.stages[-1]
    return str(first) if first == last else f"{first}-{last}"


def _peak(check: StageCheck) -> str:
    """Where a stage's peak is."""
    moment, where = check.peak_at.split(": ", 1)
    operator = ".".join(re.sub(r"^.*, ", "", where).split(".")[:2])
    return f"Stage {_stages(check)} peaks {MOMENTS[moment]}, at {operator}."


def _collectives(done: Verification) -> Table:
    """Those alike on several stages once."""
    alike: dict[CollectiveCount, list[str]] = defaultdict(list)
    for check in done.stages:
        for each in check.collectives:
            alike[each].append(_stages(check))
    rows = []
    for each, stages in alike.items():
        axis, kind, number_format, size, phase = each.collective
        buffer = f"{size / MIB:,.2f} MiB {number_format}" if size >= MIB else f"{size:,} B {number_format}"
        cells = (",".join(stages), axis, kind.replace("_", "-"), phase, buffer, str(each.predicted), str(each.observed))
        rows.append(_row(cells, each.holds))
    columns = ("Stage", "Axis", "Kind", "Pass", "Buffer", "Planned", "PyTorch")
    return Table(columns, tuple(rows), "llllrrr", caption="Collectives and messages of one rank")


def _order(check: StageCheck) -> str:
    order = "as planned" if check.order_holds else "NOT as planned"
    shown = " ".join(check.order[:SHOWN_ACTIONS]) + (" ..." if len(check.order) > SHOWN_ACTIONS else "")
    return f"Stage {_stages(check)} ran {order}: {shown}"


def verification_document(done: Verification) -> dict[str, Any]:
    """The same as JSON; bytes and counts."""
    return {
        "schema": SCHEMA,
        "plan": done.plan.to_dict(),
        "name": str(done.plan),
        "run": {
            "micro_batches": done.scope.plan.num_microbatches,
            "all_layers": done.all_layers,
            "elapsed_s": done.elapsed_s,
            "as_it_is": done.scope.native,
            "framework": done.scope.framework or None,
        },
        "holds": done.holds,
        "stages": [_stage_entry(check) for check in done.stages],
        "unchecked": list(done.scope.unchecked),
    }


def _stage_entry(check: StageCheck) -> dict[str, Any]:
    counts = (each._asdict() | {"holds": each.holds} for each in check.collectives)
    return {
        "stages": list(check.stages),
        "holds": check.holds,
        **json_of(check),
        "quantities": [each._asdict() | {"ratio": each.ratio, "holds": each.holds} for each in check.quantities],
        "collectives": [count.pop("collective")._asdict() | count for count in counts],
    }


def real_blocks(run: RealRun) -> tuple[Block, ...]:
    """What was run, losses and gradient norms step by step, the order, and the bytes by axis and kind."""
    left_out = (Heading("Left out of this run", 3), Bullets(run.left_out)) if run.left_out else ()
    return (
        Paragraph(Toned(_real_verdict(run), "good" if run.holds else "bad")),
        Paragraph(f"Real run: {run.run}."),
        _steps(run),
        _differences(run),
        *([Lines(tuple(_orders(run)))] if run.planned[0] else []),
        _bytes(run),
        *left_out,
    )


def _real_verdict(run: RealRun) -> str:
    trained = "trained" if run.holds else "did NOT train"
    rest = "; the parts of the plan listed below were left out" if run.left_out else ""
    processes = f"{len(run.executed)} processes {trained} a small model as one process would"
    return f"{processes} ({run.elapsed_s:.0f} s){rest}."


def _steps(run: RealRun) -> Table:
    norms = run.gradient_norms, run.reference_gradient_norms
    steps = enumerate(zip(run.losses, run.reference_losses, *norms, strict=True), 1)
    rows = tuple((str(step), *(f"{figure:.7f}" for figure in figures)) for step, figures in steps)
    return Table(("Step", "Loss", "One process", "Gradient norm", "One process"), rows, "rrrrr")


def _differences(run: RealRun) -> Paragraph:
    name, share = run.farthest_weight
    loss, norm = f"{run.loss_difference:.1e}", f"{run.gradient_difference:.1e}"
    text = f"Largest difference: loss {loss}, gradient norm {norm}, of one weight {share:.1e} ({name})."
    return Paragraph(*_row([text], run.same_loss and run.same_gradients))


def _orders(run: RealRun) -> Iterator[str]:
    for rank, (executed, planned) in enumerate(zip(run.executed, run.planned, strict=True)):
        order = "as planned" if executed == planned else f"NOT as planned ({' '.join(planned)})"
        yield f"Rank {rank} ran {order}: {' '.join(executed)}"


def _bytes(run: RealRun) -> Table:
    """Of the first rank, and of any that is off."""
    rows = []
    for rank, each in enumerate(zip(run.counted_bytes, run.logged_bytes, strict=True)):
        counted, logged = ({part[:2]: part.bytes for part in parts} for parts in each)
        for key in sorted({**counted, **logged}):
            sizes = counted.get(key, 0), logged.get(key, 0)
            if rank == 0 or sizes[0] != sizes[1]:
                cells = (str(rank), *key, *(f"{size / MIB:.3f} MiB" for size in sizes))
                rows.append(_row(cells, sizes[0] == sizes[1]))
    return Table(("Rank", "Axis", "Kind", "Planned", "Logged"), tuple(rows), "lllrr", caption="Bytes of one step")
