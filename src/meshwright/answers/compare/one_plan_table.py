"""The one layout for all clusters: its step on each, what it loses there, or who excludes it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from meshwright.answers.compare.clusters import ClusterComparison, ClusterRow
from meshwright.answers.document.blocks import Block, Heading, Paragraph, Table
from meshwright.answers.pace import SAME, longer, pace_of, pace_or_same
from meshwright.answers.records import priced_plan
from meshwright.answers.screen import verdict_cell
from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.fit import Verdict
from meshwright.errors import listed
from meshwright.layout.plan import Plan
from meshwright.search.many_searches.min_max import Exclusion, OnePlan
from meshwright.units import GIB, format_gib, format_seconds

OF_THE_CLUSTER = re.compile(r"(dp|m|group|replicate)\d+")
"""Words of a plan that follow the cluster."""


def one_plan_section(comparison: ClusterComparison) -> tuple[Block, ...]:
    """The layout with its table; or which cluster excludes the nearest one, and why; nothing where none was wished."""
    if not comparison.wishes.one_plan:
        return ()
    result = comparison.one_plan
    if isinstance(result, OnePlan):
        return _chosen(result, comparison)
    return Heading("No layout fits safely on all of them", 3), Paragraph(excluded_sentence(result, comparison))


def one_plan_entry(comparison: ClusterComparison) -> dict[str, Any] | None:
    """The same as it stands in a document: the layout on every cluster, or what excludes the nearest one."""
    result = comparison.one_plan
    if isinstance(result, OnePlan):
        each = zip(comparison.rows, result.estimates, result.regrets, strict=True)
        clusters = [
            {"cluster": row.cluster.name, **priced_plan(estimate), "regret": regret} for row, estimate, regret in each
        ]
        return {"worst_regret": max(result.regrets), "clusters": clusters}
    if not comparison.wishes.one_plan:
        return None
    nearest = result and {
        "cluster": comparison.rows[result.cluster].cluster.name,
        "plan": result.plan,
        "rules": result.faults,
        "device_bytes": result.estimate.memory.device if result.estimate else None,
        "verdict": result.estimate.verdict if result.estimate else None,
    }
    return {"excluded": excluded_sentence(result, comparison), "nearest": nearest}


def excluded_sentence(result: Exclusion | None, comparison: ClusterComparison) -> str:
    """Which cluster excludes the nearest layout, and why."""
    if result is None:
        refusing = next(row for row in comparison.rows if row.result is None)
        return f"No plan is possible on {refusing.cluster.name}: {refusing.refusal}"
    cluster = comparison.rows[result.cluster].cluster
    if result.estimate is None:
        broken = "; ".join(map(str, result.faults))
        return f"The nearest layout, {layout_words(result.plan)}, is not legal on {cluster.name}: {broken}"
    fit = result.estimate.fit
    needs, has = format_gib(fit.needed_bytes), format_gib(fit.visible_bytes)
    verdict = "" if result.estimate.verdict == Verdict.SAFE else f", and is {result.estimate.verdict}"
    return f"The nearest layout, {layout_words(result.plan)}, needs {needs} of {has} on {cluster.name}{verdict}"


def layout_words(plan: Plan) -> str:
    """A plan without what follows the cluster: `tp8 sp pp2 vpp8 zero1 mbs1`."""
    return " ".join(word for word in str(plan).split() if not OF_THE_CLUSTER.fullmatch(word))


def _chosen(result: OnePlan, comparison: ClusterComparison) -> tuple[Block, ...]:
    pairs = [(row, estimate, longer(estimate, row.best)) for row, estimate in _priced(result, comparison) if row.best]
    rows = tuple(
        (
            row.cluster.name,
            str(estimate.plan.dp),
            str(estimate.plan.num_microbatches),
            format_seconds(estimate.step_time_s),
            format_seconds(row.best.step_time_s) if row.best else "-",
            pace_or_same(slower),
            f"{estimate.memory.device / GIB:.1f}",
            verdict_cell(estimate.verdict),
        )
        for row, estimate, slower in pairs
    )
    columns = ("cluster", "dp", "m", "step", "best plan", "against it", "GiB", "verdict")
    title = Heading(f"One layout for all: {layout_words(_whole(result))}", 3)
    note = _note({row.cluster.name: slower for row, _, slower in pairs})
    return title, Table(columns, rows, "lrrrrrrw", note=note)


def _priced(result: OnePlan, comparison: ClusterComparison) -> Iterator[tuple[ClusterRow, Estimate]]:
    return zip(comparison.rows, result.estimates, strict=True)


def _note(slower: Mapping[str, float]) -> str:
    """Where the layout loses most to the best plan, and where it is faster, as the best plan need not be the fastest.

    slower: what its step takes more than that of the best plan, a share, by cluster.
    """
    most = max(slower, key=lambda name: slower[name])
    ahead = [name for name, share in slower.items() if share <= -SAME]
    lines = []
    if slower[most] >= SAME:
        lines.append(f"It loses most on {most}: it is {pace_of(slower[most])} than the best plan there.")
    elif not ahead:
        lines.append("It is as fast as the best plan of each cluster.")
    if ahead:
        lines.append(
            f"On {listed(ahead)} it is faster than the best plan, which is the one recommended there and not the "
            "predicted fastest."
        )
    return " ".join(lines)


def _whole(result: OnePlan) -> Plan:
    """The layout where it has the most data-parallel ranks, so that its ZeRO stage shows."""
    return max((estimate.plan for estimate in result.estimates), key=lambda plan: plan.dp * plan.cp)
