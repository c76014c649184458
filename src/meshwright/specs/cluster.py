"""Cluster: accelerators and the levels of links between them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from meshwright.errors import Fault, InvalidSpec
from meshwright.specs.assumed import Assumed
from meshwright.specs.base import Spec
from meshwright.specs.kernels import CollectiveLibrary, Kernels
from meshwright.specs.quantities import Bandwidth, Bytes, Seconds

FiniteFlops = Annotated[float, Field(gt=0, allow_inf_nan=False)]
MAX_GPUS = 10_000_000
"""More accelerators than any site plans; a larger count is taken for a slip."""


AMPERE = 8.0
"""Compute capability from which on Transformer Engine is supported (NVIDIA/TransformerEngine README.rst, Hardware)."""
FREE_OF_QUEUES = 10
"""Compute capability from which on kernels keep their order without a single hardware queue (Blackwell)."""


class Power(Spec):
    """The power limit of an accelerator, and how its speed follows a lower one."""

    watts: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    """What it may draw unless its site allows less."""
    speed_exponent: Annotated[float, Field(gt=0, le=2)]
    """The speed of matrix products that the limit holds back goes with the watts to this power."""
    source: str


class Accelerator(Spec):
    """One accelerator as the driver shows it; a process owns exactly one."""

    id: str
    aliases: tuple[str, ...] = ()
    vendor: Literal["NVIDIA", "AMD", "other"]
    """Whose published runs the error bars rest on."""
    peak_flops: Annotated[dict[str, FiniteFlops], Field(min_length=1)]
    """Dense peak by number format (`bf16`, `fp16`, `fp8`, `mxfp8`, `nvfp4`, `fp32`), FLOP/s."""
    unpriced_formats: tuple[str, ...] = ()
    """Number formats that it multiplies too, at a peak that is not known here."""
    memory_bytes: Bytes
    """The vendor's label, bytes."""
    visible_memory_bytes: Bytes
    """What a process can take of it (torch.cuda.mem_get_info's total), bytes."""
    memory_bandwidth: Bandwidth
    """bytes/s."""
    multiprocessors: PositiveInt
    compute_capability: Annotated[float, Field(gt=0, lt=100)] | None = None
    """Its generation, as torch.cuda.get_device_capability gives it: 9.0 for (9, 0); None: not known."""
    reads_fp8_by_columns: bool = False
    """Products read fp8 operands by rows and by columns alike; else backward needs transposed copies of them."""
    scale_up_bandwidth: Bandwidth
    """To its neighbours in the scale-up domain (NVLink, xGMI, PCIe), one direction, bytes/s."""
    scale_up_latency_s: Seconds
    """One hop over such a link, seconds."""
    scale_up_domain: PositiveInt
    """Accelerators in one scale-up domain."""
    scale_up_mesh: bool = False
    """Every pair has a link of its own (xGMI), bandwidth / (domain - 1), instead of a switch between all."""
    peer_access: bool = True
    """Its driver lets accelerators of a node reach each other's memory; else all they send goes through the host's."""
    scale_up_name: str
    """What answers call these links."""
    node_size: PositiveInt
    """Accelerators under one operating system in the usual machine."""
    nic_bandwidth: Bandwidth
    """Its share of the node's network, one direction, bytes/s."""
    host_slowdown: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """Seconds in which the processor of its usual machine issues work, over those beside an H100."""
    unbound_host_slowdown: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 1.48
    """The same where ranks run on any core, over those on the cores beside their accelerator. Source: iteration times
    of NVIDIA/Megatron-LM's own tests before and after 5fe3f066 (2026-05-07), which moved them to the image of PyTorch
    26.04: median of the 34 of small models on DGX H100, 1.43 to 1.51 for the half in the middle; taken to be alike
    beside other x86 processors. That ranks are free there is what NVIDIA's developers suspect (docs/experts.md)."""
    kernels: Kernels
    power: Power | None = None
    """None: what a power limit costs is not known."""
    of_another: bool = False
    """Its kernels are another accelerator's, whose peak, memory bandwidth or multiprocessors it does not have: no
    published run speaks for it."""
    assumed: Assumed = ()
    """Facts without a public source, for the user's eyes."""
    sources: dict[str, str]

    @property
    def needs_one_queue(self) -> bool:
        """Whether kernels keep their order in a single hardware queue alone: before Blackwell. One without a compute
        capability counts so, as ROCm tells 9 of MI300X and MI355X. Source: Megatron-LM@d98e8a64ddf3,
        training/arguments.py L1466-1475, utils.py, get_device_arch_version.
        """
        return (self.compute_capability or 0) < FREE_OF_QUEUES

    @property
    def overlaps_by_peer_access(self) -> bool:
        """Whether products overlap with exchanges through the memory of other ranks (userbuffers, symmetric memory)."""
        return self.peer_access and (self.compute_capability or AMPERE) >= AMPERE

    @property
    def domain_spans_nodes(self) -> bool:
        """Whether one scale-up domain holds several nodes (NVL72)."""
        return self.scale_up_domain > self.node_size

    @property
    def runs_fused_dispatch(self) -> bool:
        """Whether DeepEP and HybridEP run on it: over NVLink, from Hopper on.

        Source: deepseek-ai/DeepEP, README.md (Hopper, NVLink) and setup.py, which leaves exchanges between nodes out on
        compute capability 8.0.
        """
        return self.scale_up_name == "nvlink" and (self.compute_capability or 0) >= 9.0

    @model_validator(mode="after")
    def _visible(self) -> Self:
        if self.visible_memory_bytes > 1.1 * self.memory_bytes:
            raise ValueError(
                f"visible_memory_bytes {self.visible_memory_bytes:.4g} exceeds memory_bytes {self.memory_bytes:.4g}"
            )
        if self.kernels.communication_multiprocessors >= self.multiprocessors:
            raise ValueError(
                f"kernels.communication_multiprocessors {self.kernels.communication_multiprocessors} must leave some "
                f"of the {self.multiprocessors} multiprocessors to compute"
            )
        return self


