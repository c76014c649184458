"""Kernels: whether the files of a launch run the cross-entropy and element-wise kernels that a plan is priced with."""

from __future__ import annotations

from meshwright.errors import Fault, any_of
from meshwright.launch.facts import facts_of, holds
from meshwright.launch.table import LaunchTable
from meshwright.layout.plan import Plan
from meshwright.specs.inputs import Inputs

WORDS = {"cross_entropy": "the cross-entropy", "elementwise": "element-wise kernels"}
"""What the fields of a runtime's kernels are called."""


def kernel_faults(plan: Plan, inputs: Inputs, table: LaunchTable) -> list[Fault]:
    """A fault for each kind of kernels that a question replaced by one that the framework's files cannot ask for."""
    facts = facts_of(plan, inputs)
    faults = []
    for kind, known in table.kernels.items():
        priced = getattr(inputs.runtime.kernels, kind)
        if priced in known and all(holds(each, facts) for each in known[priced]):
            continue
        run = any_of(name for name, conditions in known.items() if all(holds(each, facts) for each in conditions))
        faults.append(Fault("runtime", f"it has no setting for {WORDS[kind]} {priced}, and would run {run}"))
    return faults
