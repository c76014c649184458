"""Runtime: how one training framework behaves, as data: what it keeps, sends, overlaps and refuses."""

from __future__ import annotations

from typing import Any, Self

from pydantic import model_validator

from meshwright.errors import Fault, InvalidSpec, quoted
from meshwright.specs.base import Spec
from meshwright.specs.fitted import fitted_constants
from meshwright.specs.runtime.activations import Activations
from meshwright.specs.runtime.capabilities import Capabilities
from meshwright.specs.runtime.communication import Communication, Overlap, PipelineEngine
from meshwright.specs.runtime.families import elementwise_entries, runtime_entry
from meshwright.specs.runtime.operators import CrossEntropy, ElementwiseKernels, RuntimeKernels
from meshwright.specs.runtime.process import DeviceMemory, Host
from meshwright.specs.runtime.rules import Enforcement, RuleReference
from meshwright.specs.runtime.sharding import Sharding
from meshwright.specs.runtime.storage import LossScaling, Storage

__all__ = ["AXES", "SECTION_OF", "Runtime", "read_runtime"]

AXES = ("tp", "cp", "ep", "dp", "pp")


class Runtime(Spec):
    """One framework at one version."""

    id: str
    aliases: tuple[str, ...] = ()
    family: str
    """Runtimes that are built on one another; what a file leaves out comes from its own family alone."""
    version: str
    """Release or commit that the behaviours below were read from."""
    plans: Capabilities
    storage: Storage
    sharding: Sharding
    activations: Activations
    kernels: RuntimeKernels
    communication: Communication
    pipeline: PipelineEngine
    host: Host
    overlap: Overlap
    memory: DeviceMemory
    loss_scaling: LossScaling
    cross_entropies: dict[str, CrossEntropy]
    elementwise_kernels: dict[str, ElementwiseKernels]
    checks: dict[str, Enforcement] = {}
    """Where the framework checks what any plan is held against: sources for people, no part of legality."""
    rules: tuple[RuleReference, ...] = ()
    """Rules that the framework adds to those that hold for every plan."""
    demands: tuple[RuleReference, ...] = ()
    """What a launch must set beside the plan; no part of legality."""
    assumed: tuple[str, ...] = ()
    """Behaviours without a published number, for the user's eyes."""
    replaced: tuple[str, ...] = ()
    """Behaviours that a question replaced, for the user's eyes."""
    sources: dict[str, str]

    @property
    def elementwise_bytes(self) -> ElementwiseKernels:
        """Of the element-wise kernels in use."""
        return self.elementwise_kernels[self.kernels.elementwise]

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed, validated like a new one; a field of a section needs no more than its name.

        >>> read_runtime("torchtitan").replace(moment_bytes=2).storage.moment_bytes
        2
        """
        whole = {name: value for name, value in changes.items() if name not in SECTION_OF}
        for name in changes.keys() & SECTION_OF.keys():
            section = SECTION_OF[name]
            whole[section] = whole.get(section, getattr(self, section)).replace(**{name: changes[name]})
        return super().replace(**whole)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        kernels, faults = self.kernels, []
        if kernels.cross_entropy not in self.cross_entropies:
            known = ", ".join(self.cross_entropies) or "none"
            what = f"{quoted(kernels.cross_entropy)} is not among cross_entropies: {known}"
            faults.append(Fault("kernels.cross_entropy", what))
        for field in ("kernel_constant", "attention_constant"):
            if (name := getattr(kernels, field)) and name not in fitted_constants():
                what = f"{quoted(name)} is not among {', '.join(fitted_constants())}"
                faults.append(Fault(f"kernels.{field}", what))
        if kernels.elementwise not in self.elementwise_kernels:
            known = ", ".join(self.elementwise_kernels) or "none"
            what = f"{quoted(kernels.elementwise)} is not among elementwise_kernels: {known}"
            faults.append(Fault("kernels.elementwise", what))
        priced = {"half": {0, 1, 2, 3}, "full": {0, 2, 3}}[self.storage.weights]
        if not self.plans.zero_stages or not set(self.plans.zero_stages) <= priced:
            what = f"{list(self.plans.zero_stages)} must be of {sorted(priced)} where weights is {self.storage.weights}"
            faults.append(Fault("plans.zero_stages", what))
        if sorted(self.plans.rank_order) != sorted(AXES):
            what = f"{list(self.plans.rank_order)} must hold each of {', '.join(AXES)} once"
            faults.append(Fault("plans.rank_order", what))
        if faults:
            raise InvalidSpec("Runtime", faults)
        return self


def _sections() -> dict[str, str]:
    """The section of every field; of `overlap`, whose fields are named after sections and axes, none."""
    specs = {name: field.annotation for name, field in Runtime.model_fields.items() if name != "overlap"}
    return {
        field: section
        for section, spec in specs.items()
        if isinstance(spec, type) and issubclass(spec, Spec)
        for field in spec.model_fields
    }


SECTION_OF = _sections()
"""The section of a field that may be named alone, by the name of the field."""


def read_runtime(name: str) -> Runtime:
    """The catalogue's runtime of that id or alias; raises `UnknownName` with the nearest ones.

    What its file leaves out, a root of its family says, or a runtime of it (`runtime_entry`).
    """
    entry = runtime_entry(name)
    return Runtime(**entry | {"elementwise_kernels": elementwise_entries() | entry.get("elementwise_kernels", {})})
