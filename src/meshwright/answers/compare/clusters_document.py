"""Clusters side by side as JSON."""

from __future__ import annotations

from typing import Any

from meshwright.answers.assumptions import assumptions
from meshwright.answers.compare.clusters import ClusterComparison, ClusterRow
from meshwright.answers.compare.one_plan_table import one_plan_entry
from meshwright.answers.compare.training import deadline_entry
from meshwright.answers.plan_file import plan_entry
from meshwright.answers.records import json_of
from meshwright.cost.estimate import Estimate

SCHEMA = "meshwright.compared-clusters/1"


def clusters_document(comparison: ClusterComparison) -> dict[str, Any]:
    """Every cluster with its question, its best plan or why it has none, and what training takes there; the one layout
    for all is null where it was not asked for.
    """
    first = comparison.first.best
    return {
        "schema": SCHEMA,
        "clusters": [_entry(row, first) for row in comparison.rows],
        "one_plan": one_plan_entry(comparison),
    }


def _entry(row: ClusterRow, first: Estimate | None) -> dict[str, Any]:
    best, inputs = row.best, row.inputs
    return {
        "cluster": row.cluster.name,
        "inputs": inputs.model_dump(mode="json") if inputs else None,
        "best": plan_entry(best, inputs) if best and inputs else None,
        "tokens_per_s": best.tokens_per_s_per_gpu * row.cluster.num_gpus if best else None,
        "limiting": {"part": row.limiting[0], "seconds": row.limiting[1]} if row.limiting else None,
        "speed": first.step_time_s / best.step_time_s if best and first else None,
        "training": json_of(row.training),
        "deadline": deadline_entry(row.deadline),
        "contradiction": json_of(row.premise),
        "refused": row.refused,
        "assumptions": assumptions(inputs) if inputs else [],
    }
