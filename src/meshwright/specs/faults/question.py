"""Question faults: what the parts of a question ask of each other that they cannot give."""

from __future__ import annotations

from collections.abc import Iterator

from meshwright.errors import Fault
from meshwright.specs.adapters import adapter_faults
from meshwright.specs.cluster import Accelerator
from meshwright.specs.faults.accelerator import accelerator_faults
from meshwright.specs.faults.experts import expert_faults
from meshwright.specs.faults.model import model_faults
from meshwright.specs.faults.offloading import offloading_faults
from meshwright.specs.faults.precision import precision_faults
from meshwright.specs.job import Job
from meshwright.specs.model import Model
from meshwright.specs.runtime import Runtime


def question_faults(accelerator: Accelerator, model: Model, job: Job, runtime: Runtime) -> Iterator[Fault]:
    """Every fault."""
    yield from accelerator_faults(accelerator, runtime)
    yield from precision_faults(accelerator, job, runtime)
    for faults_of in (model_faults, offloading_faults, expert_faults, adapter_faults):
        yield from faults_of(model, job, runtime)
