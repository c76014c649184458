"""Meshes: the axes of a plan as dimensions of device meshes, in the runtime's rank order."""

from __future__ import annotations

from dataclasses import dataclass

from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from meshwright.layout.plan import Plan, Recompute


@dataclass(frozen=True)
class Meshes:
    """Views of the same ranks; slowest dimension first."""

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
