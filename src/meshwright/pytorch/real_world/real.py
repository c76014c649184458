"""Real: a shrunken plan is trained by a few processes, and by one alone, and both are held against each other."""

from __future__ import annotations

import math
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from meshwright.layout.legality import require_legal
from meshwright.layout.plan import Plan
from meshwright.pytorch.fake_world.compare import planned_order
from meshwright.pytorch.fake_world.cuts import ranks
from meshwright.pytorch.planned.issued import issued
from meshwright.pytorch.planned.predicted import PredictedStage, predicted_stages
from meshwright.pytorch.planned.spans import grouped
from meshwright.pytorch.processes.process import answers_of, require_torch
from meshwright.pytorch.processes.records import Collective, RealRequest, Request, Trained, recounted
from meshwright.pytorch.real_world.real_run import AxisBytes, RealRun
from meshwright.pytorch.real_world.shrink import Shrunken, shrunken
from meshwright.pytorch.scope import scope_of
from meshwright.specs.inputs import Inputs
from meshwright.specs.precision import FP32_BYTES, HALF_BYTES

STEPS = 3
TIMEOUT_S = 120.0

WeightNorms = Mapping[str, tuple[float, ...]]
"""Of the gradient of every weight, by its name, in every step."""


def run_for_real(plan: Plan, inputs: Inputs, processes: int, *, timeout_s: float = TIMEOUT_S) -> RealRun:
    """Train a plan's axes for 3 steps with a few processes over gloo, on a small model, and compare with one process.

    processes: 2 to 4; timeout_s: seconds after which all are killed. Raises `IllegalPlan` or `NotModelled` for a plan
    that is not priced, and `CannotVerify` where PyTorch or its gloo is missing, the axes do not fit the processes, a
    process fails or they hang.
    """
    require_legal(plan, inputs)
    scope = scope_of(plan, inputs)
    small = shrunken(scope.run_plan, scope.run_inputs, processes)
    small = small._replace(left_out=(*scope.unchecked[:1], *small.left_out))
    return run_shrunken([small], processes, timeout_s=timeout_s)[0]


