"""Records: any record as JSON, and what JSON says of a priced plan that is one of many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from meshwright.cost.estimate import Estimate
from meshwright.layout.plan import Plan


def json_of(record: Any) -> Any:
    """A record with its fields by name, its enums by what they print, its plans by their fields.

    >>> json_of({"shares": (0.5, None)})
    {'shares': [0.5, None]}
    """
    if isinstance(record, Plan):
        return record.to_dict()
    if isinstance(record, Enum):
        return str(record)
    if is_dataclass(record):
        return {field.name: json_of(getattr(record, field.name)) for field in fields(record)}
    if isinstance(record, tuple) and hasattr(record, "_asdict"):
        return json_of(record._asdict())
    if isinstance(record, Mapping):
        return {key: json_of(value) for key, value in record.items()}
    return (
        [json_of(each) for each in record] if isinstance(record, Iterable) and not isinstance(record, str) else record
    )


def price_of(estimate: Estimate) -> dict[str, Any]:
    """What one priced plan of many takes: seconds of a step, bytes of its worst stage, its verdict."""
    return {
        "step_time_s": estimate.step_time_s,
        "device_bytes": estimate.memory.device,
        "verdict": str(estimate.verdict),
    }


def priced_plan(estimate: Estimate) -> dict[str, Any]:
    """The same with the plan."""
    return {"plan": estimate.plan.to_dict(), **price_of(estimate)}
