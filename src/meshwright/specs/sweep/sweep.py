"""Sweep: the axes of a product of questions, and each question of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import Generic, NamedTuple, TypeVar

from meshwright.errors import InvalidInput
from meshwright.specs.cluster import Cluster
from meshwright.specs.constraints import Constraints
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import Job
from meshwright.specs.model import Model
from meshwright.specs.reading.inputs import read_inputs
from meshwright.specs.runtime import Runtime

Value = TypeVar("Value")


@dataclass(frozen=True)
class Named(Generic[Value]):
    """One value of an axis, by the name that it has in tables."""

    name: str
    value: Value


class Framework(NamedTuple):
    """A runtime with its replaced behaviours."""

    runtime: str
    behaviours: str
    """As `--with` takes them, with blanks between them; empty: none is replaced."""
    value: Runtime | InvalidInput
    """Why there is none: the runtime does not have such behaviours."""


@dataclass(frozen=True)
class SweepQuestion:
    """One question of a sweep."""

    model: str
    cluster: str
    limits: str
    framework: Framework
    job: Job
    where: Cluster
    inputs: Inputs | InvalidInput
    """Why it is none: its parts do not go together, such as a precision that the accelerator lacks."""

    @cached_property
    def key(self) -> str:
        """What tells it from all others: of equal questions the same, also in other sweeps."""
        return self.inputs.content_hash if isinstance(self.inputs, Inputs) else ""


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A product of questions, read and validated; the last axis turns fastest."""

    models: tuple[Named[Model], ...]
    clusters: tuple[Named[Cluster], ...]
    jobs: tuple[Job, ...]
    """Each with its precision."""
    frameworks: tuple[Framework, ...]
    limits: tuple[Named[Constraints], ...]
    prices: Mapping[str, float]
    """Of an hour of one accelerator, by the name of the cluster, in any currency."""

    def __len__(self) -> int:
        axes = self.models, self.clusters, self.jobs, self.frameworks, self.limits
        return prod(map(len, axes))

    def questions(self) -> Iterator[SweepQuestion]:
        """Every question, in the order of the file."""
        axes = self.models, self.clusters, self.jobs, self.frameworks, self.limits
        for model, cluster, job, framework, limits in product(*axes):
            yield SweepQuestion(
                model=model.name,
                cluster=cluster.name,
                limits=limits.name,
                framework=framework,
                job=job,
                where=cluster.value,
                inputs=_inputs(model.value, cluster.value, job, framework.value, limits.value),
            )


def _inputs(
    model: Model, cluster: Cluster, job: Job, runtime: Runtime | InvalidInput, constraints: Constraints
) -> Inputs | InvalidInput:
    if isinstance(runtime, InvalidInput):
        return runtime
    try:
        return read_inputs(model, cluster, job, runtime, constraints)
    except InvalidInput as refusal:
        return refusal