def run_shrunken(plans: Sequence[Shrunken], processes: int, *, timeout_s: float = TIMEOUT_S) -> list[RealRun]:
    """Train several plans, one after the other in one world of as many processes, and beside it by one alone.

    processes: 2 to 4; timeout_s: seconds after which all are killed. Raises `CannotVerify` where PyTorch or its gloo is
    missing, a process fails or they hang.
    """
    require_torch()
    started = time.perf_counter()
    stages = [_requests(small) for small in plans]
    with tempfile.TemporaryDirectory(prefix="meshwright-") as folder:
        store = str(Path(folder) / "store")

        def question(rank: int, size: int) -> RealRequest:
            requests = tuple(each[rank * len(each) // size] for each in stages)
            return RealRequest(rank=rank, ranks=size, store=store, timeout_s=timeout_s, steps=STEPS, requests=requests)

        questions = [question(0, 1), *(question(rank, processes) for rank in range(processes))]
        trained: list[list[Trained]] = answers_of(questions, Path(folder), timeout_s)
    elapsed = (time.perf_counter() - started) / len(plans)
    return [_run(small, *each, elapsed_s=elapsed) for small, *each in zip(plans, *trained, strict=True)]


def _requests(small: Shrunken) -> list[Request]:
    """What each pipeline rank is asked to train."""
    scope = scope_of(small.plan, small.inputs)
    return [replace(rank.whole, full_precision=True) for rank in ranks(scope, full=True)]


def _run(small: Shrunken, alone: Trained, *trained: Trained, elapsed_s: float) -> RealRun:
    plan, stages = small.plan, predicted_stages(small.plan, small.inputs)
    stages = [stages[rank * plan.pp // plan.num_gpus] for rank in range(len(trained))]
    logged = [recounted(rank.collectives, _without_phase) for rank in trained]
    counted = [_counted(small, stage) for stage in stages]
    losses = tuple(sum(parts) for parts in zip(*(rank.losses for rank in trained), strict=True))
    weights, reference_weights = _weight_norms(trained), _weight_norms([alone])
    norms, reference_norms = _norms(weights), _norms(reference_weights)
    run = RealRun(
        run=_words(small),
        left_out=small.left_out,
        holds=logged == counted,
        losses=losses,
        reference_losses=alone.losses,
        gradient_norms=norms,
        reference_gradient_norms=reference_norms,
        loss_difference=_largest_difference(losses, alone.losses),
        gradient_difference=_largest_difference(norms, reference_norms),
        farthest_weight=_farthest(weights, reference_weights, reference_norms),
        executed=tuple(rank.order for rank in trained),
        planned=tuple(planned_order(plan, stage.stage) if plan.pp > 1 else () for stage in stages),
        logged_bytes=tuple(map(_bytes, logged)),
        counted_bytes=tuple(map(_bytes, counted)),
        elapsed_s=elapsed_s,
    )
    return replace(run, holds=run.holds and run.same_loss and run.same_gradients and run.same_order)


def _words(small: Shrunken) -> str:
    model, job = small.inputs.model, small.inputs.job
    size = f"{model.num_layers} layers, hidden size {model.hidden_size}, vocabulary {model.vocab_size}"
    batch = f"{job.global_batch} sequences of {job.sequence_length} tokens"
    return f"{small.plan} with {size}, {batch}, {STEPS} steps in fp32"


def _weight_norms(trained: Sequence[Trained]) -> WeightNorms:
    """Of every weight's gradient in every step; each rank holds a part of some."""
    parts: dict[str, list[tuple[float, ...]]] = {}
    for rank in trained:
        for name, squares in rank.squares.items():
            parts.setdefault(name, []).append(squares)
    return {name: tuple(math.sqrt(sum(step)) for step in zip(*each, strict=True)) for name, each in parts.items()}


def _norms(weights: WeightNorms) -> tuple[float, ...]:
    """Of all weights together, in every step."""
    return tuple(math.hypot(*step) for step in zip(*weights.values(), strict=True))


def _farthest(weights: WeightNorms, reference: WeightNorms, whole: Sequence[float]) -> tuple[str, float]:
    """The weight that is farthest off, as a share of the norm of all; one that is missing is off by all of its norm."""
    none = (0.0,) * len(whole)
    shares = {}
    for name in {**weights, **reference}:
        steps = zip(weights.get(name, none), reference.get(name, none), whole, strict=True)
        shares[name] = max(abs(norm - alone) / of_all for norm, alone, of_all in steps)
    return max(shares.items(), key=lambda each: each[1])


def _largest_difference(values: Sequence[float], reference: Sequence[float]) -> float:
    """As a share; infinite where a value is no number."""
    shares = [abs(a - b) / abs(b) for a, b in zip(values, reference, strict=True)]
    return max(shares) if all(map(math.isfinite, shares)) else math.inf


def _counted(small: Shrunken, stage: PredictedStage) -> dict[Collective, int]:
    """What the planner counts for a rank of a stage, where everything is fp32."""

    def logged(each: Collective) -> Collective:
        wide = FP32_BYTES // HALF_BYTES if each.number_format == small.inputs.recipe.half else 1
        return _without_phase(each)._replace(number_format="fp32", bytes=each.bytes * wide)

    return recounted(grouped(issued(small.plan, small.inputs, stage), small.plan), logged)


def _without_phase(collective: Collective) -> Collective:
    """Of all phases together: what a pipeline gathers ahead is of none."""
    return collective._replace(phase="")


def _bytes(counts: Mapping[Collective, int]) -> tuple[AxisBytes, ...]:
    sizes: Counter[tuple[str, str]] = Counter()
    for collective, count in counts.items():
        sizes[collective.axis, collective.kind] += count * collective.bytes
    return tuple(AxisBytes(axis, kind, size) for (axis, kind), size in sorted(sizes.items()))
