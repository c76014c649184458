"""Expert parallelism: whole experts on the ranks of ep."""

from __future__ import annotations

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard, distribute_module, distribute_tensor

from meshwright.layout.plan import Plan
from meshwright.pytorch.trainer.experts import GroupedExperts, MixtureOfExperts
from meshwright.pytorch.trainer.mesh import Meshes


def split_experts(block: MixtureOfExperts, plan: Plan, meshes: Meshes) -> None:
    """Give every rank of ep its experts; the router is whole on every rank, replicated over tp."""
    if plan.tp > 1:
        distribute_module(block.router, meshes.dense["tp"], _placing(Replicate()))
        block.router.sees_a_part = plan.sp
    if plan.ep > 1:
        mesh = meshes.experts["ep"]  # type: ignore[index]
        distribute_module(block.experts, mesh, _placing(Shard(0)))
        block.exchange_over(mesh.get_group())
    elif plan.tp > 1:
        distribute_module(block.experts, meshes.dense["tp"], _placing(Replicate()))


def _placing(placement: Replicate | Shard):  # type: ignore[no-untyped-def]
    def place(_: str, module: nn.Module, mesh: DeviceMesh) -> None:
        own = module._parameters if isinstance(module, GroupedExperts | nn.Linear) else {}
        for name, weight in [*own.items()]:
            if weight is not None:
                module.register_parameter(name, nn.Parameter(distribute_tensor(weight, mesh, [placement])))

    return place
