"""The stages of one plan: what each holds, the time of one micro-batch, and its memory as a stacked bar."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from meshwright.answers.document.blocks import Block, Coloured, Lines, Table
from meshwright.cost.estimate import Estimate, StageEstimate
from meshwright.cost.memory.components import Components
from meshwright.units import GIB, format_seconds

WIDTH = 24
"""Characters of the longest bar: the visible memory, or what a stage needs beyond it."""
MOST_STAGES = 16
"""Rows that are shown of a longer pipeline: its ends, and the stages that are named below."""
PARTS = {
    "P": ("parameters", "blue", ("parameters",)),
    "G": ("gradients", "cyan", ("gradients",)),
    "O": ("optimizer", "magenta", ("optimizer_states",)),
    "A": ("activations", "green", ("activations",)),
    "T": ("logits and temporaries", "yellow", ("logits", "temporaries")),
    "X": (
        "outside of tensors",
        "bright_black",
        ("workspaces", "fragmentation", "cuda_graphs", "context", "communicators", "exchange_buffers"),
    ),
}
"""By the letter of a bar: what it is called, its colour, and the components in it."""
COLOURS = {letter: colour for letter, (_, colour, _) in PARTS.items()}
LEGEND = COLOURS | dict.fromkeys("abcdefghijklmnopqrstuvwxyz", "")


def stage_table(estimate: Estimate) -> tuple[Block, ...]:
    """Every stage, or of a long pipeline the ends and the extremes: what it holds, its times and its memory."""
    visible = estimate.fit.visible_bytes
    scale = max(visible, *(stage.memory.device for stage in estimate.stages))
    shown = _shown(estimate)
    rows: list[tuple[str, ...]] = []
    for before, stage in zip((None, *shown), shown, strict=False):
        if before and stage.stage - before.stage > 1:
            rows.append(("...", f"{stage.stage - before.stage - 1} stages", "", "", "", "", ""))
        rows.append((*_cells(stage), _bar(stage.memory, visible, scale)))
    columns = ("#", "layers", "in flight", "forward", "backward", "GiB", "memory (| = usable)")
    legend: list[str] = [Coloured("  ".join(f"{letter} {name}" for letter, (name, _, _) in PARTS.items()), LEGEND)]
    worst, slowest = estimate.worst_stage, estimate.slowest_stage
    peak = f"Stage {worst} needs the most memory (peak: {estimate.stages[worst].peak_moment})"
    legend.append(f"{peak}, stage {slowest} has the most work." if len(estimate.stages) > 1 else f"{peak}.")
    return Table(columns, tuple(rows), "rlrrrrw", caption="Stages"), Lines(tuple(legend))


def _shown(estimate: Estimate) -> Sequence[StageEstimate]:
    stages, ends = estimate.stages, MOST_STAGES // 2 - 1
    if len(stages) <= MOST_STAGES:
        return stages
    named = {estimate.worst_stage, estimate.slowest_stage}
    last = len(stages) - ends
    return [stage for stage in stages if stage.stage < ends or stage.stage >= last or stage.stage in named]


def _cells(stage: StageEstimate) -> tuple[str, ...]:
    ends = (("embedding", stage.embedding), (f"{stage.mtp_layers} mtp", stage.mtp_layers), ("head", stage.head))
    return (
        str(stage.stage),
        " + ".join([str(stage.layers), *(name for name, there in ends if there)]),
        str(stage.live_micro_batches),
        format_seconds(stage.forward_s),
        format_seconds(stage.backward_s),
        f"{stage.memory.device / GIB:.1f}",
    )


def _bar(memory: Components[float], visible: float, scale: float) -> str:
    """A letter for every 24th of the scale, a dot where nothing is, and a line where the visible memory ends."""
    sizes = [sum(getattr(memory, name) for name in names) for _, _, names in PARTS.values()]
    marks = [round(sum(sizes[:count]) / scale * WIDTH) for count in range(len(sizes) + 1)]
    letters = "".join(letter * (last - first) for letter, (first, last) in zip(PARTS, pairwise(marks), strict=True))
    bar, end = letters.ljust(WIDTH, "."), round(visible / scale * WIDTH)
    return Coloured(bar[:end] + "|" + bar[end:], COLOURS)
