"""Records: what processes of the trainer are asked, and what they saw of the rank that they trained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from meshwright.layout.plan import Plan
from meshwright.specs.inputs import Inputs


@dataclass(frozen=True, kw_only=True)
class Request:
    """One rank of one step."""

    inputs: Inputs
    plan: Plan
    stage: int
    """Pipeline rank, 0 first."""
    chunks: tuple[tuple[int, ...], ...]
    """The kind of every layer of each chunk that the stage holds."""
    positions: tuple[int, ...]
    """Where each of these chunks stands among all of the model, 0 first."""
    first_layers: tuple[int, ...]
    """The layer of the model with which each of these chunks begins, 0 first."""
    full_precision: bool = False
    """Weights, activations and messages are fp32, whatever the job's recipe says."""
    framework: str = ""
    """Whose own model and wrapping is run; none: those of the trainer."""

    @property
    def last_position(self) -> int:
        """Where the chunk with the head stands."""
        return self.plan.pp * self.plan.vpp - 1


@dataclass(frozen=True, kw_only=True)
class RealRequest:
    """One process of a world that trains for real, or the one that trains the whole model without any axis."""

    rank: int
    ranks: int
    """Processes of its world; 1: the whole model."""
    store: str
    """A file that all processes of the world share."""
    timeout_s: float
    steps: int
    requests: tuple[Request, ...]
    """What it trains, one after the other."""


class Collective(NamedTuple):
    """One kind of collective or message."""

    axis: str
    kind: str
    number_format: str
    bytes: int
    """Of the whole buffer: gathered, or before it is scattered; of a message its own."""
    phase: str
    """forward or backward; pipeline, where stages take turns with both."""


def recounted(counts: Mapping[Collective, int], change: Callable[[Collective], Collective]) -> dict[Collective, int]:
    """The same counts with every collective changed; those that become alike are added up."""
    changed: Counter[Collective] = Counter()
    for collective, count in counts.items():
        changed[change(collective)] += count
    return dict(changed)


class ObservedMoment(NamedTuple):
    """A part of the step."""

    name: str
    """forward; backward through the loss and the head, each of `layer_moments` and the embedding; the optimizer."""
    action: str
    """Of the pipeline's actions the one that it is a part of, as in `Observed.order`."""


class ObservedPeak(NamedTuple):
    """The most that was allocated during one moment of the step."""

    parts: Mapping[str, int]
    """Bytes by what they are for."""
    where: str
    """What was running, and the operator."""

    @property
    def total(self) -> int:
        """Bytes."""
        return sum(self.parts.values())


def layer_moments(layers: int) -> list[str]:
    """The moments of backward in which each of some layers works, first layer first.

    >>> layer_moments(5)
    ['first layer', 'between', 'between', 'next layer', 'last layer']
    """
    if layers < 2:
        return ["last layer"] * layers
    between = ["between"] * max(layers - 3, 0)
    return ["first layer", *between, *["next layer"] * (layers > 2), "last layer"]


@dataclass(frozen=True, kw_only=True)
class Observed:
    """One rank over one step; bytes and counts."""

    whole_parameters: int
    """Parameters that it holds before they are sharded."""
    parameters: int
    """Bytes of the weights that it stores."""
    gradients: int
    """Bytes of gradients when the last backward ended."""
    optimizer_states: int
    """Bytes of moments."""
    activations: int
    """Bytes of saved tensors when the first forward ended."""
    peaks: Mapping[ObservedMoment, ObservedPeak]
    collectives: Mapping[Collective, int]
    """How often each was issued."""
    order: tuple[str, ...]
    """Actions of the pipeline stage as they were executed: F, B, I or W with chunk and micro-batch."""

    @property
    def highest(self) -> ObservedMoment:
        """The moment with the most bytes allocated."""
        return max(self.peaks, key=lambda moment: self.peaks[moment].total)

    @property
    def peak(self) -> ObservedPeak:
        """The most of the step."""
        return self.peaks[self.highest]


@dataclass(frozen=True, kw_only=True)
class Trained:
    """One rank of a real run over all steps."""

    losses: tuple[float, ...]
    """Of every step, the rank's part of the mean over all tokens of the global batch; the ranks' parts add up to it."""
    squares: Mapping[str, tuple[float, ...]]
    """Of every weight, by its name in the whole model, and every step: the rank's part of its squared gradient."""
    order: tuple[str, ...]
    """Actions of the pipeline stage as they were executed in the last step; none without a pipeline."""
    collectives: Mapping[Collective, int]
    """How often each was issued in the last step."""
