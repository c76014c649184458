"""Passes: forward and backward through a rank's batch, in the plan's micro-batches and order, for a real run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor
from torch.distributed.tensor import DTensor

from meshwright.pytorch.processes.request import Request
from meshwright.pytorch.trainer.loss import cross_entropy, over_split_vocabulary
from meshwright.pytorch.trainer.mesh import Meshes
from meshwright.pytorch.trainer.model import Decoder
from meshwright.pytorch.trainer.pipeline import build_stages, note_order, schedule_of
from meshwright.pytorch.trainer.step import PHASES
from meshwright.pytorch.trainer.traffic import TrafficWatch

Step = Callable[[], float]
"""Forward and backward through a rank's batch; returns the rank's part of the loss."""


class Passes:
    """One rank's way through a step, and what it leaves behind: the traffic and the order of the latest step."""

    def __init__(self, request: Request, meshes: Meshes, traffic: TrafficWatch) -> None:
        self.request, self.meshes, self.traffic = request, meshes, traffic
        self.order: list[str] = []
        self._losses: list[float] = []

    def step_of(self, chunks: Sequence[Decoder], tokens: Tensor, labels: Tensor) -> Step:
        """The step of these chunks on the rank's own tokens."""
        pipelined = self.request.plan.pp > 1
        passes = self._pipelined(chunks) if pipelined else self._accumulated(chunks[0])
        counts = self.meshes.dense.get_local_rank("tp") == 0

        def step() -> float:
            self.traffic.seen.clear()
            self.order.clear()
            self._losses.clear()
            with over_split_vocabulary(self.request.plan):
                passes(tokens, labels)
            return sum(self._losses) if counts else 0.0

        return step

    def _loss(self, logits: Tensor, wanted: Tensor) -> Tensor:
        """A micro-batch's part of the mean over all tokens of the global batch."""
        plan = self.request.plan
        with self.traffic.during("forward"):
            loss = cross_entropy(logits, wanted) / (plan.num_microbatches * plan.dp * plan.cp)
        self._losses.append(local(loss.detach()).item())
        return loss

    def _accumulated(self, decoder: Decoder) -> Callable[[Tensor, Tensor], None]:
        size = self.request.plan.micro_batch

        def passes(tokens: Tensor, labels: Tensor) -> None:
            for part, wanted in zip(tokens.split(size), labels.split(size), strict=True):
                with self.traffic.during("forward"):
                    loss = self._loss(decoder(part), wanted)
                with self.traffic.during("backward"):
                    loss.backward()

        return passes

    def _pipelined(self, chunks: Sequence[Decoder]) -> Callable[[Tensor, Tensor], None]:
        request = self.request
        stages = build_stages(request, list(chunks), self.meshes)
        note_order(stages, self.order, lambda letter: self.traffic.during(PHASES[letter]))
        schedule = schedule_of(request, stages, self._loss)
        first, last = 0 in request.positions, request.last_position in request.positions

        def passes(tokens: Tensor, labels: Tensor) -> None:
            given, wanted = (tokens,) if first else (), labels if last else None
            with self.traffic.during("pipeline"):
                schedule.step(*given, target=wanted, losses=[] if last else None, return_outputs=False)

        return passes


def local(tensor: Tensor) -> Tensor:
    """What this rank holds of a tensor."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
