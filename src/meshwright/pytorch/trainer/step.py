"""Step: one rank trains one step in a fake world, and is watched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.tensor import DTensor

from meshwright.layout.plan import Plan
from meshwright.pytorch.processes.observed import Observed, layer_moments
from meshwright.pytorch.processes.request import Request
from meshwright.pytorch.trainer.build import bare_chunks, parallelize
from meshwright.pytorch.trainer.fake import fake_world
from meshwright.pytorch.trainer.loss import cross_entropy, over_split_vocabulary
from meshwright.pytorch.trainer.memory import MemoryWatch
from meshwright.pytorch.trainer.mesh import Meshes, build_meshes, stage_rank
from meshwright.pytorch.trainer.model import Decoder
from meshwright.pytorch.trainer.pipeline import build_stages, note_order, schedule_of
from meshwright.pytorch.trainer.traffic import TrafficWatch

PHASES = {"F": "forward", "B": "backward", "W": "backward"}


class _Watched:
    """What a step leaves behind as it goes."""

    def __init__(self, memory: MemoryWatch, traffic: TrafficWatch, chunks: Sequence[Decoder], held: int) -> None:
        self.memory, self.traffic, self.held = memory, traffic, held
        self.begins = "head" if any(chunk.head is not None for chunk in chunks) else "last layer"
        for chunk in chunks:
            names = ["embedding", *layer_moments(len(chunk.layers))]
            for layer, below in zip(chunk.layers, names[:-1], strict=True):
                layer.register_forward_pre_hook(self._marks(below))
            if chunk.norm is not None:
                chunk.norm.register_forward_pre_hook(self._marks(names[-1]))
        self.after_first_forward: dict[str, int] = {}
        self.order: list[str] = []
        self.gradients = 0

    def _marks(self, moment: str) -> Any:
        """Backward is at this moment once the gradient of what a module was given is there."""

        def mark(_: Any, given: tuple[Tensor, ...]) -> None:
            if given[0].requires_grad:
                given[0].register_hook(lambda _: self.memory.from_now_on(moment))

        return mark

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """One action of the step."""
        self.memory.from_now_on(self.begins if phase == "backward" else phase)
        with self.traffic.during(phase), self.memory.labelled(phase):
            yield
        if phase == "forward" and not self.after_first_forward:
            self.after_first_forward = dict(self.memory.now)


def observe(requests: Sequence[Request]) -> Iterator[Observed]:
    """Train one step of each request on fake tensors, all by the same rank of the same plan in a world of full size.

    A process does it once: DTensor remembers the groups of a world beyond its end. The optimizer's states exist from
    the start.
    """
    plan = requests[0].plan
    with fake_world(stage_rank(plan, requests[0].stage), plan.num_gpus):
        meshes = build_meshes(plan)
        for request in requests:
            yield _watched(request, meshes)


def _watched(request: Request, meshes: Meshes) -> Observed:
    fake = FakeTensorMode()
    with fake:
        chunks = bare_chunks(request)
    held = sum(parallelize(chunk, request, meshes) for chunk in chunks)
    memory, traffic = MemoryWatch(), TrafficWatch(meshes.axes())
    with fake, traffic, memory:
        return _observed(request, chunks, meshes, _Watched(memory, traffic, chunks, held))


def _observed(request: Request, chunks: list[Decoder], meshes: Meshes, watched: _Watched) -> Observed:
    memory, weights = watched.memory, [weight for chunk in chunks for weight in chunk.parameters()]
    memory.relabel(weights, "parameters")
    memory.relabel([list(chunk.buffers()) for chunk in chunks], "buffers")
    optimizer = torch.optim.AdamW(weights, fused=True)
    with memory.labelled("batch"):
        tokens, labels = _batch(request)
    step = _pipelined(request, chunks, meshes, watched) if request.plan.pp > 1 else _accumulated(request, chunks[0])
    with memory.labelled("optimizer"):
        _begin(optimizer)
    memory.forget_peaks()
    _optimize(step, optimizer, tokens, labels, watched)
    moments = [value for state in optimizer.state.values() for value in state.values() if value.dim() > 0]
    return Observed(
        whole_parameters=watched.held,
        parameters=memory.now["parameters"],
        gradients=watched.gradients,
        optimizer_states=_storage_bytes(moments),
        activations=watched.after_first_forward.get("forward", 0),
        peaks=memory.peaks,
        collectives=watched.traffic.seen,
        order=tuple(watched.order),
    )


def _begin(optimizer: torch.optim.Optimizer) -> None:
    """Make the states that the optimizer keeps, by a step with gradients of zero."""
    for group in optimizer.param_groups:
        for weight in group["params"]:
            weight.grad = torch.zeros_like(weight)
    optimizer.step()
    optimizer.zero_grad()


def _optimize(step: Any, optimizer: torch.optim.Optimizer, tokens: Any, labels: Any, watched: _Watched) -> None:
    step(tokens, labels, watched)
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    watched.gradients = _storage_bytes(weight.grad for weight in weights if weight.grad is not None)
    watched.memory.from_now_on("optimizer")
    with watched.memory.labelled("optimizer"):
        optimizer.step()
    optimizer.zero_grad()


def _batch(request: Request) -> tuple[Tensor, Tensor]:
    plan = request.plan
    shape = plan.micro_batch * plan.num_microbatches, request.inputs.job.sequence_length // plan.cp
    return torch.zeros(shape, dtype=torch.int64), torch.zeros(shape, dtype=torch.int64)


def _accumulated(request: Request, decoder: Decoder) -> Any:
    """Micro-batches one after the other, gradients added up."""
    plan = request.plan

    def step(tokens: Tensor, labels: Tensor, watched: _Watched) -> None:
        with over_split_vocabulary(plan):
            for part, wanted in zip(tokens.split(plan.micro_batch), labels.split(plan.micro_batch), strict=True):
                with watched.during("forward"):
                    loss = cross_entropy(decoder(part), wanted)
                with watched.during("backward"):
                    loss.backward()

    return step


def _pipelined(request: Request, chunks: list[Decoder], meshes: Meshes, watched: _Watched) -> Any:
    """Micro-batches as the schedule orders them; logits of the last stage are not returned."""
    plan: Plan = request.plan
    stages = build_stages(request, chunks, meshes)
    note_order(stages, watched.order, lambda letter: watched.during(PHASES[letter]))

    def loss(logits: Tensor, wanted: Tensor) -> Tensor:
        with watched.during("forward"):
            return cross_entropy(logits, wanted)

    schedule = schedule_of(request, stages, loss)
    first, last = 0 in request.positions, request.last_position in request.positions

    def step(tokens: Tensor, labels: Tensor, watched: _Watched) -> None:
        given, wanted = (tokens,) if first else (), labels if last else None
        with over_split_vocabulary(plan), watched.memory.labelled("messages"), watched.traffic.during("pipeline"):
            schedule.step(*given, target=wanted, losses=[] if last else None, return_outputs=False)

    return step


def _storage_bytes(tensors: Iterable[Tensor]) -> int:
    """Bytes of what these tensors lie in, each storage once."""
    storages = {id(storage): storage for storage in (_local(tensor).untyped_storage() for tensor in tensors)}
    return sum(storage.nbytes() for storage in storages.values())


def _local(tensor: Tensor) -> Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
