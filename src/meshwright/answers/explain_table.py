"""The explain screen: one plan, stage by stage."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from meshwright.answers.screen import assumption_list, headline, memory_table, time_table, verdict_line
from meshwright.cost.estimate import Estimate
from meshwright.specs.inputs import Inputs
from meshwright.units import GIB, format_seconds


def explain_screen(estimate: Estimate, inputs: Inputs) -> RenderableType:
    """Inputs, the plan with its verdict, its stages, memory and time, and the assumptions."""
    return Group(
        headline(inputs),
        "",
        Text("Plan: ").append(str(estimate.plan), style="bold"),
        verdict_line(estimate, inputs),
        "",
        stage_table(estimate),
        "",
        memory_table(estimate, inputs),
        "",
        time_table(estimate),
        "",
        assumption_list(inputs),
    )


def stage_table(estimate: Estimate) -> Table:
    """Every stage: what it holds, its memory, and the time of one micro-batch."""
    table = Table(title="Stages", title_justify="left", box=None, pad_edge=False, header_style="bold")
    for name in ("stage", "layers", "in flight", "states", "activations", "device GiB", "forward", "backward"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for stage in estimate.stages:
        holds = [name for name, held in (("embedding", stage.embedding), ("head", stage.head)) if held]
        marks = [
            mark
            for mark, number in (("most memory", estimate.worst_stage), ("slowest", estimate.slowest_stage))
            if number == stage.stage and len(estimate.stages) > 1
        ]
        table.add_row(
            str(stage.stage),
            str(stage.layers),
            str(stage.live_micro_batches),
            f"{stage.memory.states / GIB:.1f}",
            f"{stage.memory.activations / GIB:.1f}",
            f"{stage.memory.device / GIB:.1f}",
            format_seconds(stage.forward_s),
            format_seconds(stage.backward_s),
            ", ".join([*holds, *marks]),
        )
    return table
