"""Kernels: whether the files of a launch run the kernels and CUDA graphs that a plan is priced with."""

from __future__ import annotations

from meshwright.errors import Fault, any_of
from meshwright.launch.facts import facts_of, holds
from meshwright.launch.table import Implementations, LaunchTable
from meshwright.layout.plan import Plan
from meshwright.specs.inputs import Inputs
from meshwright.specs.runtime import SECTION_OF

WORDS = {"cross_entropy": "the cross-entropy", "elementwise": "element-wise kernels", "graphs": "CUDA graphs:"}
"""What these fields of a runtime are called."""

WITHOUT_GRAPHS: Implementations = {"graphs": {"none": ()}}
"""Of tables that name no CUDA graphs."""


def kernel_faults(plan: Plan, inputs: Inputs, table: LaunchTable) -> list[Fault]:
    """A fault for each kind of kernels that a question replaced by one that the framework's files cannot ask for, and
    for CUDA graphs that they cannot.
    """
    facts = facts_of(plan, inputs)
    faults = []
    for kind, known in (WITHOUT_GRAPHS | table.kernels).items():
        priced = getattr(getattr(inputs.runtime, SECTION_OF[kind]), kind)
        if priced in known and all(holds(each, facts) for each in known[priced]):
            continue
        run = any_of(name for name, conditions in known.items() if all(holds(each, facts) for each in conditions))
        faults.append(Fault("runtime", f"it has no setting for {WORDS[kind]} {priced}, and would run {run}"))
    return faults
