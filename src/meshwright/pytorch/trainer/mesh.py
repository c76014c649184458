"""Meshes: worlds of ranks, the axes of a plan as dimensions of device meshes, and the axis of every process group."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.distributed_c10d import _world
from torch.distributed.tensor import DTensor

from meshwright.layout.plan import Plan
from meshwright.pytorch.planned.spans import names_of_groups, ranks_of_axes
from meshwright.specs.choices import Recompute


@contextmanager
def world(backend: str, **settings: Any) -> Iterator[None]:
    """Process groups, as `init_process_group` makes them; in a fake world, of any size, collectives answer at once."""
    dist.init_process_group(backend, **settings)
    try:
        yield
    finally:
        dist.destroy_process_group()


@dataclass(frozen=True)
class Meshes:
    """Views of the same ranks, in the runtime's rank order; slowest dimension first."""

    dense: DeviceMesh
    """pp, dp_replicate, fsdp (data and context parallel together), tp."""
    sequence: DeviceMesh | None
    """pp, dp, cp, tp, where cp is split."""
    experts: DeviceMesh | None
    """pp, dp_replicate, efsdp (ranks that share the same experts), ep, where ep is split."""

    def sharding(self, names: tuple[str, ...], *, experts: bool = False) -> DeviceMesh:
        """The dimensions that fully_shard takes."""
        mesh = self.experts if experts else self.dense
        return mesh[names if len(names) > 1 else names[0]]  # type: ignore[index]


def build_meshes(plan: Plan) -> Meshes:
    """The meshes of a plan over all ranks of the world."""
    shards = plan.dp * plan.cp // plan.dp_replicate
    dense = {"pp": plan.pp, "dp_replicate": plan.dp_replicate, "fsdp": shards, "tp": plan.tp}
    sequence = {"pp": plan.pp, "dp_ranks": plan.dp, "cp": plan.cp, "tp_ranks": plan.tp}
    holders = shards * plan.tp // plan.ep
    experts = {"pp": plan.pp, "dp_replicate": plan.dp_replicate, "efsdp": holders, "ep": plan.ep}
    return Meshes(_mesh(dense), _mesh(sequence) if plan.cp > 1 else None, _mesh(experts) if plan.ep > 1 else None)


def _mesh(sizes: dict[str, int]) -> DeviceMesh:
    return init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))


def stage_rank(plan: Plan, stage: int) -> int:
    """The rank of a pipeline stage that keeps the most: 0 on every axis, of cp the last under selective recomputation.

    The last rank of a ring sees every piece whole, and keeps the attention of each; the others join halves, and copy
    the output for it.
    """
    last = plan.cp - 1 if plan.recompute == Recompute.SELECTIVE else 0
    return stage * (plan.num_gpus // plan.pp) + last * plan.tp


def axes_of_groups(plan: Plan) -> dict[str, str]:
    """The axis, or axes, of every process group by its name.

    PyTorch makes one group of all that span the world, and DTensor goes on with the groups of an earlier plan that has
    the same mesh: names tell no axis apart, ranks do as far as they differ.
    """
    names, spans = names_of_groups(plan, dist.get_rank()), ranks_of_axes(plan, dist.get_rank())
    axes = {span: names[axis] for axis, span in spans.items()}
    groups = {name: tuple(dist.get_process_group_ranks(group)) for group, name in _world.pg_names.items()}
    return {name: axes[span] for name, span in groups.items() if span in axes}


def local(tensor: Tensor) -> Tensor:
    """The rank's piece of a distributed tensor; any other as it is."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
