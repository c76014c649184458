"""Assumptions: what an answer rests on that nobody gave."""

from __future__ import annotations

from meshwright.specs.inputs import Inputs


def assumptions(inputs: Inputs) -> list[str]:
    """Every assumption behind an answer, in the order model, job, cluster, runtime."""
    accelerator, runtime = inputs.cluster.accelerator, inputs.runtime
    job = [
        f"{inputs.job.precision} weights and activations, {runtime.gradient_bytes}-byte gradients, "
        "Adam with fp32 master weights and moments",
        f"every sequence is full ({inputs.job.sequence_length} tokens) and attends causally",
    ]
    site = [] if inputs.cluster.site_derate > 1 else ["kernels run at their published speed (site_derate 1)"]
    return [
        *inputs.model.assumptions,
        *inputs.job.assumptions,
        *job,
        *inputs.cluster.assumptions,
        *accelerator.assumed,
        *accelerator.kernels.assumed,
        *site,
        f"runtime {runtime.id} as of {runtime.version}",
        *runtime.assumed,
    ]
