"""Runtime: how one training framework behaves, as data: what it keeps, sends, overlaps and refuses."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache, cached_property
from itertools import chain
from typing import Any, ClassVar, Self

from pydantic import model_validator

from meshwright.arguments import checked
from meshwright.errors import Fault, InvalidInput, InvalidSpec, UnknownName, any_of, quoted
from meshwright.specs import catalog
from meshwright.specs.assumed import Assumed
from meshwright.specs.base import Spec
from meshwright.specs.fitted import fitted_constants
from meshwright.specs.like import over_like
from meshwright.specs.precision import FP32_BYTES
from meshwright.specs.runtime.capabilities import Capabilities, Enforcement, RuleReference
from meshwright.specs.runtime.communication import Communication, Overlap, PipelineEngine
from meshwright.specs.runtime.device import CrossEntropy, DeviceMemory, ElementwiseKernels, RuntimeKernels
from meshwright.specs.runtime.host import Host
from meshwright.specs.runtime.loss_scaling import LossScaling
from meshwright.specs.runtime.replaced import ReplacedBehaviour
from meshwright.specs.runtime.storage import Activations, Sharding, Storage

__all__ = ["AXES", "SECTION_OF", "Runtime", "read_runtime"]

AXES = ("tp", "cp", "ep", "dp", "pp")


class Runtime(Spec):
    """One framework at one version."""

    called: ClassVar[str] = "the runtime"

    id: str
    framework: str
    """Whose published runs say how far predictions may be off: the id in the catalogue."""
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
    switches: dict[str, dict[str, dict[str, str]]] = {}
    """Behaviours that go together: what each position of a switch sets, with values as after `--with KEY=`; `compiled`
    at `true` sets all that torch.compile changes."""
    checks: dict[str, Enforcement] = {}
    """Where the framework checks what any plan is held against: sources for people, no part of legality."""
    rules: tuple[RuleReference, ...] = ()
    """Rules that the framework adds to those that hold for every plan."""
    launch: str = ""
    """Name of the settings of its launches, a folder of `launch/frameworks/`; none: nothing is known of them."""
    assumed: Assumed = ()
    """Behaviours without a published number, for the user's eyes."""
    replaced: tuple[ReplacedBehaviour, ...] = ()
    """Behaviours that a question replaced."""
    sources: dict[str, str]

    @cached_property
    def elementwise_bytes(self) -> ElementwiseKernels:
        """Of the element-wise kernels in use, under autocast those that are counted so."""
        name = self.kernels.elementwise
        cast = f"{name}-autocast" if self.storage.autocast else name
        return self.elementwise_kernels.get(cast) or self.elementwise_kernels[name]

    @property
    def shards_one_rank(self) -> bool:
        """Whether its stages of ZeRO hold on a single rank too: always, or as only what is sharded can be offloaded."""
        return self.plans.shards_one_rank or self.storage.offloads_weights

    @property
    def entropy(self) -> CrossEntropy:
        """The cross-entropy in use."""
        return self.cross_entropies[self.kernels.cross_entropy]

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
        found = (
            *(self._entries(), self._unordered(), self._plans(), self._recipes()),
            *(self._formats(), self._states(), self._references()),
        )
        if faults := [*chain.from_iterable(found)]:
            raise InvalidSpec(self.called, faults)
        return self

    def _entries(self) -> Iterator[Fault]:
        """Names of entries that do not exist."""
        constants = ("", *fitted_constants())
        named: dict[str, tuple[str, str, Collection[str]]] = {
            "cross_entropy": (self.kernels.cross_entropy, "cross_entropies", self.cross_entropies),
            "elementwise": (self.kernels.elementwise, "elementwise_kernels", self.elementwise_kernels),
            "kernel_constant": (self.kernels.kernel_constant, "the fitted constants", constants),
            "attention_constant": (self.kernels.attention_constant, "the fitted constants", constants),
        }
        for field, (name, where, known) in named.items():
            if name not in known:
                what = f"{quoted(name)} is not among {where}: {', '.join(filter(None, known)) or 'none'}"
                yield Fault(f"kernels.{field}", what)

    def _unordered(self) -> Iterator[Fault]:
        """What adds up in no fixed order, beside deterministic kernels of Megatron, which then refuses to start."""
        if self.kernels.deterministic == "off" or self.family != "megatron":
            return
        if self.kernels.cross_entropy == "fused":
            yield Fault("kernels.cross_entropy", "fused is not deterministic; --with cross_entropy=unfused is")
        if self.overlap.tensor_parallel:
            yield Fault(
                "overlap.tensor_parallel", "is not deterministic; --with tensor_parallel_overlap=off switches it off"
            )

    def _plans(self) -> Iterator[Fault]:
        """Plans that what a rank stores, or what the runtime cannot split, rules out."""
        plans, stored = self.plans, self.storage.weights
        priced = {"half": {0, 1, 2, 3}, "full": {0, 2, 3}}[stored]
        if not plans.zero_stages or not set(plans.zero_stages) <= priced:
            what = f"{list(plans.zero_stages)} must be of {sorted(priced)} where weights is {stored}"
            yield Fault("plans.zero_stages", what)
        if sorted(plans.rank_order) != sorted(AXES):
            yield Fault("plans.rank_order", f"{list(plans.rank_order)} must hold each of {', '.join(AXES)} once")
        needs = {
            "sequence_parallel": (plans.sequence_parallel, "tensor_parallel"),
            "schedules": (set(plans.schedules) - {"1f1b"}, "pipeline_parallel"),
            "expert_parallel": (plans.expert_parallel, "experts"),
            "expert_tensor_parallel": (plans.expert_tensor_parallel != "none", "experts"),
        }
        for field, (has, other) in needs.items():
            if has and not getattr(plans, other):
                yield Fault(f"plans.{field}", f"needs {other}, which is false")

    def _recipes(self) -> Iterator[Fault]:
        """Recipes with a storage of their own that the runtime does not run."""
        for field in ("quantised_weights", "remainder_weights"):
            if others := [name for name in getattr(self.storage, field) if name not in self.plans.precisions]:
                known = ", ".join(self.plans.precisions)
                yield Fault(f"storage.{field}", f"{', '.join(others)} is not among plans.precisions: {known}")

    def _formats(self) -> Iterator[Fault]:
        """Updated weights of 2 bytes, beside what they rule out."""
        storage = self.storage
        if storage.weight_bytes == FP32_BYTES:
            return
        if storage.weights == "half":
            what = f"must be 4: {self.id} stores half weights, which its optimizer updates in fp32 copies"
            yield Fault("storage.weight_bytes", what)
        if storage.moment_bytes > storage.weight_bytes:
            what = "must be 2 (1 with 8-bit Adam) where weight_bytes is 2; add --with moment_bytes=2"
            yield Fault("storage.moment_bytes", what)
        if storage.autocast:
            yield Fault("storage.autocast", "must be false where weight_bytes is 2: there is nothing to cast")

    def _states(self) -> Iterator[Fault]:
        """Optimizer states in the host's memory that the runtime has no way to keep there."""
        storage = self.storage
        if storage.offloaded == "nothing":
            return
        if storage.offloads_weights != (storage.weights == "full"):
            ways = "everything" if storage.weights == "full" else "states or states_and_gradients"
            what = f"must be nothing, {ways}: {self.id} stores {storage.weights} weights"
            yield Fault("storage.offloaded", what)
        elif not self.host.updated_parameters_per_s:
            what = f"needs host.updated_parameters_per_s, which is not known of {self.id}"
            yield Fault("storage.offloaded", what)
        if storage.offloads_weights and storage.moment_block:
            yield Fault("storage.moment_block", "must be 0 beside offloaded weights: 8-bit Adam works on the device")

    def _references(self) -> Iterator[Fault]:
        """Rules that stand twice."""
        names = [reference.name for reference in self.rules]
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield Fault("rules", f"{quoted(name)} stands {names.count(name)} times")


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


