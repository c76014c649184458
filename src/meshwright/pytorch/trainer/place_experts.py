"""Expert parallelism: whole experts on the ranks of ep."""

from __future__ import annotations

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard, distribute_module, distribute_tensor
from torch.distributed.tensor.parallel import PrepareModuleInputOutput, parallelize_module

from meshwright.layout.plan import Plan
from meshwright.pytorch.trainer.experts import GroupedExperts, MixtureOfExperts
from meshwright.pytorch.trainer.mesh import Meshes


def split_experts(block: MixtureOfExperts, plan: Plan, meshes: Meshes) -> None:
    """Give every rank of ep its experts; the router is whole on every rank, replicated over tp.

    With sequence parallelism the ranks of tp see other tokens each; without it they divide them among themselves before
    they exchange them, and gather them again behind the experts.
    """
    if plan.tp > 1:
        distribute_module(block.router, meshes.dense["tp"], _placing(Replicate()))
        block.router.sees_a_part = block.experts.sees_a_part = plan.sp or plan.ep > 1
    if plan.tp > 1 and plan.ep > 1 and not plan.sp:
        parallelize_module(block, meshes.dense["tp"], _dividing())
    if plan.ep > 1:
        mesh = meshes.experts["ep"]  # type: ignore[index]
        distribute_module(block.experts, mesh, _placing(Shard(0)))
        block.exchange_over(mesh.get_group())
    elif plan.tp > 1:
        distribute_module(block.experts, meshes.dense["tp"], _placing(Replicate()))


def _dividing() -> PrepareModuleInputOutput:
    return PrepareModuleInputOutput(
        input_layouts=(Replicate(),),
        desired_input_layouts=(Shard(1),),
        use_local_input=True,
        output_layouts=(Shard(1),),
        desired_output_layouts=(Replicate(),),
    )


def _placing(placement: Replicate | Shard):  # type: ignore[no-untyped-def]
    def place(_: str, module: nn.Module, mesh: DeviceMesh) -> None:
        own = module._parameters if isinstance(module, GroupedExperts | nn.Linear) else {}
        for name, weight in [*own.items()]:
            if weight is not None:
                module.register_parameter(name, nn.Parameter(distribute_tensor(weight, mesh, [placement])))

    return place
