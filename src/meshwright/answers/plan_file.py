"""The plan file: one JSON document that holds the question whole and the answer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from meshwright.answers.assumptions import assumptions
from meshwright.answers.context_report import context_report
from meshwright.answers.experts import expert_report
from meshwright.answers.knobs_table import knobs_entry
from meshwright.answers.links import axes
from meshwright.answers.neighbours import neighbours_entry
from meshwright.answers.records import json_of
from meshwright.answers.step_parts import why_lost
from meshwright.answers.uncertainty import confidence_entry, uncertainty_entry
from meshwright.answers.waterfall import from_peak
from meshwright.cost.estimate import Estimate, StageEstimate
from meshwright.cost.memory.components import Components
from meshwright.errors import Fault, InvalidInput, InvalidSpec, quoted
from meshwright.layout.plan import RECOMPUTE_NAMES, Plan
from meshwright.layout.plans import COLUMNS
from meshwright.layout.recompute_modules import RECOMPUTE_MODULE_NAMES
from meshwright.schedules.records import SCHEDULE_NAMES
from meshwright.search.fewest import Limit
from meshwright.search.find import SearchResult
from meshwright.search.sensitivity import sensitivity
from meshwright.specs.inputs import Inputs

SCHEMA = "meshwright.plan/1"
CHOICES = {"recompute": tuple(RECOMPUTE_NAMES.values()), "schedule": tuple(SCHEDULE_NAMES.values())}


def plan_document(found: SearchResult, front: Sequence[Estimate] = ()) -> dict[str, Any]:
    """The answer of a search as a plan file; front: the plans that no other beats in both time and memory."""
    plans = [_ranked_entry(estimate, found) for estimate in found.best]
    others = [_ranked_entry(estimate, found) for estimate in found.other_splits]
    counts = {"considered": found.considered, "legal": found.legal, "fitting": found.fitting}
    return (
        _head(found.inputs)
        | counts
        | {
            "elapsed_s": found.elapsed_s,
            "plans": plans,
            "other_splits": others,
        }
        | ({"pareto": [_ranked_entry(estimate, found) for estimate in front]} if front else {})
        | {"assumptions": assumptions(found.inputs)}
    )


def explain_document(
    estimate: Estimate, inputs: Inputs, elapsed_s: float, near: SearchResult | None = None
) -> dict[str, Any]:
    """One explained plan as a plan file, with all that its screen shows.

    near: the answer of a search, for the best other plans.
    """
    counts = {"considered": 1, "legal": 1, "fitting": int(estimate.verdict.fits), "elapsed_s": elapsed_s}
    plan = plan_entry(estimate, inputs) | {
        "stages": [_stage_entry(stage) for stage in estimate.stages],
        "confidence": confidence_entry(estimate, inputs),
        "from_peak": from_peak(estimate, inputs),
        "placement": json_of(axes(estimate, inputs)),
        "knobs": knobs_entry(sensitivity(estimate, inputs)),
    }
    if near:
        plan |= {"neighbours": neighbours_entry(estimate, near)}
    if experts := expert_report(estimate, inputs):
        plan |= {"experts": json_of(experts)}
    if context := context_report(estimate, inputs):
        plan |= {"context": json_of(context)}
    return _head(inputs) | counts | {"plans": [plan]} | {"assumptions": assumptions(inputs)}


def plan_entry(estimate: Estimate, inputs: Inputs) -> dict[str, Any]:
    """One priced plan: its layout, speed, memory of its worst stage and waterfall."""
    return {
        "plan": estimate.plan.to_dict(),
        "step_time_s": estimate.step_time_s,
        "tokens_per_s_per_gpu": estimate.tokens_per_s_per_gpu,
        "mfu": estimate.mfu,
        "uncertainty": uncertainty_entry(estimate, inputs),
        "memory": {
            "verdict": str(estimate.verdict),
            "worst_stage": estimate.worst_stage,
            **_bytes(estimate.memory),
            "visible_bytes": estimate.fit.visible_bytes,
            "eighty_percent_rule": {
                "usage": estimate.eighty_percent_usage,
                "verdict": str(estimate.eighty_percent_verdict),
            },
        },
        "time": estimate.time._asdict(),
        "compute": {f"{name}_s": seconds for name, seconds in estimate.compute._asdict().items()},
    }


def nodes_entry(limit: Limit) -> dict[str, Any]:
    """The fewest nodes that do, with the plan on them."""
    cluster = limit.inputs.cluster
    counts = {"num_nodes": cluster.num_nodes, "num_gpus": cluster.num_gpus}
    return counts | plan_entry(limit.estimate, limit.inputs)


def _ranked_entry(estimate: Estimate, found: SearchResult) -> dict[str, Any]:
    best = found.best[0]
    return plan_entry(estimate, found.inputs) | {
        "lost": None if estimate.plan == best.plan else why_lost(estimate, best)
    }


def _stage_entry(stage: StageEstimate) -> dict[str, Any]:
    fields = {name: value for name, value in vars(stage).items() if name != "memory"}
    return fields | {"memory": _bytes(stage.memory), "peak_moment": str(stage.peak_moment)}


def read_plan_file(path: str | Path) -> tuple[Inputs, list[Plan]]:
    """The question and the plans of a plan file; raises `InvalidInput` or `InvalidSpec` with every fault."""
    document = _document(path)
    known = json_schema()["properties"]
    faults = [Fault(quoted(key), "is not a key of a plan file") for key in document if key not in known]
    faults += _plan_faults(document.get("plans"))
    inputs, wrong = _inputs(document.get("inputs"))
    if inputs is None or wrong or faults:
        raise InvalidSpec(f"plan file {str(path)!r}", [*faults, *wrong])
    return inputs, [Plan.from_dict(entry["plan"]) for entry in document["plans"]]


def _document(path: str | Path) -> dict[str, Any]:
    """The JSON object in a file, which says that it is a plan file of this schema."""
    try:
        document = json.loads(Path(path).read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise InvalidInput(f"no plan file {str(path)!r}; write one with meshwright plan --json") from None
    except OSError as error:
        raise InvalidInput(f"cannot read the plan file {str(path)!r}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{str(path)!r} is not a plan file: byte {error.start} is not UTF-8 text") from None
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{str(path)!r} is not a plan file: {error}") from None
    found = document.get("schema") if isinstance(document, dict) else None
    if not isinstance(document, dict) or found != SCHEMA:
        raise InvalidInput(f"{str(path)!r} is not a plan file of schema {SCHEMA!r} (found: {quoted(found)})")
    return document


def _inputs(given: Any) -> tuple[Inputs | None, list[Fault]]:
    """What the plans are for, or every fault of it with its path in the file."""
    if not isinstance(given, dict):
        return None, [Fault("inputs", "must hold model, cluster, job and runtime")]
    try:
        return Inputs(**given), []
    except InvalidSpec as error:
        return None, [Fault(f"inputs.{fault.where}".rstrip("."), fault.what) for fault in error.faults]


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the plan file: the shipped one, with the names of the schedules; a plan has all its fields."""
    schema: dict[str, Any] = json.loads((resources.files(__package__) / "plan.schema.json").read_text("utf-8"))
    schema["$defs"]["schedule"]["enum"] = [*SCHEDULE_NAMES.values()]
    schema["$defs"]["plan"]["required"] = [*schema["$defs"]["plan"]["properties"]]
    return schema


