"""Verify: run a plan on PyTorch in a fake world of its full size, and hold every quantity against it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from meshwright.layout.legality import require_legal
from meshwright.layout.plan import Plan
from meshwright.pytorch.fake_world.compare import StageCheck, stage_check
from meshwright.pytorch.fake_world.cuts import fewer_micro_batches, ranks
from meshwright.pytorch.frameworks import INSTALLED, Versions
from meshwright.pytorch.planned.predicted import PredictedStage, predicted_stages
from meshwright.pytorch.processes.process import observe_ranks, require_torch
from meshwright.pytorch.scope import Scope, scope_of
from meshwright.specs.inputs import Inputs


@dataclass(frozen=True)
class Verification:
    """What was held against PyTorch."""

    plan: Plan
    """As it was asked."""
    inputs: Inputs
    scope: Scope
    """As it was run, with fewer micro-batches."""
    all_layers: bool
    """Every layer was run; else two and four of each kind."""
    stages: tuple[StageCheck, ...]
    elapsed_s: float

    @property
    def results(self) -> tuple[bool, ...]:
        """Whether each figure, and each order, is as it must be."""
        return tuple(result for stage in self.stages for result in stage.results)

    @property
    def holds(self) -> bool:
        """Whether everything that was compared is as it must be."""
        return all(self.results)


def verify(
    plan: Plan,
    inputs: Inputs,
    *,
    full: bool = False,
    versions: Versions = INSTALLED,
    progress: Callable[[int, int], None] | None = None,
) -> Verification:
    """Run one rank of every distinct stage of a plan on PyTorch, and compare.

    full: with all layers; versions: of the frameworks whose own model and wrapping are run, where they can be; of none
    the trainer's are; progress: called with how many ranks were run, and how many there are. Raises `IllegalPlan` or
    `NotModelled` for a plan that is not priced, `CannotVerify` where PyTorch is missing, of another version, or cannot
    run it.
    """
    require_legal(plan, inputs)
    scope = scope_of(*fewer_micro_batches(plan, inputs), versions)
    require_torch()
    started = time.perf_counter()
    predicted = predicted_stages(scope.plan, scope.inputs)
    alike = _alike(predicted)
    chosen = {stage: rank for stage, rank in enumerate(ranks(scope, full=full)) if stage in alike}
    observed = observe_ranks([rank.requests for rank in chosen.values()], progress)
    checks = [
        stage_check(alike[stage], predicted[stage], rank, each, scope)
        for (stage, rank), each in zip(chosen.items(), observed, strict=True)
    ]
    all_layers = not any(rank.longer for rank in chosen.values())
    return Verification(plan, inputs, scope, all_layers, tuple(checks), time.perf_counter() - started)


def _alike(stages: Sequence[PredictedStage]) -> dict[int, tuple[int, ...]]:
    """The first of the stages that hold, keep and receive as much, and all of them."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for stage in stages:
        key = (stage.chunks, stage.embedding, stage.head, stage.live_micro_batches, stage.in_flight_chunks)
        groups.setdefault(key, []).append(stage.stage)
    return {group[0]: tuple(group) for group in groups.values()}
