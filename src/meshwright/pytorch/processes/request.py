"""Request: what one process is asked to train: one rank of a plan, with its model cut to some layers of each chunk."""

from __future__ import annotations

from dataclasses import dataclass

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
    full_precision: bool = False
    """Weights, activations and messages are fp32, whatever the job's recipe says."""

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
