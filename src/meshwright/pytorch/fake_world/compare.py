"""Compare: every quantity of one stage, as the planner says and as PyTorch did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from meshwright.cost.comms.expert_counts import COUNT_BYTES
from meshwright.cost.memory.activations import layer_memory
from meshwright.cost.memory.parameters import layer_parameters
from meshwright.cost.shard import tokens
from meshwright.layout.microbatches import pipeline_shape
from meshwright.layout.plan import Plan
from meshwright.pytorch.fake_world.cuts import FEWEST, MORE, Rank, extrapolated
from meshwright.pytorch.frameworks import TRANSFORMERS
from meshwright.pytorch.planned.issued import issued
from meshwright.pytorch.planned.predicted import PredictedStage
from meshwright.pytorch.planned.spans import grouped
from meshwright.pytorch.processes.records import Collective, Observed
from meshwright.pytorch.scope import Scope
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import Experts, LayerKind
from meshwright.specs.precision import FP32_BYTES, HALF_BYTES

LETTERS = {"forward": "F", "backward": "B", "input_gradient": "I", "weight_gradient": "W"}
PEAK_TOLERANCE = 0.02


class Quantity(NamedTuple):
    """One figure, twice."""

    name: str
    predicted: float
    observed: float
    unit: str = "bytes"
    """Or count."""
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
    peak_at: str
    """Moment, what ran and the operator."""
    collectives: tuple[CollectiveCount, ...]
    order_holds: bool
    order: tuple[str, ...]
    """As PyTorch executed it."""

    @property
    def results(self) -> tuple[bool, ...]:
        """Whether each figure, and the order of a pipeline, is as it must be."""
        order = (self.order_holds,) if self.order else ()
        return (*(each.holds for each in self.quantities), *(each.holds for each in self.collectives), *order)

    @property
    def holds(self) -> bool:
        """Whether everything that was compared is as it must be."""
        return all(self.results)


def stage_check(
    stages: tuple[int, ...], stage: PredictedStage, rank: Rank, observed: Sequence[Observed], scope: Scope
) -> StageCheck:
    """Hold one stage against what its rank was seen to do.

    observed: what was seen of each of the rank's requests.
    """
    whole = extrapolated(rank, observed)
    quantities = [Quantity("parameters before sharding", stage.whole_parameters, whole.whole_parameters, unit="count")]
    if scope.native:
        quantities = [*_native(stage, whole, scope.inputs), *_per_layer(rank, observed, scope)]
    if scope.plan.pp > 1:
        quantities.append(Quantity("live micro-batches", stage.in_flight_chunks, _most_live(whole.order), unit="count"))
    return StageCheck(
        stages=stages,
        quantities=tuple(quantities),
        collectives=tuple(_collectives(stage, whole, scope)),
        peak_at=f"{whole.highest.name}: {whole.peak.where}" if scope.native else "",
        order_holds=scope.plan.pp == 1 or whole.order == planned_order(rank.whole.plan, rank.whole.stage),
        order=whole.order,
    )


def _native(stage: PredictedStage, whole: Observed, inputs: Inputs) -> Iterator[Quantity]:
    trained, storage = stage.trained_parameters, inputs.runtime.storage
    stored = storage.weight_bytes * trained + HALF_BYTES * (stage.stored_parameters - trained)
    yield Quantity("parameters", stored, whole.parameters)
    yield Quantity("gradients", storage.weight_bytes * stage.reduced_parameters, whole.gradients)
    yield Quantity("optimizer states", storage.moments_bytes * trained, whole.optimizer_states)
    yield Quantity("peak allocated", stage.allocated, whole.peak.total, tolerance=PEAK_TOLERANCE)


def _per_layer(rank: Rank, observed: Sequence[Observed], scope: Scope) -> Iterator[Quantity]:
    """Saved activations of one layer and micro-batch, from the difference of two cuts."""
    plan, inputs = scope.plan, scope.inputs
    kinds, fewest = inputs.model.layer_kinds, observed[0].activations
    for index, longer in zip(rank.longer, observed[1:], strict=True):
        memory = layer_memory(plan, inputs, kinds[index])
        name = "activations per layer" + (", with cast weights" if inputs.runtime.storage.autocast else "")
        name += f" ({kinds[index].name})" if len(kinds) > 1 else ""
        saved = float(memory.saved - memory.tables) + _cast(plan, inputs, kinds[index])
        saved += (_token_counts(plan, kinds[index]) + _wide_scores(scope, kinds[index])) * bool(scope.framework)
        yield Quantity(name, saved, (longer.activations - fewest) / (MORE - FEWEST))


def _cast(plan: Plan, inputs: Inputs, kind: LayerKind) -> float:
    """Bytes of the copies that autocast makes of one layer's matrices and keeps with its activations."""
    if not inputs.runtime.storage.autocast or plan.recompute == Recompute.FULL:
        return 0.0
    attention, block, hidden = kind.attention, kind.feed_forward, inputs.model.hidden_size
    norms = kind.norms * hidden * (1 + (inputs.model.norm == "layer")) + 2 * attention.head_dim * (
        attention.qk_norm == "head"
    )
    of_block = (2 if block.gated else 1) * block.ffn_size + hidden if block.bias else 0
    into = (attention.heads + 2 * attention.kv_heads) * attention.head_dim * attention.qkv_bias
    biases = into + hidden * attention.output_bias + of_block
    return HALF_BYTES * (float(layer_parameters(plan, inputs, kind)) - norms - biases)


def _token_counts(plan: Plan, kind: LayerKind) -> int:
    """Bytes of what the ranks of ep have told each other, which selective recomputation keeps as it does every
    all-to-all; too few to price.
    """
    keeps = plan.ep > 1 and plan.recompute == Recompute.SELECTIVE
    return COUNT_BYTES * kind.feed_forward.count * keeps if isinstance(kind.feed_forward, Experts) else 0


def _wide_scores(scope: Scope, kind: LayerKind) -> float:
    """Bytes of the scores of Mixtral that transformers sorts in fp32, beyond those in 2 bytes; too few to price."""
    plan, block = scope.plan, kind.feed_forward
    wide = scope.framework.startswith(TRANSFORMERS) and kind.attention.qk_norm == "none"
    if not (wide and isinstance(block, Experts)) or plan.recompute == Recompute.FULL:
        return 0.0
    return (FP32_BYTES - HALF_BYTES) * float(tokens(plan, scope.inputs)) * block.active


def _collectives(stage: PredictedStage, whole: Observed, scope: Scope) -> Iterator[CollectiveCount]:
    planned = issued(scope.plan, scope.inputs, stage, token_counts=bool(scope.framework))
    planned = grouped(planned, scope.run_plan)
    scatters = scope.inputs.runtime.pipeline.scatters_messages and scope.plan.tp > 1
    for collective in sorted({**planned, **whole.collectives}):
        if scope.native or _is_shared(collective, scatters):
            yield CollectiveCount(collective, planned.get(collective, 0), whole.collectives.get(collective, 0))


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
    steps = {"F": 1, "B": -1, "I": -1}
    return max(accumulate(steps.get(action[0], 0) for action in executed), default=0)
