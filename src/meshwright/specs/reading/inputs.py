"""Everything that is given, from what users write: names, paths or values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from meshwright.specs.adapters import with_usual_runtime
from meshwright.specs.behaviours import beside_adapters
from meshwright.specs.cluster import Cluster
from meshwright.specs.constraints import Constraints
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import Job
from meshwright.specs.model import Model
from meshwright.specs.reading.cluster import read_cluster
from meshwright.specs.reading.model import read_model
from meshwright.specs.runtime import Runtime, read_runtime

ModelSource = Model | str | Path | Mapping[str, Any]
ClusterSource = Cluster | str | Path | Mapping[str, Any]


def read_inputs(
    model: ModelSource,
    cluster: ClusterSource,
    job: Job,
    runtime: Runtime | str | None = None,
    constraints: Constraints | None = None,
) -> Inputs:
    """A model, a cluster, a job and a runtime, read and validated; the runtime as it runs that job.

    runtime: None: the usual one, which is another one with adapters (`with_usual_runtime`).

    >>> read_inputs("llama-3.1-8b", "1x8:h100", Job(sequence_length=8192, global_batch=64)).cluster.num_gpus
    8
    """
    if runtime is None:
        job, runtime = with_usual_runtime(job)
    read = runtime if isinstance(runtime, Runtime) else read_runtime(runtime)
    return Inputs(
        model=model if isinstance(model, Model) else read_model(model),
        cluster=cluster if isinstance(cluster, Cluster) else read_cluster(cluster),
        job=job,
        runtime=beside_adapters(read, job),
        constraints=constraints or Constraints(),
    )
