"""Real: a shrunken plan is trained by a few processes, and by one alone, and both are held against each other."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from meshwright.layout.legality import require_legal
from meshwright.layout.plan import Plan
from meshwright.pytorch.fake_world.compare import planned_order
from meshwright.pytorch.fake_world.cuts import ranks
from meshwright.pytorch.planned.issued import issued
from meshwright.pytorch.planned.predicted import predicted_stages
from meshwright.pytorch.planned.spans import grouped
from meshwright.pytorch.processes.observed import Collective, Trained, recounted
from meshwright.pytorch.processes.process import answers_of, require_torch
from meshwright.pytorch.processes.request import RealRequest, Request
from meshwright.pytorch.real_world.real_run import RealRun
from meshwright.pytorch.real_world.shrink import Shrunken, shrunken
from meshwright.pytorch.scope import scope_of
from meshwright.specs.inputs import Inputs
from meshwright.specs.precision import FP32_BYTES, HALF_BYTES

STEPS = 3
TIMEOUT_S = 120.0


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
    plan, inputs = small.plan, small.inputs
    stages = predicted_stages(plan, inputs)
    counted = [_in_fp32(grouped(issued(plan, inputs, stage), plan), inputs) for stage in stages]
    planned = [planned_order(plan, stage.stage) if plan.pp > 1 else () for stage in stages]
    stage_of_rank = [rank * plan.pp // plan.num_gpus for rank in range(len(trained))]
    return RealRun(
        plan=plan,
        inputs=inputs,
        left_out=small.left_out,
        losses=tuple(sum(parts) for parts in zip(*(rank.losses for rank in trained), strict=True)),
        reference_losses=alone.losses,
        gradients=_norms(trained),
        reference_gradients=_norms([alone]),
        executed=tuple(rank.order for rank in trained),
        planned=tuple(planned[stage] for stage in stage_of_rank),
        traffic=tuple(recounted(rank.collectives, _without_phase) for rank in trained),
        counted=tuple(recounted(counted[stage], _without_phase) for stage in stage_of_rank),
        elapsed_s=elapsed_s,
    )


def _norms(trained: Sequence[Trained]) -> dict[str, tuple[float, ...]]:
    """Of every weight's gradient in every step; each rank holds a part of some."""
    parts: dict[str, list[tuple[float, ...]]] = {}
    for rank in trained:
        for name, squares in rank.squares.items():
            parts.setdefault(name, []).append(squares)
    return {name: tuple(math.sqrt(sum(step)) for step in zip(*each, strict=True)) for name, each in parts.items()}


def _in_fp32(counts: Mapping[Collective, int], inputs: Inputs) -> dict[Collective, int]:
    """The same collectives where everything is fp32."""

    def wide(each: Collective) -> Collective:
        if each.number_format != inputs.recipe.half:
            return each
        return each._replace(number_format="fp32", bytes=each.bytes * FP32_BYTES // HALF_BYTES)

    return recounted(counts, wide)


def _without_phase(collective: Collective) -> Collective:
    """Of all phases together: what a pipeline gathers ahead is of none."""
    return collective._replace(phase="")
