"""Inputs: everything that is given, together, as the formulas take it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Self

from pydantic import model_validator

from meshwright.errors import Fault, InvalidSpec
from meshwright.specs.base import Spec
from meshwright.specs.cluster import Cluster
from meshwright.specs.job import PRECISIONS, Job
from meshwright.specs.model import Model
from meshwright.specs.runtime import Runtime
from meshwright.specs.weights import parameter_count
from meshwright.units import format_count

MAX_PARAMETERS = 10**15
"""More than any model has; a larger count is taken for a slip."""


class Inputs(Spec):
    """A model, a cluster, a job and a runtime."""

    called: ClassVar[str] = "the question"

    model: Model
    cluster: Cluster
    job: Job
    runtime: Runtime

    @property
    def peak_flops(self) -> float:
        """Dense peak of one accelerator in the job's precision, FLOP/s."""
        return self.cluster.accelerator.peak_flops[self.job.precision]

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        faults = [*self._precision(), *self._positions(), *self._size()]
        if faults:
            raise InvalidSpec(self.called, faults)
        return self

    def _precision(self) -> Iterator[Fault]:
        accelerator, precision = self.cluster.accelerator, self.job.precision
        if precision not in accelerator.peak_flops:
            priced = " or ".join(each for each in PRECISIONS if each in accelerator.peak_flops)
            what = f"{accelerator.id} has no {precision} matrix units; "
            yield Fault("job.precision", what + (f"use {priced}" if priced else "nor any other that is planned"))

    def _positions(self) -> Iterator[Fault]:
        positions, length = self.model.learned_positions, self.job.sequence_length
        if 0 < positions < length:
            what = f"{length} exceeds the {positions} learned positions of {self.model.name}; use {positions} or less"
            yield Fault("job.sequence_length", what)

    def _size(self) -> Iterator[Fault]:
        count = parameter_count(self.model)
        if count > MAX_PARAMETERS:
            most = format_count(MAX_PARAMETERS)
            yield Fault("model", f"has {format_count(count)} parameters; at most {most} are planned for")
