"""Clusters side by side on a screen: how fast each is, its best plan, what training takes, and what does not fit."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from meshwright.answers.assumptions import assumptions
from meshwright.answers.compare.clusters import Comparison, Row
from meshwright.answers.compare.one_plan_table import one_plan_section
from meshwright.answers.compare.training import Deadline
from meshwright.answers.screen import STYLES, assumption_list, headline
from meshwright.answers.step_parts import ALL_NAMES
from meshwright.search.fewest import MOST_TIMES_THE_NODES
from meshwright.specs.cluster import Cluster
from meshwright.units import GIB, format_bandwidth, format_count, format_seconds


def clusters_screen(comparison: Comparison) -> RenderableType:
    """The question, a row for each cluster, the best plans, training where the job names its tokens, one layout for all
    where it was asked for, what does not fit, and the assumptions.
    """
    rows = comparison.rows
    assumed = dict.fromkeys(line for row in rows if row.best and row.inputs for line in assumptions(row.inputs))
    return Group(
        _question(comparison),
        "",
        _speeds(comparison),
        *_plans(rows),
        *_training(comparison),
        *one_plan_section(comparison),
        *_without(rows),
        "",
        assumption_list(list(assumed)),
    )


def _question(comparison: Comparison) -> Text:
    """The headline of a question, with its clusters counted, and their links."""
    inputs = comparison.first.inputs
    lines = str(headline(inputs)).split("\n") if inputs else [""]
    model = lines[0].rpartition(" on ")[0]
    return Text(f"{model} on {len(comparison.rows)} clusters\n{lines[-1]}")


def _links(cluster: Cluster) -> str:
    return ", ".join(f"{level.name} {format_bandwidth(level.effective_bandwidth)}" for level in cluster.levels)


def _speeds(comparison: Comparison) -> Table:
    table = _table("cluster")
    for name in ("step", "tokens/s", "MFU", "GiB"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("speed", justify="right", no_wrap=True)
    first = comparison.first.best
    for row in comparison.rows:
        best = row.best
        if best is None or first is None:
            told = "contradictory" if row.premise else "does not fit" if row.found else "refused"
            table.add_row(row.cluster.name, "-", "-", "-", "-", Text(told, style="red"), "-")
            continue
        table.add_row(
            row.cluster.name,
            format_seconds(best.step_time_s),
            format_count(best.tokens_per_s_per_gpu * row.cluster.num_gpus),
            f"{best.mfu:.1%}",
            f"{best.memory.device / GIB:.1f}",
            Text(str(best.verdict), style=STYLES[best.verdict]),
            f"{first.step_time_s / best.step_time_s:.2f}x",
        )
    return table


def _plans(rows: Iterable[Row]) -> list[RenderableType]:
    """The best plan of each cluster, its links, and what its step waits for most."""
    lines: list[RenderableType] = []
    for row in rows:
        if row.best and row.limiting:
            name, seconds = row.limiting
            share = seconds / row.best.step_time_s
            lines += [
                "",
                Text(row.cluster.name, style="bold").append(f" ({_links(row.cluster)}): {row.best.plan}"),
                Text(f"Most beyond the ideal: {ALL_NAMES[name]}, {format_seconds(seconds)} ({share:.0%} of the step)"),
            ]
    return lines


def _training(comparison: Comparison) -> list[RenderableType]:
    """Days, accelerator-hours and cost of all tokens, and the deadline."""
    first, wishes = comparison.first, comparison.wishes
    if first.training is None or first.inputs is None or not first.inputs.job.tokens:
        return []
    table = _table("cluster")
    for name in ("days", "GPU-hours", *(["cost"] if wishes.prices else [])):
        table.add_column(name, justify="right", no_wrap=True)
    if wishes.deadline_days:
        table.add_column(f"in {wishes.deadline_days:g} days", overflow="fold")
    for row in comparison.rows:
        if row.inputs:
            training = row.training
            cells = [f"{training.days:,.1f}", f"{training.accelerator_hours:,.0f}"] if training else ["-", "-"]
            if wishes.prices:
                cells.append("-" if training is None or training.cost is None else f"{training.cost:,.0f}")
            table.add_row(row.cluster.name, *cells, *([_deadline(row.deadline)] if row.deadline else []))
    title = f"Training on {format_count(first.inputs.job.tokens)} tokens"
    return ["", Text(title, style="bold"), table]


def _deadline(deadline: Deadline) -> str:
    if deadline.met:
        return "met"
    if deadline.nodes is None or deadline.training is None:
        return f"not with {MOST_TIMES_THE_NODES} times the nodes"
    cluster = deadline.nodes.inputs.cluster
    return f"{cluster.num_nodes} nodes ({cluster.num_gpus} in all) need {deadline.training.days:,.1f}"


def _without(rows: Iterable[Row]) -> list[RenderableType]:
    """Clusters without a plan, and why."""
    refused = [f"- {row.cluster.name}: {row.refused}" for row in rows if row.refused]
    lines = [Text(line.replace("\n  -", "\n    -")) for line in refused]
    return ["", Text("Without a plan", style="bold"), *lines] if lines else []


def _table(first: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(first, overflow="fold")
    return table
