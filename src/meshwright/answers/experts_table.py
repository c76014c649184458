"""The experts section of the explain screen."""

from __future__ import annotations

from rich.console import Group as Screen
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from meshwright.answers.experts import ExpertLayers, ExpertReport
from meshwright.answers.placed import placement_words, sent_words
from meshwright.answers.screen import STYLES
from meshwright.cost.comms.group import expert_group, expert_tensor_group
from meshwright.cost.element import HALF_BYTES
from meshwright.layout.plan import Plan
from meshwright.specs.inputs import Inputs
from meshwright.units import GIB, format_seconds


def experts_section(report: ExpertReport, plan: Plan, inputs: Inputs) -> RenderableType:
    """Where the experts lie, what their exchange sends and takes, and the plan priced again with imbalances."""
    groups = {"ep": expert_group(plan, inputs), "etp": expert_tensor_group(plan, inputs)}
    placed = [placement_words(name, group, inputs.cluster) for name, group in groups.items()]
    lines: list[RenderableType] = [Text("Experts", style="bold"), Text("; ".join([*placed, _replicas(report)]))]
    for layers in report.layers:
        lines += _layer_lines(layers, report, inputs)
    if report.exchanged_s:
        lines.append(
            Text(
                f"A step exchanges for {format_seconds(report.exchanged_s)} on its slowest stage, of which "
                f"{format_seconds(report.exposed_s)} are exposed ({report.exposed_s / report.exchanged_s:.0%})"
            )
        )
    return Screen(*lines, "", _imbalance_table(report, inputs))


def _replicas(report: ExpertReport) -> str:
    return f"{report.replicas} replicas of every expert" if report.replicas > 1 else "no replicas"


def _layer_lines(layers: ExpertLayers, report: ExpertReport, inputs: Inputs) -> list[RenderableType]:
    busiest = f", {layers.busiest_rows:,.0f} on the busiest rank" if layers.busiest_rows > layers.rows else ""
    told = (
        f"{layers.layers} layers ({layers.kind}): a rank holds {layers.experts_per_rank} of {layers.experts} experts; "
        f"of a micro-batch {layers.tokens:,.0f} tokens enter and {layers.rows:,.0f} rows are computed{busiest}, "
        f"{layers.rows / layers.experts_per_rank:,.0f} an expert"
    )
    if not layers.dispatch_s:
        return [Text(told)]
    wider = HALF_BYTES / inputs.dispatch_bytes[0]
    back = "as much" if wider == 1 else f"{wider:.2f} times as much"
    sent = (
        f"In one dispatch ({report.dispatcher.replace('_', '-')}) a rank sends {sent_words(layers.sent_bytes)} in "
        f"{format_seconds(layers.dispatch_s)}, and in one combine {back} in {format_seconds(layers.combine_s)}"
    )
    return [Text(told), Text(sent)]


def _imbalance_table(report: ExpertReport, inputs: Inputs) -> Table:
    capacity = inputs.job.expert_capacity
    told = f", without the capacity of {capacity:g}" if capacity else ""
    table = Table(title=f"If experts get unequal shares{told}", title_justify="left", box=None, pad_edge=False)
    for name in ("busiest rank over the mean", "step", "slower", "device GiB"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    even = report.imbalance[0][1].step_time_s
    for imbalance, estimate in report.imbalance:
        verdict = Text(str(estimate.verdict), style=STYLES[estimate.verdict])
        step, memory = format_seconds(estimate.step_time_s), f"{estimate.memory.device / GIB:.1f}"
        table.add_row(f"{imbalance:.1f}", step, f"{estimate.step_time_s / even - 1:.1%}", memory, verdict)
    return table
