"""Real: what one process of a few does, each a rank of the plan: it trains a small model for some steps over gloo."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from meshwright.errors import CannotVerify
from meshwright.pytorch.request import Request
from meshwright.pytorch.trained import Trained
from meshwright.pytorch.trainer.build import bare_chunks, parallelize
from meshwright.pytorch.trainer.given import global_batch, own_part, set_weights, turn_rotary, whole_decoder
from meshwright.pytorch.trainer.loss import cross_entropy, over_split_vocabulary
from meshwright.pytorch.trainer.mesh import Meshes, build_meshes
from meshwright.pytorch.trainer.model import Decoder
from meshwright.pytorch.trainer.pipeline import build_stages, note_order, schedule_of
from meshwright.pytorch.trainer.step import PHASES
from meshwright.pytorch.trainer.traffic import TrafficWatch

LEARNING_RATE = 1e-3
Step = Callable[[], float]
"""Trains on the rank's batch, forward and backward; returns its part of the loss."""


def train(given: Mapping[str, Any]) -> Iterator[Trained]:
    """Train each of the requests that a process of a world is given, one after the other.

    given: `rank`, `ranks`, `store` (a file that all processes share), `timeout_s`, `steps` and `requests`. A world of one
    trains the whole model without any axis.
    """
    requests = [Request.from_json(each) for each in given["requests"]]
    if given["ranks"] == 1:
        yield from (_alone(request, given["steps"]) for request in requests)
        return
    with _world(given):
        for request in requests:
            yield _as_rank(request, given["steps"])


@contextmanager
def _world(given: Mapping[str, Any]) -> Iterator[None]:
    if not (dist.is_available() and dist.is_gloo_available()):
        raise CannotVerify("this build of torch has no gloo, over which the processes would talk; install another one")
    dist.init_process_group(
        "gloo",
        init_method=f"file://{given['store']}",
        rank=given["rank"],
        world_size=given["ranks"],
        timeout=timedelta(seconds=given["timeout_s"]),
    )
    try:
        yield
    finally:
        dist.destroy_process_group()


def _alone(request: Request, steps: int) -> Trained:
    """The reference: every micro-batch of the global batch through the whole decoder."""
    decoder = whole_decoder(request)
    tokens, labels = (part.split(request.plan.micro_batch) for part in global_batch(request))

    def step() -> float:
        loss = 0.0
        for part, wanted in zip(tokens, labels, strict=True):
            share = cross_entropy(decoder(part), wanted) / len(tokens)
            share.backward()
            loss += share.item()
        return loss

    losses, squares = zip(*_steps(step, decoder.parameters(), steps, lambda gradient: 1.0), strict=True)
    return Trained(losses=losses, squares=squares, order=(), collectives={})


def _as_rank(request: Request, steps: int) -> Trained:
    meshes = build_meshes(request.plan)
    chunks = bare_chunks(request)
    set_weights(chunks, request)
    turn_rotary(chunks, request, meshes)
    for chunk in chunks:
        parallelize(chunk, request, meshes)
        _sum_gradients(chunk)
    tokens, labels = (own_part(part, request.plan, meshes) for part in global_batch(request))
    traffic, order = TrafficWatch(meshes.axes()), list[str]()
    build = _pipelined if request.plan.pp > 1 else _accumulated
    step = build(request, chunks, meshes, tokens, labels, traffic, order)
    weights = [weight for chunk in chunks for weight in chunk.parameters()]
    first_of_tp, seen = meshes.dense.get_local_rank("tp") == 0, []
    with traffic:
        for loss, square in _steps(step, weights, steps, lambda gradient: _weight(gradient, request)):
            seen.append((loss if first_of_tp else 0.0, square))
            collectives, executed = dict(traffic.seen), tuple(order)
            traffic.seen.clear()
            order.clear()
    losses, squares = zip(*seen, strict=True)
    return Trained(losses=losses, squares=squares, order=executed, collectives=collectives)


def _sum_gradients(chunk: nn.Module) -> None:
    """Data-parallel ranks sum their gradients: every loss is its part of the global mean already."""
    for module in chunk.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)


def _steps(step, weights, steps, weight_of):
    weights = list(weights)
    optimizer = torch.optim.AdamW(weights, lr=LEARNING_RATE)
    for _ in range(steps):
        loss = step()
        gradients = [weight.grad for weight in weights if weight.grad is not None]
        square = sum(weight_of(each) * _local(each).double().square().sum().item() for each in gradients)
        optimizer.step()
        optimizer.zero_grad()
        yield loss, square


def _weight(gradient: Tensor, request: Request) -> float:
    """One over the ranks of a stage that hold the same piece of it."""
    pieces = 1
    for ranks, placement in zip(gradient.device_mesh.shape, gradient.placements, strict=True):
        pieces *= 1 if placement.is_replicate() else ranks
    return pieces * request.plan.pp / request.plan.num_gpus


def _local(tensor: Tensor) -> Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def _accumulated(request, chunks, meshes, tokens, labels, traffic, order) -> Step:
    plan = request.plan
    parts = plan.num_microbatches * plan.dp * plan.cp

    def step() -> float:
        total = 0.0
        with over_split_vocabulary(plan):
            for part, wanted in zip(tokens.split(plan.micro_batch), labels.split(plan.micro_batch), strict=True):
                with traffic.during("forward"):
                    loss = cross_entropy(chunks[0](part), wanted) / parts
                with traffic.during("backward"):
                    loss.backward()
                total += _local(loss.detach()).item()
        return total

    return step


def _pipelined(request, chunks, meshes, tokens, labels, traffic, order) -> Step:
    plan = request.plan
    parts = plan.num_microbatches * plan.dp * plan.cp
    stages = build_stages(request, chunks, meshes)
    note_order(stages, order, lambda letter: traffic.during(PHASES[letter]))
    shares: list[float] = []

    def loss(logits: Tensor, wanted: Tensor) -> Tensor:
        with traffic.during("forward"):
            share = cross_entropy(logits, wanted) / parts
        shares.append(_local(share.detach()).item())
        return share

    schedule = schedule_of(request, stages, loss)
    first, last = 0 in request.positions, request.last_position in request.positions

    def step() -> float:
        shares.clear()
        given, wanted = (tokens,) if first else (), labels if last else None
        with over_split_vocabulary(plan), traffic.during("pipeline"):
            schedule.step(*given, target=wanted, losses=[] if last else None, return_outputs=False)
        return sum(shares)

    return step
