"""Named plans side by side as JSON."""

from __future__ import annotations

from typing import Any

from meshwright.answers.assumptions import assumptions
from meshwright.answers.compare.plans import Column, PlanComparison
from meshwright.answers.plan_file import plan_entry
from meshwright.answers.records import json_of

SCHEMA = "meshwright.compared-plans/1"


def plans_document(comparison: PlanComparison) -> dict[str, Any]:
    """The question, every plan with its price and the rules that it breaks, the differences to the first, and which is
    the best; numbers of a plan without a price are null.
    """
    first, inputs = comparison.reference, comparison.inputs
    return {
        "schema": SCHEMA,
        "inputs": inputs.model_dump(mode="json"),
        "plans": [_entry(column, comparison) for column in comparison.columns],
        "differences": [_difference(first, other) for other in comparison.others],
        "best": comparison.best.label if comparison.best else None,
        "told": " ".join(comparison.told),
        "assumptions": assumptions(inputs),
    }


def _entry(column: Column, comparison: PlanComparison) -> dict[str, Any]:
    return {
        "name": column.label,
        "file": column.named.file,
        "plan": column.named.plan.to_dict(),
        "legal": not column.broken,
        "broken": [{"rule": fault.where, "reason": fault.what} for fault in column.broken],
        "price": plan_entry(column.estimate, comparison.inputs) if column.estimate else None,
        "from_peak": column.parts or None,
        "training": json_of(column.training),
        "contradiction": json_of(column.premise),
    }


def _difference(first: Column, other: Column) -> dict[str, Any]:
    """What the other has more than the first: seconds by part, which add up to the step, and bytes by component."""
    told = {"name": other.label, "to": first.label}
    if first.estimate is None or other.estimate is None:
        return told | {"step_time_s": None, "time": None, "memory": None, "device_bytes": None}
    before, after = first.estimate.memory, other.estimate.memory
    return told | {
        "step_time_s": other.estimate.step_time_s - first.estimate.step_time_s,
        "time": {name: other.parts[name] - seconds for name, seconds in first.parts.items()},
        "memory": {name: more - less for name, more, less in zip(after._fields, after, before, strict=True)},
        "device_bytes": after.device - before.device,
    }
