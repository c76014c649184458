"""Plan file versions: what a file of another version does not say, and what to do where one is refused.

The number of the form is raised when a key is gone, means something else or is new to plans. A file is read where all
that it says has a meaning: what an earlier form does not say of a plan changes nothing, and what any file does not say
of its runtime and kernels is as the catalogue has it now, which answers tell among their assumptions.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from meshwright.errors import Fault, InvalidInput
from meshwright.layout.plan import Plan
from meshwright.specs.base import Spec
from meshwright.specs.reading.accelerator import read_accelerator
from meshwright.specs.runtime import read_runtime
from meshwright.version import VERSION

EARLIER = ("meshwright.plan/1",)
"""Forms that are still read."""
WRITTEN_BY = f"meshwright {VERSION}"
"""As a file says who wrote it."""
AGAIN = "ask its question again with meshwright plan ... --json"


def completed(document: dict[str, Any]) -> None:
    """Put into a file what it does not say, and tell among the assumptions of its job what of the question that is."""
    plans = [*_list(document.get("plans")), *_list(document.get("other_splits"))] * (document["schema"] in EARLIER)
    for entry in plans:
        if isinstance(entry, dict) and isinstance(entry.get("plan"), dict):
            entry["plan"] = Plan().to_dict() | entry["plan"]
    inputs = _table(document.get("inputs"))
    runtime, accelerator = _table(inputs.get("runtime")), _table(_table(inputs.get("cluster")).get("accelerator"))
    lacking = list[str]()
    with suppress(InvalidInput):
        lacking += _filled(runtime, read_runtime(str(runtime.get("id"))), "runtime")
    with suppress(InvalidInput):
        lacking += _filled(accelerator, read_accelerator(str(accelerator.get("id"))), "accelerator")
    job = _table(inputs.get("job"))
    if lacking and isinstance(job.get("assumptions", []), list):
        told = f"not said by the plan file, and as the catalogue has it now: {', '.join(lacking)}"
        job["assumptions"] = [*job.get("assumptions", []), told]


def written_otherwise(document: dict[str, Any]) -> Iterator[Fault]:
    """What to do with a refused file that another version wrote."""
    if document["schema"] in EARLIER:
        yield Fault("schema", f"is {document['schema']}, of an earlier version of meshwright; {AGAIN}")
    elif document.get("written_by", WRITTEN_BY) != WRITTEN_BY:
        yield Fault("written_by", f"is {document['written_by']}, and this is {WRITTEN_BY}; {AGAIN}")


def _filled(given: dict[str, Any], now: Spec, where: str) -> Iterator[str]:
    """Add what is not given of a part of the question; returns what that is."""
    written = now.model_dump(mode="json")
    for name in type(now).model_fields:
        inner = getattr(now, name)
        if name not in given:
            given[name] = written[name]
            yield f"{where}.{name}"
        elif isinstance(inner, Spec) and isinstance(given[name], dict):
            yield from _filled(given[name], inner, f"{where}.{name}")


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
