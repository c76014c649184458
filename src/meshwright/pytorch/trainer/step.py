"""Step: one rank trains one step in a fake world, and is watched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.distributed.fake_pg import FakeStore

from meshwright.pytorch.processes.records import Observed, ObservedMoment, Request, layer_moments
from meshwright.pytorch.trainer.build import Build, Parts, build_of
from meshwright.pytorch.trainer.data_parallel import store
from meshwright.pytorch.trainer.memory import MemoryWatch
from meshwright.pytorch.trainer.mesh import Meshes, axes_of_groups, build_meshes, local, stage_rank, world
from meshwright.pytorch.trainer.passes import passes_of
from meshwright.pytorch.trainer.traffic import TrafficWatch


class _Watch:
    """Of one step: what it allocates, sends and executes as it goes."""

    def __init__(self, memory: MemoryWatch, traffic: TrafficWatch, chunks: Sequence[Parts]) -> None:
        self.memory, self.traffic = memory, traffic
        self._begins = ["last layer" if chunk.norm is None else "head" for chunk in chunks]
        """The first moment of each chunk's backward."""
        for chunk in chunks:
            names = ["embedding", *layer_moments(len(chunk.layers))]
            for layer, below in zip(chunk.layers, names[:-1], strict=True):
                layer.register_forward_pre_hook(self._marks(below))
            if chunk.norm is not None:
                chunk.norm.register_forward_pre_hook(self._marks(names[-1]))
        self.saved = 0
        """Bytes of activations after the first forward."""
        self.order: list[str] = []

    def _marks(self, moment: str) -> Any:
        """Backward is at this moment once the gradient of what a module was given is there."""

        def mark(_: Any, inputs: tuple[Tensor, ...]) -> None:
            if inputs[0].requires_grad:
                inputs[0].register_hook(lambda _: self._from_now_on(moment))

        return mark

    def _from_now_on(self, moment: str) -> None:
        self.memory.moment = ObservedMoment(moment, self.order[-1] if self.order else "")

    @property
    def _chunk(self) -> int:
        """Which of the rank's chunks works: that of the action executed last, as in `F0:3`."""
        return int(self.order[-1][1:].partition(":")[0]) if self.order else 0

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """A phase of the step, by its name in `passes_of`; beside its passes a pipeline allocates for messages."""
        if phase != "pipeline":
            self._from_now_on(self._begins[self._chunk] if phase == "backward" else phase)
        with self.traffic.during(phase), self.memory.labelled("messages" if phase == "pipeline" else phase):
            yield
        if phase == "forward" and not self.saved:
            self.saved = self.memory.now["forward"]


def observe(requests: Sequence[Request]) -> Iterator[Observed]:
    """Train one step of each request on fake tensors, all by the same rank of the same plan in a world of full size.

    A process does it once: DTensor remembers the groups of a world beyond its end. The optimizer's states exist from
    the start.
    """
    plan = requests[0].plan
    rank = stage_rank(plan, requests[0].stage)
    with world("fake", store=FakeStore(), rank=rank, world_size=plan.num_gpus):
        meshes = build_meshes(plan)
        for request in requests:
            yield _watched(request, meshes)


def _watched(request: Request, meshes: Meshes) -> Observed:
    fake, build = FakeTensorMode(), build_of(request)
    with fake:
        chunks = build.chunks(request)
        store(chunks, request)
    whole_parameters = sum(build.parallelize(chunk, request, meshes) for chunk in chunks)
    traffic = TrafficWatch(axes_of_groups(request.plan))
    watch = _Watch(MemoryWatch(traffic.note), traffic, [*map(build.parts, chunks)])
    with fake, watch.memory:
        return _observed(request, build, chunks, meshes, watch, whole_parameters)


def _observed(
    request: Request, build: Build, chunks: list[nn.Module], meshes: Meshes, watch: _Watch, whole_parameters: int
) -> Observed:
    memory, weights = watch.memory, [weight for chunk in chunks for weight in chunk.parameters()]
    memory.relabel(weights, "parameters")
    memory.relabel([list(chunk.buffers()) for chunk in chunks], "buffers")
    storage = request.inputs.runtime.storage
    fused, foreach = storage.fused_update, not storage.fused_update and storage.update_lists > 0
    weights = [weight for weight in weights if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, fused=fused, foreach=foreach)
    with memory.labelled("batch"):
        plan, length = request.plan, request.inputs.job.sequence_length // request.plan.cp
        shape = plan.micro_batch * plan.num_microbatches, length
        tokens, labels = (torch.zeros(shape, dtype=torch.int64) for _ in range(2))
    passes = passes_of(request, chunks, meshes, build.loss(request, chunks), watch.during, watch.order)
    with memory.labelled("optimizer"):
        _begin(optimizer)
    memory.peaks.clear()
    passes(tokens, labels)
    gradients = _storage_bytes(weight.grad for weight in weights if weight.grad is not None)
    memory.moment = ObservedMoment("optimizer", "")
    with memory.labelled("optimizer"):
        optimizer.step()
    moments = [value for state in optimizer.state.values() for value in state.values() if value.dim() > 0]
    return Observed(
        whole_parameters=whole_parameters,
        parameters=memory.now["parameters"],
        gradients=gradients,
        optimizer_states=_storage_bytes(moments),
        activations=watch.saved,
        peaks=memory.peaks,
        collectives=watch.traffic.counts,
        order=tuple(watch.order),
    )


def _begin(optimizer: torch.optim.Optimizer) -> None:
    """Make the states that the optimizer keeps, by a step with gradients of zero."""
    for group in optimizer.param_groups:
        for weight in group["params"]:
            weight.grad = torch.zeros_like(weight)
    optimizer.step()
    optimizer.zero_grad()


def _storage_bytes(tensors: Iterable[Tensor]) -> int:
    """Bytes of what these tensors lie in, each storage once."""
    storages = {id(storage): storage for storage in (local(tensor).untyped_storage() for tensor in tensors)}
    return sum(storage.nbytes() for storage in storages.values())
