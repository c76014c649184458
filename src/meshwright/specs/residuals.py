"""Residuals: how far measured runs lie from what is predicted for them when nothing rests on their own source.

catalog/residuals.json has, by quantity, ln(measured / predicted) of like runs of each source, and how much what they
have in common varies, over the spread of the runs of one group; `make fit` writes it.
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, PositiveInt

from meshwright.specs import catalog
from meshwright.specs.base import Spec
from meshwright.specs.inputs import Inputs

BITS = {"half": 16, "fp8": 8, "fp4": 4}
Quantity = Literal["step_time", "memory"]
EFFECTS = ("kind", "runtime", "accelerator", "source")
"""What the errors of runs have in common, by the names of the labels in which they are equal."""
ALLOCATED, RESERVED = "allocated", "reserved"
NonNegative = Annotated[float, Field(ge=0)]


GROUPS = {"dense": "dense models", "experts": "models with experts"}
"""Of step times, in words."""


class Likeness(NamedTuple):
    """What runs have in common, and a question with them."""

    group: str
    """Runs whose errors spread alike: dense or with experts; of memory, what was measured."""
    kind: str
    """A group in one number format of products."""
    family: str
    """Of runtimes."""
    runtime: str
    """Its framework."""
    accelerator: str
    """The fitted constant that its kernels follow, or their table where they follow none."""


class Cell(NamedTuple):
    """Like runs of one source: ln(measured / predicted); a row of the file, read in half a table's time."""

    source: str
    group: str
    kind: str
    family: str
    runtime: str
    accelerator: str
    runs: PositiveInt
    mean: float
    spread: NonNegative
    """Standard deviation, 0 of a single run."""
    weight: Annotated[float, Field(gt=0)] = 1.0
    """What its source counts for, 1 of a usual one: less the further off it is."""


class Between(Spec):
    """Standard deviations of what cells have in common, over the spread of like runs."""

    kind: NonNegative = 0.0
    runtime: NonNegative = 0.0
    accelerator: NonNegative = 0.0
    source: NonNegative
    """Of the runs of one kind of one source."""


class Unseen(Spec):
    """The same of runtimes and accelerators that no cell has: as `between`, or more."""

    runtime: NonNegative
    accelerator: NonNegative


class Residuals(Spec):
    """Of one quantity."""

    between: Between
    unseen: Unseen
    waiting: Annotated[float, Field(gt=0)] = 1.0
    """The share of a step that waits for exchanges, the host or other stages at which its errors are 1.41 times those
    of a step that only computes; memory waits for nothing."""
    cells: Annotated[tuple[Cell, ...], Field(min_length=1)]

    @cached_property
    def runtimes(self) -> frozenset[tuple[str, str]]:
        """Groups of runs, each with a runtime that has some."""
        return frozenset((cell.group, cell.runtime) for cell in self.cells)

    @cached_property
    def families(self) -> frozenset[tuple[str, str]]:
        """The same with families of runtimes."""
        return frozenset((cell.group, cell.family) for cell in self.cells)

    def sources(self, **like: str) -> int:
        """How many sources have runs with these labels; like: fields of `Likeness` with their values."""
        return len({cell.source for cell in self.cells if all(getattr(cell, name) == like[name] for name in like)})

    def sources_of_label(self, name: str, like: Likeness | Cell) -> int:
        """How many of them speak for one label of runs: for an accelerator those of any model, for a runtime those of
        its group, as what runs experts has little in common with what runs dense layers. name: `runtime` or
        `accelerator`.
        """
        within = {"group": like.group} if name == "runtime" else {}
        return self.sources(**within, **{name: getattr(like, name)})


class OrderError(Spec):
    """How far apart the ratio of two runs of one job and its prediction lie."""

    median: NonNegative
    """Of |ln(measured ratio / predicted ratio)| over pairs of runs of dense models whose plans differ, the median over
    sources of each one's median."""
    experts: NonNegative
    """The same of models with experts, of plans that split the work differently, with recipes that are no rows."""
    plan_kinds: NonNegative
    """Between the mean errors of two kinds of plans of one source, as `plan_kind_difference` computes it."""
    pairs: PositiveInt
    sources: PositiveInt


@cache
def order_error() -> OrderError:
    """Of the published runs."""
    return OrderError(**catalog.written_table("residuals")["order"])


@cache
def residuals(quantity: Quantity, by_words: bool = False) -> Residuals:
    """Of the published runs; by_words: as tables of others have them, which do not say what their frameworks did."""
    return Residuals(**catalog.written_table("residuals_by_words" if by_words else "residuals")[quantity])


def like(inputs: Inputs) -> Likeness:
    """What a question has in common with published runs, for its step time."""
    group = "experts" if inputs.model.is_moe else "dense"
    return _likeness(inputs, group, f"{group}, {BITS[inputs.recipe.number_format]}-bit products")


def without_source(inputs: Inputs) -> list[str]:
    """The runtime, with models as that of a question, and the accelerator, each if no published step time is of it."""
    labels, known = like(inputs), residuals("step_time")
    elsewhere = known.sources(runtime=labels.runtime)
    of_group = f"of {GROUPS[labels.group]} " if elsewhere else ""
    words = {"runtime": f"{of_group}with {labels.runtime}", "accelerator": f"on {labels.accelerator}"}
    return [text for name, text in words.items() if not known.sources_of_label(name, labels)]


def like_memory(inputs: Inputs, measured: str) -> Likeness:
    """The same for its memory; measured: `ALLOCATED` or `RESERVED`."""
    return _likeness(inputs, measured, measured)


def _likeness(inputs: Inputs, group: str, kind: str) -> Likeness:
    runtime, accelerator = inputs.runtime, inputs.cluster.accelerator
    measured = accelerator.kernels.slowdown or accelerator.kernels.id
    return Likeness(
        group=group,
        kind=kind,
        family=runtime.family,
        runtime=runtime.framework,
        accelerator=accelerator.id if accelerator.of_another else measured,
    )


def measured_memory(inputs: Inputs) -> str:
    """What was measured of a runtime's memory: reserved; or allocated, of it or another one of its family; reserved of
    others where neither was.
    """
    known, runtime = residuals("memory"), inputs.runtime
    if (RESERVED, runtime.framework) in known.runtimes:
        return RESERVED
    return ALLOCATED if (ALLOCATED, runtime.family) in known.families else RESERVED