def _plan_faults(entries: Any) -> Iterable[Fault]:
    if not isinstance(entries, list) or not entries:
        yield Fault("plans", "must hold at least one plan")
        return
    wanted = Plan().to_dict()
    for index, entry in enumerate(entries):
        plan = entry.get("plan") if isinstance(entry, dict) else None
        if not isinstance(plan, dict):
            yield Fault(f"plans[{index}].plan", "is missing")
            continue
        for name in plan:
            if name not in COLUMNS:
                yield Fault(f"plans[{index}].plan.{name}", "is not a field of a plan")
        for name, default in wanted.items():
            if name not in plan:
                yield Fault(f"plans[{index}].plan.{name}", "is missing")
            elif type(plan[name]) is not type(default):
                yield Fault(
                    f"plans[{index}].plan.{name}", f"must be of type {type(default).__name__}: {quoted(plan[name])}"
                )
            elif plan[name] not in CHOICES.get(name, (plan[name],)):
                known = ", ".join(CHOICES[name])
                yield Fault(f"plans[{index}].plan.{name}", f"is {quoted(plan[name])}; known: {known}")
        yield from _module_faults(f"plans[{index}].plan.recompute_modules", plan.get("recompute_modules"))


def _module_faults(where: str, modules: Any) -> Iterable[Fault]:
    """A list of modules that names one which does not exist."""
    known = tuple(RECOMPUTE_MODULE_NAMES.values())
    if isinstance(modules, list) and not all(module in known for module in modules):
        yield Fault(where, f"is {quoted(modules)}; known: {', '.join(known)}")


def _head(inputs: Inputs) -> dict[str, Any]:
    return {"schema": SCHEMA, "inputs": inputs.model_dump(mode="json")}


def _bytes(memory: Components) -> dict[str, Any]:
    totals = {"allocated_bytes": memory.allocated, "reserved_bytes": memory.reserved, "device_bytes": memory.device}
    return totals | {"components": memory._asdict()}