@checked
@cache
def read_runtime(name: str) -> Runtime:
    """The catalogue's runtime of that id or alias, as of today or of a release, as `megatron-core@nemo-24.07`; raises
    `UnknownName` with the nearest ones.

    What its file leaves out, a root of its family says, or a runtime of it (`runtime_entry`).
    """
    entry = runtime_entry(name)
    return Runtime(**entry | {"elementwise_kernels": _elementwise_kernels() | entry.get("elementwise_kernels", {})})


def runtime_entry(name: str) -> dict[str, Any]:
    """All that the file of a runtime says, with what it leaves to a root or to another runtime of its family, and with
    what a release does otherwise, without the switches that it names as `lacks_switches`.

    name: an id or an alias, with `@` and a release where one is asked for. Tables merge key by key, at every depth;
    `checks`, lists and single values are replaced. Raises `UnknownName`, `InvalidInput` for a library that starts
    other frameworks or is part of them, and `InvalidSpec` where the file is like a runtime of another family.
    """
    framework, at, release = name.partition("@")
    id_ = _resolved(framework)
    entry = {"id": id_, "framework": id_, **_entry("runtimes", id_)}
    if at:
        known = releases(id_)
        if release not in known:
            raise UnknownName(f"release of {id_}", release, known)
        entry = _merged(entry | {"id": f"{id_}@{release}"}, known[release])
    lacking = entry.pop("lacks_switches", ())
    return entry | {"switches": {name: each for name, each in entry.get("switches", {}).items() if name not in lacking}}


