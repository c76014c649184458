"""Kernels: whether the files of a launch run the kernels and CUDA graphs that a plan is priced with."""

from __future__ import annotations

from collections.abc import Iterator

from meshwright.cost.compute.experts import dispatches_fused
from meshwright.errors import Fault, any_of
from meshwright.launch.facts import facts_of, holds
from meshwright.launch.table import Conditions, LaunchTable
from meshwright.layout.plan import Plan
from meshwright.specs.inputs import Inputs
from meshwright.specs.runtime import SECTION_OF, Runtime
from meshwright.specs.runtime.communication import FOR_EXPERTS

WORDS = {
    "cross_entropy": "the cross-entropy {}",
    "elementwise": "element-wise kernels {}",
    "attention_kernel": "attention kernel {}",
    "quantised_attention": "quantised attention {}",
    "expert_products": "products of experts {}",
    "gradient_accumulation": "accumulation of gradients {}",
    "deterministic": "deterministic kernels {}",
    "dispatcher": "token dispatcher {}",
    "fused_kernels": "fused dispatch by {}",
    "quantised_dispatch": "quantised dispatch {}",
    "graphs": "CUDA graphs: {}",
}
"""What a question may replace of a runtime that files have to ask for."""

LIBRARIES = {"deepep": "DeepEP", "hybridep": "HybridEP (of DeepEP)"}
"""Whose kernels a fused dispatcher runs, by the backend that a launch sets."""


def kernel_faults(plan: Plan, inputs: Inputs, table: LaunchTable) -> list[Fault]:
    """A fault for each kind of kernels that a question replaced by one that the framework's files cannot ask for, and
    for CUDA graphs that they cannot.
    """
    facts = facts_of(plan, inputs)
    faults = []
    for kind, known in _run(inputs, table):
        priced = _field(inputs.runtime, kind)
        if priced in known and all(holds(each, facts) for each in known[priced]):
            continue
        run = any_of(name for name, conditions in known.items() if all(holds(each, facts) for each in conditions))
        faults.append(Fault("runtime", f"it has no setting for {WORDS[kind].format(priced)}, and would run {run}"))
    return faults


def dispatch_faults(plan: Plan, inputs: Inputs) -> list[Fault]:
    """Why a fused dispatcher that the question asks for would not send tokens on its cluster."""
    if not dispatches_fused(plan, inputs) or inputs.cluster.runs_fused_dispatch:
        return []
    library, accelerator = LIBRARIES[str(facts_of(plan, inputs)["flex_backend"])], inputs.cluster.accelerator.id
    return [Fault("runtime", f"its fused dispatcher is {library}, which is not known to run on {accelerator}")]


def _run(inputs: Inputs, table: LaunchTable) -> Iterator[tuple[str, dict[str, Conditions]]]:
    """What files run of each kind: what their table names, else what the runtime has of a kind that is replaced and
    that no setting says.
    """
    usual = {each.field: each.usual for each in reversed(inputs.runtime.replaced)}
    said = table.rows.keys() | {name for choice in table.choices for case in choice.cases for name in case.fields}
    for kind in WORDS:
        idle = kind in FOR_EXPERTS and (not inputs.model.is_moe or kind not in usual)
        if not idle and kind in table.kernels:
            yield kind, table.kernels[kind]
        elif not idle and kind in usual and f"runtime.{kind}" not in said:
            yield kind, {usual[kind]: ()}


def _field(runtime: Runtime, kind: str) -> str:
    """The value of a field of a runtime, as a question spells it."""
    value = getattr(getattr(runtime, SECTION_OF[kind]), kind)
    return str(value).lower() if isinstance(value, bool) else str(value)
