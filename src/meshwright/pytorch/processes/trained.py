"""Trained: what one process of a real run reports after some steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from meshwright.pytorch.processes.observed import Collective


@dataclass(frozen=True, kw_only=True)
class Trained:
    """One rank over all steps."""

    losses: tuple[float, ...]
    """Of every step, the rank's part of the mean over all tokens of the global batch; the ranks' parts add up to it."""
    squares: Mapping[str, tuple[float, ...]]
    """Of every weight, by its name in the whole model, and every step: the rank's part of its squared gradient."""
    order: tuple[str, ...]
    """Actions of the pipeline stage as they were executed in the last step; none without a pipeline."""
    collectives: Mapping[Collective, int]
    """How often each was issued in the last step."""

    def to_json(self) -> dict[str, Any]:
        """As a mapping that JSON can hold."""
        return vars(self) | {"collectives": [[*collective, count] for collective, count in self.collectives.items()]}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`."""
        return cls(
            losses=tuple(given["losses"]),
            squares={name: tuple(squares) for name, squares in given["squares"].items()},
            order=tuple(given["order"]),
            collectives={Collective(*row[:-1]): row[-1] for row in given["collectives"]},
        )
