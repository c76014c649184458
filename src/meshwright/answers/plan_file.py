"""The plan file: one JSON document that holds the question whole and the answer."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any

from meshwright.answers.assumptions import assumptions
from meshwright.cost.memory.device import Verdict
from meshwright.cost.memory.stage import Components
from meshwright.cost.step import Estimates
from meshwright.errors import Fault, InvalidInput, InvalidSpec
from meshwright.layout.plan import RECOMPUTE_NAMES, SCHEDULE_NAMES, Plan
from meshwright.layout.plans import COLUMNS
from meshwright.search.find import Found
from meshwright.search.rank import why_lost
from meshwright.specs.inputs import Inputs

SCHEMA = "meshwright.plan/1"
CHOICES = {"recompute": tuple(RECOMPUTE_NAMES.values()), "schedule": tuple(SCHEDULE_NAMES.values())}


def plan_document(found: Found) -> dict[str, Any]:
    """The answer of a search as a plan file."""
    estimates = found.best
    plans = [plan_entry(estimates, row) for row in range(len(estimates.plans))]
    for row, entry in enumerate(plans):
        entry["lost"] = why_lost(estimates, row) if row else None
    counts = {"considered": found.considered, "legal": found.legal, "fitting": found.fitting}
    return _head(found.inputs) | counts | {"elapsed_s": found.elapsed_s, "plans": plans} | _tail(found.inputs)


def explain_document(estimates: Estimates, elapsed_s: float) -> dict[str, Any]:
    """One explained plan, with all its stages, as a plan file."""
    fits = int(estimates.verdict[0] < Verdict.OUT_OF_MEMORY)
    counts = {"considered": 1, "legal": 1, "fitting": fits, "elapsed_s": elapsed_s}
    plan = plan_entry(estimates, 0) | {"stages": stage_entries(estimates, 0)}
    return _head(estimates.inputs) | counts | {"plans": [plan]} | _tail(estimates.inputs)


def plan_entry(estimates: Estimates, row: int) -> dict[str, Any]:
    """One priced plan: its layout, speed, memory of its worst stage and waterfall."""
    worst = int(estimates.worst[row])
    memory = estimates.memory.rows(worst)
    usage = float(memory.states + memory.activations) / estimates.inputs.cluster.accelerator.memory_bytes
    return {
        "plan": estimates.plans[row].to_dict(),
        "step_time_s": float(estimates.step_time_s[row]),
        "tokens_per_s_per_gpu": float(estimates.tokens_per_s_per_gpu[row]),
        "mfu": float(estimates.mfu[row]),
        "memory": {
            "verdict": str(Verdict(int(estimates.verdict[row]))),
            "worst_stage": int(estimates.stages.stage[worst]),
            **_bytes(memory),
            "visible_bytes": estimates.inputs.cluster.accelerator.visible_memory_bytes,
            "seed_rule": {"usage": usage, "verdict": str(Verdict(int(estimates.seed_rule_verdict[row])))},
        },
        "time": {name: float(part[row]) for name, part in estimates.time._asdict().items()},
        "compute": {f"{name}_s": float(part[row]) for name, part in estimates.compute._asdict().items()},
    }


def stage_entries(estimates: Estimates, row: int) -> list[dict[str, Any]]:
    """Every stage of one plan: what it holds, its memory and the time of one micro-batch."""
    stages, time = estimates.stages, estimates.stage_time
    rows = [index for index in range(len(stages.plan)) if stages.plan[index] == row]
    return [
        {
            "stage": int(stages.stage[index]),
            "layers": int(stages.layers[index].sum()),
            "embedding": bool(stages.embedding[index]),
            "head": bool(stages.head[index]),
            "live_micro_batches": int(stages.live_micro_batches[index]),
            "forward_s": float(time.forward_total[index]),
            "backward_s": float(time.backward_total[index]),
            "memory": _bytes(estimates.memory.rows(index)),
        }
        for index in rows
    ]


def read_plan_file(path: str | Path) -> tuple[Inputs, list[Plan]]:
    """The question and the plans of a plan file; raises `InvalidInput` or `InvalidSpec` with every fault."""
    try:
        document = json.loads(Path(path).read_text("utf-8"))
    except FileNotFoundError:
        raise InvalidInput(f"no plan file {str(path)!r}; write one with meshwright plan --json") from None
    except OSError as error:
        raise InvalidInput(f"cannot read the plan file {str(path)!r}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{str(path)!r} is not a plan file: byte {error.start} is not UTF-8 text") from None
    except ValueError as error:
        raise InvalidInput(f"{str(path)!r} is not a plan file: {error}") from None
    found = document.get("schema") if isinstance(document, dict) else None
    if found != SCHEMA:
        raise InvalidInput(f"{str(path)!r} is not a plan file of schema {SCHEMA!r} (found: {found!r})")
    entries = document.get("plans")
    faults = list(_plan_faults(entries if isinstance(entries, list) else []))
    if not isinstance(entries, list) or not entries:
        faults.append(Fault("plans", "must hold at least one plan"))
    if not isinstance(document.get("inputs"), dict):
        faults.append(Fault("inputs", "must hold model, cluster, job and runtime"))
    if faults:
        raise InvalidSpec(f"plan file {str(path)!r}", faults)
    return Inputs(**document["inputs"]), [Plan.from_dict(entry["plan"]) for entry in document["plans"]]


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the plan file, as shipped in the package."""
    schema: dict[str, Any] = json.loads((resources.files(__package__) / "plan.schema.json").read_text("utf-8"))
    return schema


def _plan_faults(entries: list[Any]) -> Iterable[Fault]:
    wanted = Plan().to_dict()
    for index, entry in enumerate(entries):
        plan = entry.get("plan") if isinstance(entry, dict) else None
        if not isinstance(plan, dict):
            yield Fault(f"plans[{index}].plan", "is missing")
            continue
        for name in plan.keys() - set(COLUMNS):
            yield Fault(f"plans[{index}].plan.{name}", "is not a field of a plan")
        for name, default in wanted.items():
            if name not in plan:
                yield Fault(f"plans[{index}].plan.{name}", "is missing")
            elif type(plan[name]) is not type(default):
                yield Fault(f"plans[{index}].plan.{name}", f"must be of type {type(default).__name__}: {plan[name]!r}")
            elif plan[name] not in CHOICES.get(name, (plan[name],)):
                known = ", ".join(CHOICES[name])
                yield Fault(f"plans[{index}].plan.{name}", f"is {plan[name]!r}; known: {known}")


def _head(inputs: Inputs) -> dict[str, Any]:
    return {"schema": SCHEMA, "inputs": inputs.model_dump(mode="json")}


def _tail(inputs: Inputs) -> dict[str, Any]:
    return {"assumptions": assumptions(inputs)}


def _bytes(memory: Components) -> dict[str, Any]:
    components = {name: float(part) for name, part in memory._asdict().items()}
    return {
        "allocated_bytes": float(memory.allocated),
        "reserved_bytes": float(memory.reserved),
        "device_bytes": float(memory.device),
        "components": components,
    }
