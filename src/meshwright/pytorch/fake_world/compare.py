"""Compare: every quantity of one stage, as the planner says and as PyTorch did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from meshwright.cost.memory.activations import layer_memory
from meshwright.cost.memory.parameters import layer_parameters
from meshwright.layout.microbatches import pipeline_shape
from meshwright.layout.plan import Plan, Recompute
from meshwright.pytorch.fake_world.cuts import Rank
from meshwright.pytorch.planned.issued import issued
from meshwright.pytorch.planned.predicted import PredictedStage
from meshwright.pytorch.planned.spans import names_of_groups
from meshwright.pytorch.processes.observed import Collective, Observed
from meshwright.pytorch.scope import Scope
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind
from meshwright.specs.precision import FP32_BYTES, HALF_BYTES

LETTERS = {"forward": "F", "backward": "B", "input_gradient": "I", "weight_gradient": "W"}
PEAK_TOLERANCE = 0.02


class Quantity(NamedTuple):
    """One figure, twice."""

    name: str
    predicted: float
    observed: float
    unit: str
    """bytes or count."""
    tolerance: float = 0.0
    """How far off it may be, as a share; 0: not at all."""

    @property
    def ratio(self) -> float:
        """Predicted over observed; 1 where both are nothing."""
        if self.observed:
            return self.predicted / self.observed
        return 1.0 if not self.predicted else float("inf")

    @property
    def holds(self) -> bool:
        """Whether it is as close as it must be."""
        if not self.tolerance:
            return round(self.predicted) == round(self.observed)
        return abs(self.ratio - 1) <= self.tolerance


class CollectiveCount(NamedTuple):
    """One kind of collective or message, and how often it is issued."""

    collective: Collective
    predicted: int
    observed: int

    @property
    def holds(self) -> bool:
        """Whether it is issued as often as predicted."""
        return self.predicted == self.observed


@dataclass(frozen=True)
class StageCheck:
    """One pipeline stage."""

    stages: tuple[int, ...]
    """Those that are alike, of which the first was run."""
    quantities: tuple[Quantity, ...]
    collectives: tuple[CollectiveCount, ...]
    peak_at: str
    """Moment, what ran and the operator."""
    order_holds: bool
    order: tuple[str, ...]
    """As PyTorch executed it."""

    @property
    def holds(self) -> bool:
        """Whether everything that was compared is as close as it must be."""
        return self.order_holds and not self.wrong

    @property
    def wrong(self) -> int:
        """How many figures are farther off than they may be."""
        off = sum(not each.holds for each in self.quantities)
        return off + sum(not each.holds for each in self.collectives)


def stage_check(
    stages: tuple[int, ...], stage: PredictedStage, rank: Rank, cuts: Sequence[Observed], seen: Observed, scope: Scope
) -> StageCheck:
    """Hold one stage against what its rank was seen to do.

    cuts: what was seen of every cut; seen: what follows from them for all layers.
    """
    request = rank.whole
    if scope.native:
        quantities = [*_native(stage, seen, scope.inputs), *_per_layer(rank, cuts, scope.plan, scope.inputs)]
    else:
        quantities = [
            Quantity(
                name="parameters before sharding",
                predicted=float(stage.whole.all),
                observed=seen.whole_parameters,
                unit="count",
            )
        ]
    live = _most_live(seen.order)
    if scope.plan.pp > 1:
        quantities.append(
            Quantity(name="live micro-batches", predicted=stage.in_flight_chunks, observed=live, unit="count")
        )
    return StageCheck(
        stages=stages,
        quantities=tuple(quantities),
        collectives=tuple(_collectives(stage, seen, scope)),
        peak_at=f"{seen.highest.name}: {seen.peak.where}" if scope.native else "",
        order_holds=scope.plan.pp == 1 or seen.order == planned_order(request.plan, request.stage),
        order=seen.order,
    )


def _native(stage: PredictedStage, seen: Observed, inputs: Inputs) -> Iterator[Quantity]:
    stored = float(stage.stored.all)
    yield Quantity(name="parameters", predicted=FP32_BYTES * stored, observed=seen.parameters, unit="bytes")
    yield Quantity(name="gradients", predicted=FP32_BYTES * stored, observed=seen.gradients, unit="bytes")
    yield Quantity(
        name="optimizer states",
        predicted=2 * inputs.runtime.storage.moment_bytes * stored,
        observed=seen.optimizer_states,
        unit="bytes",
    )
    yield Quantity(
        name="peak allocated",
        predicted=stage.allocated,
        observed=seen.peak.total,
        unit="bytes",
        tolerance=PEAK_TOLERANCE,
    )


def _per_layer(rank: Rank, cuts: Sequence[Observed], plan: Plan, inputs: Inputs) -> Iterator[Quantity]:
    """Saved activations of one layer and micro-batch, from the difference of two cuts."""
    fewest = rank.cuts[0].chunks[0]
    for cut, seen in zip(rank.cuts[1:], cuts[1:], strict=True):
        kind = next(index for index in set(cut.chunks[0]) if cut.chunks[0].count(index) > fewest.count(index))
        more = cut.chunks[0].count(kind) - fewest.count(kind)
        memory = layer_memory(plan, inputs, inputs.model.layer_kinds[kind])
        name = "activations per layer" + (", with cast weights" if inputs.runtime.storage.autocast else "")
        if len(inputs.model.layer_kinds) > 1:
            name = f"{name} ({inputs.model.layer_kinds[kind].name})"
        saved = float(memory.saved - memory.tables) + _cast(plan, inputs, inputs.model.layer_kinds[kind])
        yield Quantity(
            name=name, predicted=saved, observed=(seen.activations - cuts[0].activations) / more, unit="bytes"
        )


def _cast(plan: Plan, inputs: Inputs, kind: LayerKind) -> float:
    """Bytes of the copies that autocast makes of one layer's matrices and biases and keeps with its activations."""
    if not inputs.runtime.storage.autocast or plan.recompute == Recompute.FULL:
        return 0.0
    return HALF_BYTES * (float(layer_parameters(plan, inputs, kind)) - kind.norms * inputs.model.hidden_size)


