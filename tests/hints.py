"""Following the advice of a refusal: the changes that a reason names, each applied to the plan or the question."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from meshwright.layout.legality.rule import Rule
from meshwright.layout.plan import Plan
from meshwright.specs.inputs import Inputs

PHRASES: dict[str, dict[str, Any]] = {
    "or vpp 1": {"vpp": 1},
    "no sp": {"sp": False},
    "sp needs tp 2": {"sp": False},
    "turn sp on": {"sp": True},
    "needs pp 2 or more": {"pp": 2},
    "name no chunk_layers": {"chunk_layers": ()},
    "name no end_stage_layers": {"first_stage_layers": 0, "last_stage_layers": 0},
    "leave both out": {"embedding_as_layer": False, "head_as_layer": False},
}
"""Advice without a number."""


def leads_to_legal(rule: Rule, plan: Plan, given: Inputs, steps: int = 1) -> bool:
    """Whether following every hint of one rule, again and again, ends in plans that keep it."""
    if rule.legal(plan, given):
        return True
    hints = _hints(rule, plan, given)
    return bool(steps and hints) and all(leads_to_legal(rule, *hint, steps - 1) for hint in hints)


def _hints(rule: Rule, plan: Plan, given: Inputs) -> list[tuple[Plan, Inputs]]:
    reason = rule.reason(plan, given)
    plans = [replace(plan, **change) for change in _named_changes(reason)]
    batches = re.findall(r"nearest global_batch: (\d+)(?: or (\d+))?", reason)
    jobs = [given.job.replace(global_batch=int(batch)) for pair in batches for batch in pair if batch]
    jobs += [given.job.replace(precision="bf16")] if "or precision bf16" in reason else []
    return [(each, given) for each in plans] + [(plan, given.replace(job=job)) for job in jobs]


def _named_changes(reason: str) -> list[dict[str, Any]]:
    """What a reason names after `nearest`, `makes`, `would` or in one of the phrases."""
    changes: list[dict[str, Any]] = []
    for first, last in re.findall(r"nearest first_stage_layers: (\d+) \w+ last_stage_layers: (\d+)", reason):
        return [{"first_stage_layers": int(first), "last_stage_layers": int(last)}]
    for sizes in re.findall(r"nearest chunk_layers: ([\d,]+)", reason):
        return [{"chunk_layers": tuple(int(size) for size in sizes.split(","))}]
    for field, low, high in re.findall(r"nearest (\w+): (\d+)(?: or (\d+))?", reason):
        changes += [{field: int(value)} for value in (low, high) if value and field != "global_batch"]
    for field, value in re.findall(r"; (dp|num_microbatches) (\d+) makes it", reason):
        changes += [{field: int(value)}]
    for dp, count in re.findall(r"; with dp (\d+), num_microbatches (\d+) makes it", reason):
        changes += [{"dp": int(dp), "num_microbatches": int(count)}]
    for field, *values in re.findall(r"(tp|cp|pp|dp) (\d+)(?: or (\d+))? would", reason):
        changes += [{field: int(value)} for value in values if value]
    for names in re.findall(r"nearest recompute_modules: ([\w,]+)", reason):
        changes += [{"recompute_modules": names.split(",")}]
    for kinds in re.findall(r"set recompute to (\w+(?: or \w+)*)", reason):
        changes += [{"recompute": kind} for kind in kinds.split(" or ")]
    for names in re.findall(r"set context_exchange to (\w+(?: or \w+)*)", reason):
        changes += [{"context_exchange": name} for name in names.split(" or ")]
    changes += [{"schedule": name} for name in re.findall(r"set schedule to ([\w-]+)", reason)]
    return changes + [change for phrase, change in PHRASES.items() if phrase in reason]
