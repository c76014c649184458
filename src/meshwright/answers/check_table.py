"""The check: one plan held against every rule of its runtime."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from meshwright.answers.screen import headline
from meshwright.layout.legality import faults, unmodelled
from meshwright.layout.plan import Plan
from meshwright.specs.inputs import Inputs


def is_legal(plan: Plan, inputs: Inputs) -> bool:
    """Whether the runtime accepts the plan and everything about it is priced."""
    return all(entry["kept"] for entry in _entries(plan, inputs))


def check_document(plan: Plan, inputs: Inputs) -> dict[str, Any]:
    """The check as JSON: the plan, whether it is legal, and every rule with its source and, if broken, the reason."""
    rules = _entries(plan, inputs)
    return {
        "runtime": inputs.runtime.id,
        "version": inputs.runtime.version,
        "plan": plan.to_dict(),
        "legal": all(entry["kept"] for entry in rules),
        "rules": rules,
    }


def check_screen(plan: Plan, inputs: Inputs) -> RenderableType:
    """Every rule, green or red, with the values, the nearest legal change and where the framework enforces it."""
    entries = _entries(plan, inputs)
    broken = sum(not entry["kept"] for entry in entries)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    table.add_column("rule", no_wrap=True)
    table.add_column("", overflow="fold")
    for entry in entries:
        mark = Text("ok", style="green") if entry["kept"] else Text("broken", style="bold red")
        table.add_row(mark, entry["name"], Text(entry["source"], style="dim") if entry["kept"] else entry["reason"])
    runtime = f"{inputs.runtime.id} ({inputs.runtime.version})"
    verdict = f"{runtime} accepts it: {len(entries)} rules kept"
    if unmodelled(plan, inputs):
        verdict = f"Not modelled yet for {runtime}"
    elif broken:
        verdict = f"{runtime} refuses it: {broken} of {len(entries)} rules broken"
    return Group(headline(inputs), "", Text("Plan: ").append(str(plan), style="bold"), Text(verdict), "", table)


def _entries(plan: Plan, inputs: Inputs) -> list[dict[str, Any]]:
    sources = {reference.name: reference.source for reference in inputs.runtime.rules}
    unpriced = [
        {"name": fault.where, "kept": False, "source": "meshwright", "reason": fault.what}
        for fault in unmodelled(plan, inputs)
    ]
    if unpriced:
        return unpriced
    broken = {fault.where: fault.what for fault in faults(plan, inputs)}
    return [
        {"name": name, "kept": name not in broken, "source": source, "reason": broken.get(name)}
        for name, source in sources.items()
    ]
