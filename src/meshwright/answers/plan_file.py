"""The plan file: one JSON document that holds the question whole and the answer."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meshwright.answers.basis.uncertainty import uncertainty_entry
from meshwright.answers.experts.routing import rank_imbalance, routing_entry
from meshwright.answers.plan_file_versions import EARLIER, completed, written_otherwise
from meshwright.answers.records import fields_of
from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.components import Components
from meshwright.errors import Fault, InvalidInput, InvalidSpec, quoted
from meshwright.layout.plan import Plan
from meshwright.specs import catalog
from meshwright.specs.choices import CHOICES
from meshwright.specs.inputs import Inputs
from meshwright.text_files import MOST_BYTES, decoded, or_launch_file, read_text, unreadable

if TYPE_CHECKING:
    from meshwright.search.many_searches.fewest_nodes import Limit

SCHEMA = "meshwright.plan/2"
STANDARD_INPUT = "-"
"""What stands for it in place of a path."""
DEFAULTS = Plan().to_dict()


def plan_entry(estimate: Estimate, inputs: Inputs) -> dict[str, Any]:
    """One priced plan: its layout, speed, memory of its worst stage and waterfall."""
    imbalance = rank_imbalance(estimate, inputs)
    return fields_of(estimate, "plan", "step_time_s", "tokens_per_s_per_gpu", "mfu") | {
        **routing_entry(imbalance),
        "uncertainty": uncertainty_entry(estimate, inputs, imbalance),
        "memory": {
            **fields_of(estimate, "verdict", "worst_stage"),
            **memory_entry(estimate.memory),
            "visible_bytes": estimate.fit.visible_bytes,
            "eighty_percent_rule": {
                "usage": estimate.fit.eighty_percent_usage,
                "kept": estimate.fit.keeps_eighty_percent_rule,
            },
        },
        "time": estimate.time._asdict(),
        "compute": {f"{name}_s": seconds for name, seconds in estimate.compute._asdict().items()},
    }


def memory_entry(memory: Components[float]) -> dict[str, Any]:
    """Bytes of one stage by component, with the sums."""
    totals = {"allocated_bytes": memory.allocated, "reserved_bytes": memory.reserved, "device_bytes": memory.device}
    return totals | {"components": memory._asdict()}


def nodes_entry(limit: Limit) -> dict[str, Any]:
    """The fewest nodes that do, with the plan on them."""
    cluster = limit.inputs.cluster
    counts = {"num_nodes": cluster.num_nodes, "num_gpus": cluster.num_gpus}
    return counts | plan_entry(limit.estimate, limit.inputs)


def read_plan_file(path: str | Path) -> tuple[Inputs, list[Plan]]:
    """The question and the plans of a plan file, those of other splits last, as the screen numbers them.

    path: `-` for standard input. Raises `InvalidInput` or `InvalidSpec` with every fault.
    """
    document = _document(path)
    completed(document)
    known = json_schema()["properties"]
    faults = [Fault(quoted(key), "is not a key of a plan file") for key in document if key not in known]
    faults += _plan_faults("plans", document.get("plans"))
    others = document.get("other_splits") or []
    faults += _plan_faults("other_splits", others) if others else []
    inputs, wrong = _inputs(document.get("inputs"))
    if inputs is None or wrong or faults:
        raise InvalidSpec(f"plan file {str(path)!r}", [*faults, *wrong, *written_otherwise(document)])
    return inputs, [Plan.from_dict(entry["plan"]) for entry in (*document["plans"], *others)]


def ranked_plan(path: str | Path, rank: int) -> tuple[Inputs, Plan]:
    """The question of a plan file and its plan of this number, from 1; raises as `read_plan_file` does, and
    `InvalidInput` for a number beyond its plans.
    """
    inputs, plans = read_plan_file(path)
    if not 1 <= rank <= len(plans):
        what = f"{str(path)!r} holds {len(plans)} plans; --rank {rank} is too {'large' if rank > 1 else 'small'}"
        raise InvalidInput(f"{what}; use 1 to {len(plans)}")
    return inputs, plans[rank - 1]


def _document(path: str | Path) -> dict[str, Any]:
    """The JSON object in a file, or of standard input, which says that it is a plan file of this schema or an earlier
    one.
    """
    if str(path) == STANDARD_INPUT:
        text = decoded(sys.stdin.buffer.read(MOST_BYTES + 1), "standard input")
    else:
        text = read_text(Path(path), "plan file", missing="; write one with meshwright plan --json")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        instead = or_launch_file(Path(path))
        raise InvalidInput(f"{str(path)!r} is not a plan file: {unreadable(error)}{instead}") from None
    schema = document.get("schema") if isinstance(document, dict) else None
    if not isinstance(document, dict) or schema not in (SCHEMA, *EARLIER):
        writer = document.get("written_by") if isinstance(document, dict) else None
        by = f", written by {quoted(writer)}" if writer else ""
        what = f"is not a plan file of schema {SCHEMA!r} or earlier (found: {quoted(schema)}{by})"
        raise InvalidInput(f"{str(path)!r} {what}")
    return document


def _inputs(value: Any) -> tuple[Inputs | None, list[Fault]]:
    """What the plans are for, or every fault of it with its path in the file."""
    if not isinstance(value, dict):
        return None, [Fault("inputs", "must hold model, cluster, job and runtime")]
    try:
        return Inputs(**value), []
    except InvalidSpec as error:
        return None, [Fault(f"inputs.{fault.where}".rstrip("."), fault.what) for fault in error.faults]


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the plan file: the shipped one, with the names of choices; a plan has all its fields."""
    schema: dict[str, Any] = json.loads((resources.files(__package__) / "plan.schema.json").read_text("utf-8"))
    for field, names in CHOICES.items():
        schema["$defs"][field]["enum"] = [*names.values()]
    schema["$defs"]["precision"]["enum"] = [*catalog.names("precisions")]
    schema["$defs"]["plan"]["required"] = [*schema["$defs"]["plan"]["properties"]]
    return schema


def _plan_faults(key: str, entries: Any) -> Iterable[Fault]:
    if not isinstance(entries, list) or not entries:
        yield Fault(key, "must hold at least one plan")
        return
    for index, entry in enumerate(entries):
        plan = entry.get("plan") if isinstance(entry, dict) else None
        if not isinstance(plan, dict):
            yield Fault(f"{key}[{index}].plan", "is missing")
            continue
        for name in [*(name for name in plan if name not in DEFAULTS), *DEFAULTS]:
            if wrong := _wrong(name, plan):
                yield Fault(f"{key}[{index}].plan.{name}", wrong)


def _wrong(name: str, plan: dict[str, Any]) -> str | None:
    """What is wrong with one field of a plan, if anything."""
    if name not in DEFAULTS:
        return "is not a field of a plan"
    if name not in plan:
        return "is missing"
    value, default = plan[name], DEFAULTS[name]
    if type(value) is not type(default):
        return f"must be of type {type(default).__name__}: {quoted(value)}"
    chosen, choices = value if isinstance(value, list) else [value], CHOICES.get(name, {}).values()
    if choices and not all(each in choices for each in chosen):
        return f"is {quoted(value)}; known: {', '.join(choices)}"
    return None
