"""Inputs: everything that is given, together, as the formulas take it."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from meshwright.specs.base import Spec
from meshwright.specs.cluster import Cluster
from meshwright.specs.job import Job
from meshwright.specs.model import Model
from meshwright.specs.runtime import Runtime


class Inputs(Spec):
    """A model, a cluster, a job and a runtime."""

    model: Model
    cluster: Cluster
    job: Job
    runtime: Runtime

    @property
    def peak_flops(self) -> float:
        """Dense peak of one accelerator in the job's precision, FLOP/s."""
        return self.cluster.accelerator.peak_flops[self.job.precision]

    @model_validator(mode="after")
    def _precision(self) -> Self:
        known = self.cluster.accelerator.peak_flops
        if self.job.precision not in known:
            raise ValueError(
                f"{self.cluster.accelerator.id} has no {self.job.precision} matrix units; it has {', '.join(known)}"
            )
        return self
