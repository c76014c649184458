"""Passes: forward and backward through a rank's batch, in the plan's micro-batches and order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from torch import Tensor, nn
from torch.distributed.tensor.parallel import loss_parallel
from torch.nn import functional

from meshwright.layout.plan import Plan
from meshwright.pytorch.processes.request import Request
from meshwright.pytorch.trainer.data_parallel import mixed_precision, replicate, summing
from meshwright.pytorch.trainer.mesh import Meshes
from meshwright.pytorch.trainer.model import Decoder
from meshwright.pytorch.trainer.pipeline import build_stages, note_order, schedule_of

Passes = Callable[[Tensor, Tensor], None]
"""Forward and backward through tokens and labels, (batch, tokens) both."""
Loss = Callable[[Tensor, Tensor], Tensor]
"""Of one micro-batch, from its logits and labels."""
During = Callable[[str], AbstractContextManager[None]]
"""Entered with "forward" or "backward" while such work is done, and with "pipeline" around a step of several stages."""
PHASES = {"F": "forward", "B": "backward", "W": "backward"}


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean over all tokens in fp32; logits (batch, tokens, vocabulary), labels (batch, tokens)."""
    return functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(0, 1))


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

    def passes(tokens: Tensor, labels: Tensor) -> None:
        with _over_split_vocabulary(request.plan):
            for index, (part, wanted) in enumerate(zip(tokens.split(size), labels.split(size), strict=True)):
                with summing(model, last=index == count - 1):
                    with during("forward"), mixed_precision(request):
                        lost = loss(model(part), wanted)
                    with during("backward"):
                        lost.backward()

    return passes


def _pipelined(
    request: Request, chunks: Sequence[Decoder], meshes: Meshes, loss: Loss, during: During, order: list[str]
) -> Passes:
    """Micro-batches as the schedule orders them; logits of the last stage are not returned."""
    stages = build_stages(request, chunks, meshes)
    note_order(stages, order, lambda letter: during(PHASES[letter]))

    def watched_loss(logits: Tensor, wanted: Tensor) -> Tensor:
        with during("forward"):
            return loss(logits, wanted)

    schedule = schedule_of(request, stages, watched_loss)
    first, last = 0 in request.positions, request.last_position in request.positions

    def passes(tokens: Tensor, labels: Tensor) -> None:
        given, wanted = (tokens,) if first else (), labels if last else None
        with _over_split_vocabulary(request.plan), during("pipeline"):
            schedule.step(*given, target=wanted, losses=[] if last else None, return_outputs=False)

    return passes
