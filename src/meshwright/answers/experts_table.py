"""The experts section of the explain screen."""

from __future__ import annotations

from meshwright.answers.document.blocks import Block, Heading, Lines, Table
from meshwright.answers.experts import ExpertLayers, ExpertReport
from meshwright.answers.placed import placement_words, sent_words
from meshwright.answers.screen import verdict_cell
from meshwright.cost.comms.group import axis_group
from meshwright.cost.element import HALF_BYTES
from meshwright.layout.plan import Plan
from meshwright.specs.inputs import Inputs
from meshwright.units import GIB, format_seconds


def experts_section(report: ExpertReport, plan: Plan, inputs: Inputs) -> tuple[Block, ...]:
    """Where the experts lie, what their exchange sends and takes, and the plan priced again with imbalances."""
    groups = {"ep": axis_group("ep", plan, inputs), "etp": axis_group("etp", plan, inputs)}
    placed = [placement_words(name, group, inputs.cluster) for name, group in groups.items()]
    lines = ["; ".join([*placed, _replicas(report)])]
    for layers in report.layers:
        lines += _layer_lines(layers, report, inputs)
    if report.exchanged_s:
        lines.append(
            f"A step spends {format_seconds(report.exchanged_s)} on exchanges on its slowest stage, of which "
            f"{format_seconds(report.exposed_s)} are exposed ({report.exposed_s / report.exchanged_s:.0%})"
        )
    return Heading("Experts", 3), Lines(tuple(lines)), _imbalance_table(report, inputs)


def _replicas(report: ExpertReport) -> str:
    return f"{report.replicas} replicas of every expert" if report.replicas > 1 else "no replicas"


def _layer_lines(layers: ExpertLayers, report: ExpertReport, inputs: Inputs) -> list[str]:
    busiest = f", {layers.busiest_rows:,.0f} on the busiest rank" if layers.busiest_rows > layers.rows else ""
    told = (
        f"{layers.layers} layers ({layers.kind}): a rank holds {layers.experts_per_rank} of {layers.experts} experts; "
        f"of a micro-batch {layers.tokens:,.0f} tokens enter and {layers.rows:,.0f} rows are computed{busiest}, "
        f"{layers.rows / layers.experts_per_rank:,.0f} an expert"
    )
    if not layers.dispatch_s:
        return [told]
    wider = HALF_BYTES / inputs.dispatch_bytes[0]
    back = "as much" if wider == 1 else f"{wider:.2f} times as much"
    sent = (
        f"In one dispatch ({report.dispatcher.replace('_', '-')}) a rank sends {sent_words(layers.sent_bytes)} in "
        f"{format_seconds(layers.dispatch_s)}, and in one combine {back} in {format_seconds(layers.combine_s)}"
    )
    return [told, sent]


def _imbalance_table(report: ExpertReport, inputs: Inputs) -> Table:
    capacity = inputs.job.expert_capacity
    without = f", without the capacity of {capacity:g}" if capacity else ""
    even = report.imbalance[0][1].step_time_s
    rows = tuple(
        (
            f"{imbalance:.1f}",
            format_seconds(estimate.step_time_s),
            f"{estimate.step_time_s / even - 1:.1%}",
            f"{estimate.memory.device / GIB:.1f}",
            verdict_cell(estimate.verdict),
        )
        for imbalance, estimate in report.imbalance
    )
    columns = ("busiest rank over the mean", "step", "slower", "device GiB", "verdict")
    return Table(columns, rows, "rrrrw", f"If experts get unequal shares{without}")