def _resolved(framework: str) -> str:
    try:
        return catalog.resolve("runtimes", framework)
    except UnknownName:
        name = catalog.key_of(framework)
        started = [each for each in catalog.table("frontends")["libraries"] if name in each["names"]]
        named = [*started, *(each for each in catalog.table("stand_ins")["stand_ins"] if name in each["names"])]
        if not named:
            raise
    what = named[0].get("what", "hands training to another framework. Name that one with --runtime")
    raise InvalidInput(f"{quoted(framework)} {what}: {any_of(named[0]['runtimes'])}")


def releases(name: str) -> dict[str, dict[str, Any]]:
    """By name, what every release of a runtime does otherwise than its file, in the same form: its `version`, its
    source as `sources.release`, and sections. One may be `like` an entry above it. name: an id or an alias.
    """
    entries = catalog.load("runtimes", name).get("releases", {})
    known: dict[str, dict[str, Any]] = {}
    for release, entry in entries.items():
        known[release] = over_like(entry, known.__getitem__, _merged)
    return known


@cache
def _elementwise_kernels() -> dict[str, ElementwiseKernels]:
    """Those of the catalogue by name: implementations that every framework may take."""
    return {name: ElementwiseKernels(**_elementwise_entry(name)) for name in catalog.names("elementwise")}


def _elementwise_entry(name: str) -> dict[str, Any]:
    entry = {key: value for key, value in catalog.load("elementwise", name).items() if key != "sources"}
    return over_like(entry, _elementwise_entry)


def _entry(kind: catalog.Kind, name: str) -> dict[str, Any]:
    entry = {key: value for key, value in catalog.load(kind, name).items() if key != "releases"}

    def parent(like: str) -> dict[str, Any]:
        read = _entry("families" if like in catalog.names("families") else "runtimes", like)
        if read["family"] != entry.get("family"):
            what = f"{quoted(like)} is of the family {read['family']}: say here what this framework does itself"
            raise InvalidSpec(f"runtime {name}", [Fault("like", what)])
        return {key: value for key, value in read.items() if key != "aliases"}

    return over_like(entry, parent, _merged)


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    shared = below.keys() & above.keys() - {"checks"}
    both = {key for key in shared if isinstance(below[key], dict) and isinstance(above[key], dict)}
    return below | above | {key: _merged(below[key], above[key]) for key in both}
