"""Placement: which rank of every axis each accelerator is, and the link that each axis works over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from meshwright.answers.document.blocks import Block, Coloured, Lines, Table
from meshwright.answers.links import axes, placement_words
from meshwright.cost.estimate import Estimate
from meshwright.layout.groups import expert_stride, stride
from meshwright.layout.plan import Plan
from meshwright.specs.inputs import Inputs
from meshwright.units import format_seconds

MOST_LINES = 8
"""Lines of nodes; what is between the first and the last is counted."""
MOST_NODES = 4096
"""Nodes that are looked at one by one."""
MOST_CELLS = 8
"""Accelerators of a node that are shown."""
CELLS_WIDTH = 56
"""Characters that they may take."""
COLOURS = {"tp": "cyan", "cp": "magenta", "dp": "green", "pp": "yellow", "ep": "red", "etp": "blue"}
LETTERS = {"tp": "t", "cp": "c", "dp": "d", "pp": "p", "ep": "e", "etp": "x"}
LETTER_COLOURS = {LETTERS[name]: colour for name, colour in COLOURS.items()}


@dataclass
class _Run:
    """Nodes one after the other that differ in one coordinate alone, or a single one."""

    first: int
    last: int
    fixed: dict[str, tuple[int, int]]
    """By axis, of what all accelerators of a node share: its value on the first node and on the last."""
    cells: tuple[str, ...]
    """What differs between the accelerators of a node, as `t0c1`."""


def placement_section(estimate: Estimate, inputs: Inputs) -> tuple[Block, ...]:
    """A line for every node, or run of nodes that differ in one coordinate alone, then one for every axis."""
    letters = ", ".join(f"{LETTERS[name]} {name}" for name in _strides(estimate.plan, inputs))
    title = "Placement" + (f", every rank by its coordinates: {letters}" if letters else "")
    grid = Table(("", "", ""), tuple(_grid(estimate.plan, inputs)), "lll", caption=title)
    lines = []
    for axis in axes(estimate, inputs):
        exposed = "" if axis.exposed_s is None else f": {format_seconds(axis.exposed_s)} exposed per step"
        lines.append(placement_words(axis, inputs.cluster) + exposed)
    return (grid, Lines(tuple(lines))) if lines else (grid,)


def _grid(plan: Plan, inputs: Inputs) -> Iterator[tuple[str, ...]]:
    runs = list(_folded(_runs(plan, inputs), inputs.cluster.num_nodes))
    for before, run in zip((None, *runs), runs, strict=False):
        if before and run.first - before.last > 1:
            yield "...", "", f"{run.first - before.last - 1} more nodes"
        nodes = f"node {run.first}" if run.first == run.last else f"nodes {run.first}-{run.last}"
        yield nodes, Coloured(_fixed(run), LETTER_COLOURS), Coloured(_cells(run.cells), LETTER_COLOURS)


def _folded(runs: Iterator[_Run], nodes: int) -> Iterator[_Run]:
    """The first runs, and the last one that there is or, where nobody looked so far, none."""
    last = None
    for index, run in enumerate(runs):
        if index < MOST_LINES - 1:
            yield run
        last = run if index >= MOST_LINES - 1 else None
    if last and last.last == nodes - 1:
        yield last


def _runs(plan: Plan, inputs: Inputs) -> Iterator[_Run]:
    strides, size = _strides(plan, inputs), inputs.cluster.gpus_per_node
    looked_at = [*range(min(inputs.cluster.num_nodes, MOST_NODES))]
    if inputs.cluster.num_nodes > MOST_NODES:
        looked_at.append(inputs.cluster.num_nodes - 1)
    run: _Run | None = None
    for node in looked_at:
        ranks = range(node * size, (node + 1) * size)
        values = {name: [rank // step % degree for rank in ranks] for name, (step, degree) in strides.items()}
        fixed = {name: (each[0], each[0]) for name, each in values.items() if len(set(each)) == 1}
        differing = [name for name in values if name not in fixed]
        cells = tuple("".join(f"{LETTERS[name]}{values[name][at]}" for name in differing) for at in range(size))
        after = _Run(node, node, fixed, cells if differing else ())
        if run and _joined(run, after):
            run.last, run.fixed = node, {name: (run.fixed[name][0], fixed[name][0]) for name in fixed}
            continue
        if run:
            yield run
        run = after
    if run:
        yield run


def _joined(run: _Run, after: _Run) -> bool:
    """Whether the next node differs from the run's last one by one step of the coordinate that the run moves along."""
    if run.cells != after.cells or run.fixed.keys() != after.fixed.keys() or after.first != run.last + 1:
        return False
    changed = [name for name, (_, last) in run.fixed.items() if after.fixed[name][0] != last]
    along = [name for name, (first, last) in run.fixed.items() if first != last]
    step = len(changed) == 1 and after.fixed[changed[0]][0] == run.fixed[changed[0]][1] + 1
    return step and along in ([], changed)


def _strides(plan: Plan, inputs: Inputs) -> dict[str, tuple[int, int]]:
    """Of the axes with two or more ranks: distance between neighbours, and degree."""
    order = inputs.runtime.plans.rank_order
    known = {name: (int(stride(plan, name, order)), getattr(plan, name)) for name in ("tp", "cp", "dp", "pp")}
    known |= {"ep": (int(expert_stride(plan, "ep", order)), plan.ep)}
    known |= {"etp": (int(expert_stride(plan, "tp", order)), plan.etp)}
    return {name: (step, degree) for name, (step, degree) in known.items() if degree > 1}


def _fixed(run: _Run) -> str:
    return " ".join(
        f"{LETTERS[name]}{first}" if first == last else f"{LETTERS[name]}{first}-{last}"
        for name, (first, last) in run.fixed.items()
    )


def _cells(cells: tuple[str, ...]) -> str:
    """The accelerators of a node, those in the middle left out where they are too many or too long."""
    for shown in range(min(len(cells), MOST_CELLS), 2, -1):
        text = " ".join(cells if shown == len(cells) else (*cells[: shown - 1], "...", cells[-1]))
        if len(text) <= CELLS_WIDTH:
            return text
    return " ".join(cells[:2])
