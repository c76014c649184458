"""Residuals: how far measured runs lie from what is predicted for them when nothing rests on their own source."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources
from typing import Annotated

import numpy as np
from pydantic import Field, PositiveInt

from meshwright.specs.base import Spec
from meshwright.specs.inputs import Inputs

FILE = resources.files("meshwright.specs.catalog") / "residuals.toml"
SHARES = (0.02, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98)
"""Of runs, that lie at or below the ratios of a file."""
FEWEST_SOURCES = 2
"""Sources of like runs; with fewer all runs stand for them, and the interval is doubled."""
EVERY = "every run"
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

    def widened(self, times: float) -> Residuals:
        """The same around 1, so many times as wide; times: a share."""
        return self.replace(ratios=tuple(float(ratio**times) for ratio in self.ratios))


@cache
def residuals() -> dict[str, dict[str, Residuals]]:
    """Of step time and memory, by the kind of runs."""
    read = tomllib.loads(FILE.read_text("utf-8"))
    return {quantity: {name: Residuals(**entry) for name, entry in kinds.items()} for quantity, kinds in read.items()}


def like(inputs: Inputs) -> str:
    """What kind of runs a question is like, for its step time.

    Dense or with experts; the number format of its products; weights kept in half or in full precision, which parts
    the Megatron from the FSDP family.
    """
    if inputs.model.is_moe:
        return "experts"
    return f"dense, {inputs.recipe.number_format} products, {inputs.runtime.weights} weights"


def like_memory(inputs: Inputs) -> str:
    """What kind of runs a question is like, for its memory: dense or with experts, weights half or full."""
    return f"{'experts' if inputs.model.is_moe else 'dense'}, {inputs.runtime.weights} weights"


def residuals_of(quantity: str, kind: str) -> tuple[Residuals, bool]:
    """The residuals of like runs, and whether there are such; else those of all runs, twice as wide.

    quantity: step_time or memory; kind: as `like` or `like_memory` says it.
    """
    known = residuals()[quantity]
    found = known.get(kind)
    if found and found.sources >= FEWEST_SOURCES:
        return found, True
    return known[EVERY].widened(2.0), False


def weighted_ratios(ratios: Sequence[float], sources: Sequence[str]) -> Residuals:
    """Residuals of runs; ratios: measured over predicted, shares; sources: of each run. A run weighs 1 / sqrt(n) where
    its source has n.
    """
    weights = np.array([sources.count(source) ** -0.5 for source in sources])
    order = np.argsort(ratios)
    place = (np.cumsum(weights[order]) - weights[order] / 2) / weights.sum()
    logs = np.interp(SHARES, place, np.log(np.array(ratios)[order]))
    return Residuals(
        runs=len(ratios), sources=len({*sources}), ratios=tuple(float(f"{np.exp(each):.4f}") for each in logs)
    )


def as_toml(quantities: Iterable[tuple[str, dict[str, Residuals]]]) -> str:
    """The file's text: one table for each kind of runs; quantities: step_time and memory with theirs."""
    lines = []
    for quantity, kinds in quantities:
        for name, each in kinds.items():
            ratios = ", ".join(f"{ratio:g}" for ratio in each.ratios)
            lines += [f'[{quantity}."{name}"]', f"runs = {each.runs}", f"sources = {each.sources}"]
            lines += [f"ratios = [{ratios}]", ""]
    return "\n".join(lines)
