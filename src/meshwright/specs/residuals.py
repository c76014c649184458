"""Residuals: how far measured runs lie from what is predicted for them when nothing rests on their own source."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated

import numpy as np
from pydantic import Field, PositiveInt

from meshwright.specs import catalog
from meshwright.specs.base import Spec
from meshwright.specs.inputs import Inputs

SHARES = (0.02, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98)
"""Of runs, that lie at or below the ratios of a file."""
WIDER = 1.5
"""How much wider than all runs those are taken to lie that no run is like, a share; assumed."""
EVERY = "every run"
BITS = {"half": 16, "fp8": 8, "fp4": 4}
WEIGHTS = {"half": "2-byte weights", "full": "4-byte weights"}
Ratio = Annotated[float, Field(gt=0)]


class Residuals(Spec):
    """Measured over predicted, of runs that are alike."""

    runs: PositiveInt
    sources: PositiveInt
    ratios: Annotated[tuple[Ratio, ...], Field(min_length=len(SHARES), max_length=len(SHARES))]
    """At `SHARES` of the runs; each source weighs the root of its runs."""

    def at(self, share: float) -> float:
        """The ratio that this share of runs does not exceed; share: 0 to 1. Returns a share of what is predicted."""
        return float(np.exp(np.interp(share, SHARES, np.log(self.ratios))))

    @property
    def eight_of_ten(self) -> tuple[float, float]:
        """The ratios between which eight of ten runs lie, each a share of what is predicted."""
        return self.at(0.1), self.at(0.9)

    def widened(self, times: float) -> Residuals:
        """The same around 1, so many times as wide; times: a share."""
        return self.replace(ratios=tuple(float(ratio**times) for ratio in self.ratios))


@cache
def residuals() -> dict[str, dict[str, Residuals]]:
    """Of step time and memory, by the kind of runs."""
    return {
        quantity: {name: Residuals(**entry) for name, entry in kinds.items()}
        for quantity, kinds in catalog.table("residuals").items()
    }


def like(inputs: Inputs) -> str:
    """What kind of runs a question is like, for its step time.

    The accelerator's vendor; dense or with experts; the number format of its products; weights kept in 2 bytes or in 4,
    which parts the Megatron from the FSDP family.
    """
    vendor = inputs.cluster.accelerator.vendor
    if inputs.model.is_moe:
        return f"{vendor}, experts"
    return (
        f"{vendor}, dense, {BITS[inputs.recipe.number_format]}-bit products, {WEIGHTS[inputs.runtime.storage.weights]}"
    )


def like_memory(inputs: Inputs) -> str:
    """What kind of runs a question is like, for its memory: by vendor, dense or with experts, width of weights."""
    kind = "experts" if inputs.model.is_moe else "dense"
    return f"{inputs.cluster.accelerator.vendor}, {kind}, {WEIGHTS[inputs.runtime.storage.weights]}"


def chosen(known: Mapping[str, Residuals], kind: str) -> tuple[Residuals, int]:
    """The residuals that stand for a kind of runs, and how many sources of like runs they rest on, a count.

    With two or more sources their own; with one, halfway between theirs and those of all runs; with none, those of all
    runs, wider. known: by kind; kind: as `like` or `like_memory` says it.
    """
    own, every = known.get(kind), known[EVERY]
    if not own:
        return every.widened(WIDER), 0
    if own.sources > 1:
        return own, own.sources
    between = tuple(float(np.sqrt(one * other)) for one, other in zip(own.ratios, every.ratios, strict=True))
    return own.replace(ratios=between), 1