class Level(Spec):
    """One level of links: blocks of consecutive ranks that reach each other over it."""

    name: str
    """`nvlink`, `node`, `rail`, `leaf`, `spine`, …"""
    size: PositiveInt
    """Ranks in one block of this level."""
    bandwidth: Bandwidth
    """What one rank can send over this level when all do, one direction, before oversubscription, bytes/s."""
    latency_s: Seconds
    """One hop over this level, seconds."""
    oversubscription: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 1.0
    """Bandwidth below this level over bandwidth through it."""

    @cached_property
    def effective_bandwidth(self) -> float:
        """bytes/s that one rank can send when all do, after oversubscription."""
        return self.bandwidth / self.oversubscription


class Cluster(Spec):
    """Nodes of equal accelerators, and the levels of links between them, innermost first."""

    name: str
    accelerator: Accelerator
    num_nodes: PositiveInt
    gpus_per_node: PositiveInt
    levels: Annotated[tuple[Level, ...], Field(min_length=1)]
    """Innermost (the scale-up domain) first; the last holds every rank."""
    site_derate: Annotated[float, Field(ge=0.5, allow_inf_nan=False)] = 1.0
    """How much slower this site's kernels run than on the sites of published runs; 1: as there."""
    power_limit_w: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """What an accelerator may draw at this site; None: what it is rated for."""
    measured_runs: Annotated[int, Field(ge=0)] = 0
    """Runs of the site itself that `site_derate` rests on."""
    assumptions: tuple[str, ...] = ()
    """What was not given and had to be assumed, for the user's eyes."""
    sources: dict[str, str] = {}
    """Where the figures of a catalogued cluster come from."""

    @cached_property
    def library(self) -> CollectiveLibrary:
        """How collectives use the links."""
        return self.accelerator.kernels.library

    @property
    def runs_fused_dispatch(self) -> bool:
        """Whether DeepEP and HybridEP run on all of it: on its accelerators, and between its nodes."""
        return self.accelerator.runs_fused_dispatch and (self.num_nodes == 1 or self.library.fused_dispatch)

    @cached_property
    def num_gpus(self) -> int:
        """Ranks in the cluster."""
        return self.num_nodes * self.gpus_per_node

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        sizes = [(level.name, level.size) for level in self.levels]
        faults = nesting_faults(sizes, self.gpus_per_node)
        faults += reach_faults(sizes, self.num_nodes, self.gpus_per_node)
        if self.num_gpus > MAX_GPUS:
            what = f"{self.num_gpus} accelerators in all; at most {MAX_GPUS} are planned for"
            faults.append(Fault("num_nodes", what))
        faults += power_faults(self.power_limit_w, self.accelerator)
        if faults:
            raise InvalidSpec("Cluster", faults)
        return self


def power_faults(limit_w: float | None, accelerator: Accelerator) -> list[Fault]:
    """A power limit, watts, above what the accelerator draws or of one whose speed under a limit is not known."""
    if limit_w is None:
        return []
    if accelerator.power is None:
        what = f"is {limit_w:g}; what a power limit costs {accelerator.id} is not known, so leave it out"
        return [Fault("power_limit_w", what)]
    most = accelerator.power.watts
    what = f"is {limit_w:g}; {accelerator.id} draws {most:g} W at most"
    return [Fault("power_limit_w", what)] if limit_w > most else []


def nesting_faults(levels: Sequence[tuple[str, int]], gpus_per_node: int) -> list[Fault]:
    """Levels, as (name, size) innermost first, that do not hold whole blocks of the one below or cut nodes apart."""
    faults = []
    for index, (name, size) in enumerate(levels):
        inner_name, inner_size = levels[index - 1] if index else ("", 0)
        if index and (size <= inner_size or size % inner_size):
            rule = f"must hold a whole number (2 or more) of level {inner_name!r} blocks of {inner_size}"
            faults.append(Fault(f"levels[{index}].size", f"level {name!r} of {size} ranks {rule}"))
        if size % gpus_per_node and gpus_per_node % size:
            rule = f"must divide the {gpus_per_node} ranks of a node or hold whole nodes"
            faults.append(Fault(f"levels[{index}].size", f"level {name!r} of {size} ranks {rule}"))
    return faults


def reach_faults(levels: Sequence[tuple[str, int]], num_nodes: int, gpus_per_node: int) -> list[Fault]:
    """An outermost level, as (name, size), that does not hold every rank."""
    name, size = levels[-1]
    ranks = num_nodes * gpus_per_node
    if size >= ranks:
        return []
    what = (
        f"the outermost level {name!r} holds {size} ranks, but the cluster has {num_nodes} x {gpus_per_node} = {ranks}"
    )
    return [Fault(f"levels[{len(levels) - 1}].size", what)]
