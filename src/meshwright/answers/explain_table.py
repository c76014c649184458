"""The explain screen: one plan, stage by stage."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from meshwright.answers.assumptions import assumptions
from meshwright.answers.context_report import context_section
from meshwright.answers.experts import expert_report
from meshwright.answers.experts_table import experts_section
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
        *_exchanges(estimate, inputs),
        assumption_list(assumptions(inputs)),
    )


def _exchanges(estimate: Estimate, inputs: Inputs) -> list[RenderableType]:
    """The sections of a mixture of experts and of a sequence that ranks share."""
    sections: list[RenderableType] = []
    if report := expert_report(estimate, inputs):
        sections += [experts_section(report, estimate.plan, inputs), ""]
    if estimate.plan.cp > 1:
        sections += [context_section(estimate, inputs), ""]
    return sections


def stage_table(estimate: Estimate) -> Group:
    """Every stage: what it holds, its memory, and the time of one micro-batch."""
    table = Table(title="Stages", title_justify="left", box=None, pad_edge=False, header_style="bold")
    table.add_column("#", justify="right")
    table.add_column("layers", overflow="fold")
    for name in ("in flight", "states", "activations", "device GiB", "forward", "backward"):
        table.add_column(name, justify="right", no_wrap=True)
    for stage in estimate.stages:
        held = (("embedding", stage.embedding), (f"{stage.mtp_layers} mtp", stage.mtp_layers), ("head", stage.head))
        ends = [name for name, there in held if there]
        table.add_row(
            str(stage.stage),
            " + ".join([str(stage.layers), *ends]),
            str(stage.live_micro_batches),
            f"{stage.memory.states / GIB:.1f}",
            f"{stage.memory.activations / GIB:.1f}",
            f"{stage.memory.device / GIB:.1f}",
            format_seconds(stage.forward_s),
            format_seconds(stage.backward_s),
        )
    if len(estimate.stages) == 1:
        return Group(table)
    worst, slowest = estimate.worst_stage, estimate.slowest_stage
    return Group(table, Text(f"Stage {worst} holds the most memory, stage {slowest} has the most work.", style="dim"))
