"""Cluster: accelerators and the levels of links between them."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from meshwright.specs.base import Spec
from meshwright.specs.kernels import Kernels


class Accelerator(Spec):
    """One accelerator as the driver shows it; a process owns exactly one."""

    id: str
    aliases: tuple[str, ...] = ()
    vendor: str
    peak_flops: dict[str, PositiveFloat]
    """Dense peak by precision (`bf16`, `fp16`, `fp8`, `fp32`), FLOP/s."""
    memory_bytes: PositiveFloat
    """The vendor's label, bytes."""
    visible_memory_bytes: PositiveFloat
    """What the driver reports, bytes."""
    memory_bandwidth: PositiveFloat
    """bytes/s."""
    multiprocessors: PositiveInt
    scale_up_bandwidth: PositiveFloat
    """To its neighbours in the scale-up domain (NVLink, xGMI, PCIe), one direction, bytes/s."""
    scale_up_domain: PositiveInt
    """Accelerators in one scale-up domain."""
    scale_up_name: str
    node_size: PositiveInt
    """Accelerators under one operating system in the usual machine."""
    nic_bandwidth: PositiveFloat
    """Its share of the node's network, one direction, bytes/s."""
    kernels: Kernels
    assumed: tuple[str, ...] = ()
    """Facts without a public source, for the user's eyes."""
    sources: dict[str, str]

    @model_validator(mode="after")
    def _visible(self) -> Self:
        if self.visible_memory_bytes > 1.1 * self.memory_bytes:
            raise ValueError(
                f"visible_memory_bytes {self.visible_memory_bytes:.4g} exceeds memory_bytes {self.memory_bytes:.4g}"
            )
        return self


class Level(Spec):
    """One level of links: blocks of consecutive ranks that reach each other over it."""

    name: str
    """`nvlink`, `node`, `rail`, `leaf`, `spine`, …"""
    size: PositiveInt
    """Ranks in one block of this level."""
    bandwidth: PositiveFloat
    """What one rank can send over this level when all do, one direction, before oversubscription, bytes/s."""
    latency_s: Annotated[float, Field(ge=0)]
    """One hop over this level, seconds."""
    oversubscription: Annotated[float, Field(ge=1)] = 1.0
    """Bandwidth below this level over bandwidth through it."""

    @property
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
    site_derate: Annotated[float, Field(ge=1)] = 1.0
    """How much slower this site's kernels run than the published fits (power caps, clocks); 1: as published."""
    assumptions: tuple[str, ...] = ()

    @property
    def num_gpus(self) -> int:
        """Ranks in the cluster."""
        return self.num_nodes * self.gpus_per_node

    @model_validator(mode="after")
    def _nested(self) -> Self:
        sizes = [level.size for level in self.levels]
        for inner, outer in zip(self.levels, self.levels[1:], strict=False):
            if outer.size <= inner.size or outer.size % inner.size:
                raise ValueError(
                    f"level {outer.name!r} of {outer.size} ranks must hold a whole number (2 or more) of "
                    f"level {inner.name!r} blocks of {inner.size}"
                )
        if sizes[-1] < self.num_gpus:
            raise ValueError(
                f"the outermost level {self.levels[-1].name!r} holds {sizes[-1]} ranks, "
                f"but the cluster has {self.num_nodes} x {self.gpus_per_node} = {self.num_gpus}"
            )
        return self
