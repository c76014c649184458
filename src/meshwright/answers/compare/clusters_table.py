"""Clusters side by side, as JSON and on a screen: how fast each is, its best plan, what training takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from meshwright.answers.basis.assumptions import assumptions
from meshwright.answers.compare.attributed import attributed
from meshwright.answers.compare.clusters import ClusterComparison, ClusterRow
from meshwright.answers.compare.one_plan_table import one_plan_entry, one_plan_section
from meshwright.answers.compare.training import (
    Deadline,
    Outlook,
    Training,
    days_interval,
    deadline_entry,
    training_line,
    training_on,
)
from meshwright.answers.document.blocks import Block, Heading, Lines, Table, Toned
from meshwright.answers.experts.routing import routing_lines
from meshwright.answers.plan_file import plan_entry
from meshwright.answers.plans.constraint_lines import constraint_lines, constraints_entry
from meshwright.answers.plans.switched_plan import switched_entry, switched_lines
from meshwright.answers.plans.ties import fastest_lines, unpublished_lines
from meshwright.answers.records import document_of
from meshwright.answers.screen import assumption_list, headline, links, model_words, verdict_cell, without_plan
from meshwright.answers.step_parts import ALL_NAMES
from meshwright.cost.estimate import Estimate
from meshwright.search.many_searches.fewest_nodes import MOST_TIMES_THE_NODES
from meshwright.specs.inputs import Inputs
from meshwright.units import GIB, format_count, format_seconds

SCHEMA = "meshwright.compared-clusters/1"
UNPRICED = "cost -: no price of its accelerator was given."
OUTLOOKS = (
    "A deadline is met where 9 in 10 runs like this keep it, met in most runs where half of them do, at risk where "
    "fewer do, missed where fewer than 1 in 10 do."
)


def clusters_document(comparison: ClusterComparison) -> dict[str, Any]:
    """Every cluster with its question, its best plan or why it has none, and what training takes there; the one layout
    for all is null where it was not asked for.
    """
    clusters = [
        {
            "cluster": row.cluster.name,
            "inputs": row.inputs,
            "best": plan_entry(row.best, row.inputs) if row.best and row.inputs else None,
            "tokens_per_s": row.tokens_per_s,
            "limiting": row.limiting,
            **(constraints_entry(row.result, row.constraint_costs) if row.best and row.result else {}),
            **switched_entry(row.switched),
            "speed": comparison.speed(row),
            "training": row.training,
            "deadline": deadline_entry(row.deadline) if row.deadline else None,
            "contradiction": row.contradiction,
            "refused": row.refused,
            "assumptions": assumptions(row.inputs) if row.inputs else [],
        }
        for row in comparison.rows
    ]
    return document_of(schema=SCHEMA, clusters=clusters, one_plan=one_plan_entry(comparison))


def clusters_screen(comparison: ClusterComparison) -> tuple[Block, ...]:
    """The question, a row for each cluster, the best plans, training where the job names its tokens, one layout for all
    where it was asked for, what does not fit, and the assumptions with the clusters that they hold for.
    """
    rows = comparison.rows
    assumed = {row.cluster.name: assumptions(row.inputs) for row in rows if row.best and row.inputs}
    return (
        _question(comparison),
        _speeds(comparison),
        *_plans(rows, comparison.wishes.prices),
        *_training(comparison),
        *one_plan_section(comparison),
        *without_plan([f"{row.cluster.name}: {row.refused}" for row in rows if row.refused]),
        *assumption_list(attributed(assumed)),
    )


def _question(comparison: ClusterComparison) -> Lines:
    """The headline of a question, with its clusters counted."""
    inputs = next(row.inputs for row in comparison.rows if row.best and row.inputs)
    count = len(comparison.rows)
    return Lines((f"{model_words(inputs)} on {count} clusters", headline(inputs).lines[-1]))


def _speeds(comparison: ClusterComparison) -> Table:
    rows: list[tuple[str, ...]] = []
    for row in comparison.rows:
        best = row.best
        if best is None:
            reason = "impossible" if row.contradiction else "does not fit" if row.result else "refused"
            rows.append((row.cluster.name, "-", "-", "-", "-", Toned(reason, "bad"), "-"))
            continue
        rows.append(
            (
                row.cluster.name,
                format_seconds(best.step_time_s),
                format_count(row.tokens_per_s or 0.0),
                f"{best.mfu:.1%}",
                f"{best.memory.device / GIB:.1f}",
                verdict_cell(best.verdict),
                f"{comparison.speed(row):.2f}x",
            )
        )
    columns = ("cluster", "step", "tokens/s", "MFU", "GiB", "verdict", "speed")
    return Table(columns, tuple(rows), "lrrrrwr")


def _plans(rows: Iterable[ClusterRow], prices: Mapping[str, float]) -> Iterator[Lines]:
    """The best plan of each cluster, its links, what its step waits for most, and a faster setup.

    prices: of an accelerator-hour, by the name of the cluster.
    """
    for row in rows:
        if row.best and row.limiting:
            part, seconds = row.limiting
            share = seconds / row.best.step_time_s
            yield Lines(
                (
                    f"**{row.cluster.name}** ({links(row.cluster)}): {row.best.plan}",
                    *(fastest_lines(row.result) if row.result else ()),
                    f"Largest loss: {ALL_NAMES[part]}, {format_seconds(seconds)} ({share:.0%} of the step)",
                    *(routing_lines(row.best, row.inputs) if row.inputs else ()),
                    *(unpublished_lines(row.best, row.inputs) if row.inputs else ()),
                    *(constraint_lines(row.result, row.constraint_costs) if row.result else ()),
                    *_faster_setup(row, row.best, prices.get(row.cluster.name)),
                )
            )


def _faster_setup(row: ClusterRow, best: Estimate, price: float | None) -> list[str]:
    """The plan with other switches, and what training takes with it; nothing where there is none."""
    lines = switched_lines(row.switched, best)
    if not lines or not row.switched or not row.inputs or not row.inputs.job.tokens:
        return lines
    return [
        *lines,
        training_line(
            training_on(row.inputs.job.tokens, row.switched.estimate, row.inputs, price), row.inputs.job.tokens, price
        ),
    ]


def _training(comparison: ClusterComparison) -> tuple[Block, ...]:
    """Days, accelerator-hours and cost of all tokens, and the deadline."""
    first, wishes = comparison.first, comparison.wishes
    if first.training is None or first.inputs is None or not first.inputs.job.tokens:
        return ()
    columns = ["cluster", "days", "8 in 10 runs", "GPU-hours", *(["cost"] if wishes.prices else [])]
    align = "l" + "r" * (len(columns) - 1)
    if wishes.deadline_days:
        columns, align = [*columns, f"in {wishes.deadline_days:g} days"], align + "l"
    rows = []
    for row in comparison.rows:
        if row.inputs:
            training = row.training
            cells = ["-", "-", "-"]
            if training and row.best:
                span = _days(training, row.best, row.inputs)
                cells = [f"{training.days:,.1f}", span, f"{training.accelerator_hours:,.0f}"]
            if wishes.prices:
                cells.append("-" if training is None or training.cost is None else f"{training.cost:,.0f}")
            if wishes.deadline_days:
                cells.append(_deadline(row.deadline) if row.deadline else "-")
            rows.append((row.cluster.name, *cells))
    title = Heading(f"Training on {format_count(first.inputs.job.tokens)} tokens", 3)
    unpriced = wishes.prices and any(row.training and row.training.cost is None for row in comparison.rows)
    table = Table(tuple(columns), tuple(rows), align, note=UNPRICED if unpriced else "")
    return (title, table, Lines((OUTLOOKS,))) if wishes.deadline_days else (title, table)


def _days(training: Training, estimate: Estimate, inputs: Inputs) -> str:
    low, high = days_interval(training, estimate, inputs)
    return f"{low:,.1f} to {high:,.1f}"


def _deadline(deadline: Deadline) -> str:
    """The outlook, and on how many nodes it would be met."""
    if deadline.outlook == Outlook.MET:
        return deadline.outlook
    if deadline.nodes is None or deadline.training is None:
        return f"{deadline.outlook}; not met with {MOST_TIMES_THE_NODES} times the nodes"
    inputs, estimate = deadline.nodes.inputs, deadline.nodes.estimate
    nodes = f"{inputs.cluster.num_nodes} nodes ({inputs.cluster.num_gpus} in all)"
    return f"{deadline.outlook}; met with {nodes}: {_days(deadline.training, estimate, inputs)}"
