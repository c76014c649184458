"""Observed: what one rank was seen to hold, allocate and send, as the process that trained it reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self


class Collective(NamedTuple):
    """One kind of collective or message."""

    axis: str
    kind: str
    number_format: str
    bytes: int
    """Of the whole buffer: gathered, or before it is scattered; of a message its own."""
    phase: str
    """forward or backward; pipeline, where stages take turns with both."""


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
    if layers == 1:
        return ["last layer"]
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

    def to_json(self) -> dict[str, Any]:
        """As a mapping that JSON can hold."""
        seen = [[*collective, count] for collective, count in self.collectives.items()]
        peaks = [[*moment, dict(parts), where] for moment, (parts, where) in self.peaks.items()]
        return vars(self) | {"collectives": seen, "peaks": peaks, "order": list(self.order)}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`."""
        seen = {Collective(*row[:-1]): row[-1] for row in given["collectives"]}
        values = {field.name: given[field.name] for field in fields(cls)}
        peaks = {ObservedMoment(*row[:2]): ObservedPeak(*row[2:]) for row in given["peaks"]}
        return cls(**values | {"collectives": seen, "peaks": peaks, "order": tuple(given["order"])})
