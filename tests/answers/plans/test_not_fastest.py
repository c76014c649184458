"""Where the recommended plan is not the predicted fastest, clusters side by side and one layout for all say so."""

from __future__ import annotations

from dataclasses import replace

from rich.console import Console

from meshwright.answers.compare.clusters import ClusterComparison, ClusterRow, Wishes, compare_clusters
from meshwright.answers.compare.clusters_table import clusters_screen
from meshwright.answers.compare.one_plan_table import one_plan_section
from meshwright.answers.document.blocks import Table
from meshwright.answers.document.terminal import terminal
from meshwright.answers.plans.ties import fastest_lines
from meshwright.cost.estimate import Estimate
from meshwright.search.many_searches.min_max import OnePlan
from strategies import llama_8b, question

QUESTIONS = [question(llama_8b(), where, global_batch=16, sequence_length=8192) for where in ("1x8:h100", "2x8:h100")]


def _compared() -> ClusterComparison:
    return compare_clusters([(each.cluster, each) for each in QUESTIONS], Wishes(one_plan=True))


def _with_best(row: ClusterRow, estimate: Estimate | None) -> ClusterRow:
    """The cluster with another plan recommended."""
    assert row.result
    assert estimate
    return replace(row, result=replace(row.result, best=(estimate,)))


def _slow(row: ClusterRow) -> ClusterRow:
    """The cluster with its leanest plan recommended, which is a slow one."""
    return _with_best(row, row.result and row.result.leanest)


def _table(comparison: ClusterComparison, *rows: ClusterRow) -> Table:
    _, table = one_plan_section(replace(comparison, rows=rows))
    assert isinstance(table, Table)
    return table


def test_one_layout_is_told_to_be_faster_where_it_is() -> None:
    found = _compared()
    first, second = (_with_best(row, row.result and row.result.fastest) for row in found.rows)
    names = [row.cluster.name for row in (first, second)]
    table = _table(found, first, second)
    assert not any("faster" in row[5] for row in table.rows)
    assert "predicted fastest" not in table.note
    table = _table(found, _slow(first), second)
    assert table.rows[0][5].endswith("% faster")
    told = "it is faster than the best plan, which is the one recommended there and not the predicted fastest."
    assert table.note.endswith(f"On {names[0]} {told}")
    assert _table(found, _slow(first), _slow(second)).note == f"On {names[0]} and {names[1]} {told}"


def test_a_layout_as_fast_as_every_best_plan_is_told_so() -> None:
    found = _compared()
    assert isinstance(found.one_plan, OnePlan)
    rows = [_with_best(row, each) for row, each in zip(found.rows, found.one_plan.estimates, strict=True)]
    table = _table(found, *rows)
    assert [row[5] for row in table.rows] == ["as fast", "as fast"]
    assert table.note == "It is as fast as the best plan of each cluster."


def test_a_cluster_whose_best_plan_is_not_the_fastest_says_so() -> None:
    found = _compared()
    slow = _slow(found.rows[0])
    assert slow.result
    assert slow.result.fastest
    (line,) = fastest_lines(slow.result)
    assert line.startswith(f"This is not the predicted fastest: {slow.result.fastest.plan} is ")
    assert fastest_lines(replace(slow.result, best=(slow.result.fastest,))) == []
    with (console := Console(width=80)).capture() as printed:
        console.print(terminal(clusters_screen(replace(found, rows=(slow, found.rows[1])))))
    assert line in " ".join(printed.get().split())
