"""Request: what one process is asked to train: one rank of a plan, with its model cut to some layers of each chunk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

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

    def to_json(self) -> dict[str, Any]:
        """As a mapping that JSON can hold."""
        return {
            "inputs": self.inputs.model_dump(mode="json"),
            "plan": self.plan.to_dict(),
            "stage": self.stage,
            "chunks": [list(chunk) for chunk in self.chunks],
            "positions": list(self.positions),
            "full_precision": self.full_precision,
        }

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`."""
        return cls(
            inputs=Inputs(**given["inputs"]),
            plan=Plan.from_dict(given["plan"]),
            stage=given["stage"],
            chunks=tuple(map(tuple, given["chunks"])),
            positions=tuple(given["positions"]),
            full_precision=given["full_precision"],
        )

    def with_chunks(self, chunks: tuple[tuple[int, ...], ...]) -> Self:
        """The same with other layers."""
        return replace(self, chunks=chunks)

    @property
    def last_position(self) -> int:
        """Where the chunk with the head stands."""
        return self.plan.pp * self.plan.vpp - 1
