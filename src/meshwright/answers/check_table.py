"""The check: one plan held against every rule of its runtime, and what its launch must set."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from meshwright.answers.document.blocks import Block, Bullets, Heading, Lines, Table, Toned
from meshwright.answers.screen import headline
from meshwright.launch.settings import LaunchSetting, launch_settings
from meshwright.layout.legality import faults, rules_of
from meshwright.layout.plan import Plan
from meshwright.specs.inputs import Inputs

WHEN = {
    "late": "late: the framework notices only after it has started",
    "silently": "silently: the framework does something else without a word",
}
"""What the marks of rules mean that are not enforced at the start."""


def is_legal(plan: Plan, inputs: Inputs) -> bool:
    """Whether the plan keeps every rule."""
    return not faults(plan, inputs)


def check_document(plan: Plan, inputs: Inputs) -> dict[str, Any]:
    """The check as JSON: the plan, whether it is legal, and every rule with its source and, if broken, the reason.

    Every rule says when the framework enforces it; `launch` is what the launch must set beside the plan: keys with
    their values, keys to leave out, the reason and its source.
    """
    rules = _entries(plan, inputs)
    return {
        "runtime": inputs.runtime.id,
        "version": inputs.runtime.version,
        "plan": plan.to_dict(),
        "legal": all(entry["kept"] for entry in rules),
        "rules": rules,
        "launch": [asdict(setting) | {"text": str(setting)} for setting in _settings(plan, inputs)],
    }


def check_screen(plan: Plan, inputs: Inputs) -> tuple[Block, ...]:
    """Every rule, green or red, with the values, the nearest legal change, where and when the framework enforces it."""
    entries = _entries(plan, inputs)
    broken = sum(not entry["kept"] for entry in entries)
    runtime = f"{inputs.runtime.id} ({inputs.runtime.version})"
    verdict = f"{runtime} accepts it: all {len(entries)} rules kept"
    if broken:
        verdict = f"{runtime} refuses it: {broken} of {len(entries)} rules broken"
    lines = Lines((f"Plan: **{plan}**", verdict))
    return headline(inputs), lines, _rules(entries), *_launch(plan, inputs)


def _rules(entries: list[dict[str, Any]]) -> Table:
    rows = []
    for entry in entries:
        mark = Toned("ok", "good") if entry["kept"] else Toned("**broken**", "bad")
        when = f"{entry['enforced']}: " if entry["enforced"] in WHEN else ""
        rows.append((mark, entry["name"], when + (entry["source"] if entry["kept"] else entry["reason"])))
    marks = [meaning for when, meaning in WHEN.items() if any(entry["enforced"] == when for entry in entries)]
    return Table(("", "rule", "source, or what is wrong"), tuple(rows), "lwl", note="\n".join(marks))


def _launch(plan: Plan, inputs: Inputs) -> tuple[Block, ...]:
    """What the launch must set, one line each, under the rules."""
    lines = tuple(str(setting) for setting in _settings(plan, inputs))
    return (Heading("The launch must set", 3), Bullets(lines)) if lines else ()


def _settings(plan: Plan, inputs: Inputs) -> list[LaunchSetting]:
    """What the launch must set, of a plan that the runtime accepts."""
    return launch_settings(plan, inputs) if is_legal(plan, inputs) else []


def _entries(plan: Plan, inputs: Inputs) -> list[dict[str, Any]]:
    broken = {fault.where: fault.what for fault in faults(plan, inputs)}
    sources = {**inputs.runtime.checks, **{rule.name: rule for rule in inputs.runtime.rules}}
    return [
        {
            "name": rule.name,
            "kept": rule.name not in broken,
            "source": sources[rule.name].source if rule.name in sources else f"meshwright: {rule.summary}",
            "enforced": sources[rule.name].enforced if rule.name in sources else "at start",
            "reason": broken.get(rule.name),
        }
        for rule in rules_of(inputs)
    ]
