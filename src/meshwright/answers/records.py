"""Records: any answer as JSON, and what JSON says of a priced plan that is one of many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from meshwright.cost.estimate import Estimate
from meshwright.layout.plan import Plan
from meshwright.specs.base import Spec


def json_of(record: Any) -> Any:
    """A record with its fields by name, its enums by what they print, plans and specifications by their fields.

    >>> json_of({"shares": (0.5, None)})
    {'shares': [0.5, None]}
    """
    if isinstance(record, Plan):
        return record.to_dict()
    if isinstance(record, Spec):
        return record.model_dump(mode="json")
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


def document_of(**parts: Any) -> dict[str, Any]:
    """What `--json` prints: every part by its name, as `json_of` writes it."""
    return {name: json_of(part) for name, part in parts.items()}


def fields_of(record: object, *names: str) -> dict[str, Any]:
    """Some fields of a record, as `json_of` writes them."""
    return {name: json_of(getattr(record, name)) for name in names}


def priced_plan(estimate: Estimate) -> dict[str, Any]:
    """One priced plan of many: its layout, seconds of a step, bytes of its worst stage, its verdict."""
    return fields_of(estimate, "plan", "step_time_s", "verdict") | {"device_bytes": estimate.memory.device}
