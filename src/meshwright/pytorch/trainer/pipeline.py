"""Pipeline: one rank's stages under a schedule of torch.distributed.pipelining, with shapes known beforehand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any

import torch
from torch import Tensor
from torch.distributed import ProcessGroup
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining._utils import InferenceMode
from torch.distributed.pipelining.schedules import get_schedule_class
from torch.distributed.tensor import DTensor, Shard

from meshwright.pytorch.processes.request import Request
from meshwright.pytorch.scope import SCHEDULE_CLASSES
from meshwright.pytorch.trainer.data_parallel import number_format
from meshwright.pytorch.trainer.mesh import Meshes
from meshwright.pytorch.trainer.model import Decoder

ACTIONS = {"forward_one_chunk": "F", "backward_one_chunk": "B", "backward_weight_one_chunk": "W"}


def residual_shape(request: Request) -> tuple[int, int, int]:
    """What one stage sends to the next: (batch, tokens, hidden)."""
    plan, job = request.plan, request.inputs.job
    tokens = job.sequence_length // plan.cp // (plan.tp if plan.sp else 1)
    return plan.micro_batch, tokens, request.inputs.model.hidden_size


def build_stages(request: Request, chunks: Sequence[Decoder], meshes: Meshes) -> list[PipelineStage]:
    """A stage of PyTorch for every chunk of the rank."""
    group, half = meshes.dense.get_group("pp"), number_format(request)
    stage = partial(_stage, request, meshes, group, half)
    return [stage(decoder, position) for decoder, position in zip(chunks, request.positions, strict=True)]


def _stage(
    request: Request, meshes: Meshes, group: ProcessGroup, half: torch.dtype, decoder: Decoder, position: int
) -> PipelineStage:
    plan, job, count = request.plan, request.inputs.job, request.last_position + 1
    tokens = torch.empty(plan.micro_batch, job.sequence_length // plan.cp, dtype=torch.int64)
    residual = torch.empty(residual_shape(request), dtype=half)
    received = tokens if position == 0 else residual.clone().requires_grad_()
    sent = _logits(request, meshes, half) if position == request.last_position else residual.clone().requires_grad_()
    return PipelineStage(
        decoder,
        position,
        count,
        torch.device("cpu"),
        input_args=received,
        output_args=sent,
        output_grads=None if position == request.last_position else residual,
        input_grads=None if position == 0 else residual,
        group=group,
    )


def _logits(request: Request, meshes: Meshes, half: torch.dtype) -> Tensor:
    plan, inputs = request.plan, request.inputs
    local = inputs.model.vocab_size // plan.tp
    tokens = inputs.job.sequence_length // plan.cp
    logits = torch.empty(plan.micro_batch, tokens, local, dtype=half, requires_grad=True)
    return DTensor.from_local(logits, meshes.dense["tp"], [Shard(2)], run_check=False) if plan.tp > 1 else logits


def schedule_of(request: Request, stages: list[PipelineStage], loss: Callable[[Tensor, Tensor], Tensor]) -> Any:
    """PyTorch's schedule of the plan over these stages."""
    kind = _knowing_shapes(get_schedule_class(SCHEDULE_CLASSES[request.plan.schedule]))
    single = request.plan.schedule.record.chunks == 1
    return kind(
        stages[0] if single else stages,
        n_microbatches=request.plan.num_microbatches,
        loss_fn=loss,
        scale_grads=False,
    )


def _knowing_shapes(kind: type[Any]) -> type[Any]:
    """The schedule without the messages in which ranks agree that all shapes are known: a fake world answers none."""

    class Knowing(kind):
        def _warmup_p2p(self, stages: list[PipelineStage], *_: bool) -> None:
            for stage in stages:
                stage._inference_mode = InferenceMode.STATIC

    return Knowing


def note_order(stages: Sequence[PipelineStage], order: list[str], around: Callable[[str], Any]) -> None:
    """Note every action that is executed, as `F0:3` for the forward of micro-batch 3 on chunk 0 of the rank.

    around: entered with the action's letter while it runs.
    """
    for chunk, stage in enumerate(stages):
        for name, letter in ACTIONS.items():
            setattr(stage, name, _noting(getattr(stage, name), letter, chunk, order, around))


def _noting(
    action: Callable[..., Any], letter: str, chunk: int, order: list[str], around: Callable[[str], Any]
) -> Callable[..., Any]:
    @wraps(action)
    def noting(micro_batch: int, *args: Any, **kwargs: Any) -> Any:
        full = kwargs.get("full_backward", True)
        order.append(f"{'I' if letter == 'B' and not full else letter}{chunk}:{micro_batch}")
        with around(letter):
            return action(micro_batch, *args, **kwargs)

    return noting