def _collectives(stage: PredictedStage, seen: Observed, scope: Scope) -> Iterator[CollectiveCount]:
    wanted = _as_grouped(issued(scope.plan, scope.inputs, stage), scope.run_plan)
    scatters = scope.inputs.runtime.pipeline.scatters_messages and scope.plan.tp > 1
    for collective in sorted({**wanted, **seen.collectives}):
        if scope.native or _is_shared(collective, scatters):
            yield CollectiveCount(collective, wanted.get(collective, 0), seen.collectives.get(collective, 0))


def _as_grouped(wanted: Mapping[Collective, int], plan: Plan) -> dict[Collective, int]:
    """The same where axes over the same ranks share a process group, and go by one name."""
    names, grouped = names_of_groups(plan), Counter[Collective]()
    for collective, count in wanted.items():
        grouped[collective._replace(axis=names.get(collective.axis, collective.axis))] += count
    return dict(grouped)


def _is_shared(collective: Collective, scatters: bool) -> bool:
    """Whether another runtime issues it as PyTorch does; scatters: it splits messages over tp."""
    if collective.axis == "pp":
        return not scatters
    return collective.phase == "forward" and collective.axis in ("tp", "cp", "ep")


def planned_order(plan: Plan, stage: int) -> tuple[str, ...]:
    """The actions of a stage as the planner's schedule lays them out, written as the trainer notes them."""
    actions = plan.schedule.record.actions(pipeline_shape(plan))[stage]
    return tuple(f"{LETTERS[action.kind]}{action.chunk}:{action.micro_batch}" for action in actions)


def _most_live(executed: Sequence[str]) -> int:
    """The most chunks that had been worked forward and not yet backward."""
    live = most = 0
    for action in executed:
        live += {"F": 1, "B": -1, "I": -1}.get(action[0], 0)
        most = max(most, live)
    return most
