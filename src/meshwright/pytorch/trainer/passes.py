"""Passes: forward and backward through a rank's batch, in the plan's micro-batches and order.

A pipeline runs under a schedule of torch.distributed.pipelining, with shapes known beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial, wraps
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining._utils import InferenceMode
from torch.distributed.pipelining.schedules import get_schedule_class
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard
from torch.distributed.tensor.parallel import loss_parallel

from meshwright.layout.plan import Plan
from meshwright.pytorch.processes.records import Request
from meshwright.pytorch.scope import SCHEDULE_CLASSES
from meshwright.pytorch.trainer.data_parallel import mixed_precision, number_format, replicate, summing
from meshwright.pytorch.trainer.losses import Loss
from meshwright.pytorch.trainer.mesh import Meshes, local
from meshwright.pytorch.trainer.model import Decoder

Passes = Callable[[Tensor, Tensor], None]
"""Forward and backward through tokens and labels, (batch, tokens) both."""
During = Callable[[str], AbstractContextManager[None]]
"""Entered with "forward" or "backward" while such work is done, and with "pipeline" around a step of several stages."""
ACTIONS = {"forward_one_chunk": "F", "backward_one_chunk": "B", "backward_weight_one_chunk": "W"}
PHASES = {"F": "forward", "B": "backward", "W": "backward"}


def _over_split_vocabulary(plan: Plan) -> AbstractContextManager[None]:
    """Inside it a cross-entropy takes logits that are sharded by vocabulary."""
    return loss_parallel() if plan.tp > 1 else nullcontext()


def passes_of(
    request: Request, chunks: Sequence[Decoder], meshes: Meshes, loss: Loss, during: During, order: list[str]
) -> Passes:
    """The passes through these chunks; order: where a pipeline notes what it executes."""
    if request.plan.pp > 1:
        return _pipelined(request, chunks, meshes, loss, during, order)
    return _accumulated(request, replicate(chunks[0], request, meshes), loss, during)


def _accumulated(request: Request, model: nn.Module, loss: Loss, during: During) -> Passes:
    """Micro-batches one after the other, gradients added up."""
    size, count = request.plan.micro_batch, request.plan.num_microbatches
    runtime, logits = request.inputs.runtime, None
    whole, names = runtime.sharding.accumulates_whole, runtime.activations.keeps_logits

    def passes(tokens: Tensor, labels: Tensor) -> None:
        nonlocal logits
        with _over_split_vocabulary(request.plan):
            for index, (part, targets) in enumerate(zip(tokens.split(size), labels.split(size), strict=True)):
                with summing(model, last=index == count - 1, whole=whole):
                    with during("forward"), mixed_precision(request):
                        logits = model(part) if names else None
                        value = loss(model(part) if logits is None else logits, targets)
                    with during("backward"):
                        value.backward()

    return passes


def _pipelined(
    request: Request, chunks: Sequence[Decoder], meshes: Meshes, loss: Loss, during: During, order: list[str]
) -> Passes:
    """Micro-batches as the schedule orders them; logits of the last stage are returned where the runtime keeps them."""
    stages = [
        _stage(request, meshes, decoder, position) for decoder, position in zip(chunks, request.positions, strict=True)
    ]
    for chunk, stage in enumerate(stages):
        _note_order(stage, chunk, order, during)

    def watched_loss(logits: Tensor, targets: Tensor) -> Tensor:
        with during("forward"):
            return loss(logits, targets)

    schedule = _schedule(request.plan, stages, watched_loss)
    first, last = 0 in request.positions, request.last_position in request.positions
    returned = request.inputs.runtime.pipeline.keeps_outputs

    def passes(tokens: Tensor, labels: Tensor) -> None:
        received, targets = (tokens,) if first else (), labels if last else None
        with _over_split_vocabulary(request.plan), during("pipeline"):
            schedule.step(*received, target=targets, losses=[] if last else None, return_outputs=returned)

    return passes


def _stage(request: Request, meshes: Meshes, decoder: Decoder, position: int) -> PipelineStage:
    """A stage of PyTorch; between two of them goes the residual stream, (batch, tokens, hidden), over tp as a DTensor
    where the runtime says so.
    """
    plan, model, half = request.plan, request.inputs.model, number_format(request)
    first, last = position == 0, position == request.last_position
    batch, tokens = plan.micro_batch, request.inputs.job.sequence_length // plan.cp
    residual = torch.empty(batch, tokens // (plan.tp if plan.sp else 1), model.hidden_size, dtype=half)
    if request.inputs.runtime.pipeline.receives_dtensors and plan.tp > 1:
        placed = partial(_placed, mesh=meshes.dense["tp"], placement=Shard(1) if plan.sp else Replicate())
        residual = placed(residual)
        if not request.framework:
            decoder.register_forward_pre_hook(lambda _, inputs: tuple(map(local, inputs)))
            decoder.register_forward_hook(lambda _, __, sent: sent if last else placed(sent))
    pieces = request.inputs.runtime.entropy.sequence_pieces
    width, placement = (model.vocab_size // plan.tp, Shard(2)) if pieces == 1 else (model.hidden_size, Replicate())
    output = torch.empty(batch, tokens, width, dtype=half, requires_grad=True)
    if plan.tp > 1:
        output = _placed(output, meshes.dense["tp"], placement)
    return PipelineStage(
        decoder,
        position,
        request.last_position + 1,
        torch.device("cpu"),
        input_args=torch.empty(batch, tokens, dtype=torch.int64) if first else residual.clone().requires_grad_(),
        output_args=output if last else residual.clone().requires_grad_(),
        output_grads=None if last else residual,
        input_grads=None if first else residual,
        group=meshes.dense.get_group("pp"),
    )


def _placed(tensor: Tensor, mesh: DeviceMesh, placement: Placement) -> DTensor:
    """A rank's part of a tensor, as what it is a part of."""
    return DTensor.from_local(tensor, mesh, [placement], run_check=False)


def _schedule(plan: Plan, stages: list[PipelineStage], loss: Loss) -> Any:
    """PyTorch's schedule of the plan over these stages."""
    kind = _knowing_shapes(get_schedule_class(SCHEDULE_CLASSES[plan.schedule]))
    single = plan.schedule.record.chunks == 1
    count = plan.num_microbatches
    return kind(stages[0] if single else stages, n_microbatches=count, loss_fn=loss, scale_grads=False)


def _knowing_shapes(kind: type[Any]) -> type[Any]:
    """The schedule without the messages in which ranks agree that all shapes are known: a fake world answers none."""

    class Knowing(kind):
        def _warmup_p2p(self, stages: list[PipelineStage], *_: bool) -> None:
            for stage in stages:
                stage._inference_mode = InferenceMode.STATIC

    return Knowing


def _note_order(stage: PipelineStage, chunk: int, order: list[str], during: During) -> None:
    """Note every action that a stage executes, as `F0:3` for the forward of micro-batch 3 on chunk 0 of the rank."""

    def noting(action: Callable[..., Any], letter: str) -> Callable[..., Any]:
        @wraps(action)
        def noted(micro_batch: int, *args: Any, **kwargs: Any) -> Any:
            full = kwargs.get("full_backward", True)
            order.append(f"{'I' if letter == 'B' and not full else letter}{chunk}:{micro_batch}")
            with during(PHASES[letter]):
                return action(micro_batch, *args, **kwargs)

        return noted

    for name, letter in ACTIONS.items():
        setattr(stage, name, noting(getattr(stage, name), letter))
