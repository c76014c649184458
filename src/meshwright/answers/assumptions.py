"""Assumptions: what an answer rests on that nobody gave."""

from __future__ import annotations

from meshwright.search.find import Found
from meshwright.specs.inputs import Inputs


def search_assumptions(found: Found) -> list[str]:
    """Every assumption behind the answer of a search: what it could not consider, and what each plan rests on."""
    return assumptions(found.inputs)


def assumptions(inputs: Inputs) -> list[str]:
    """Every assumption behind the price of a plan, in the order model, job, cluster, runtime."""
    accelerator, runtime = inputs.cluster.accelerator, inputs.runtime
    job = [
        f"{_formats(inputs)}, {inputs.gradient_bytes}-byte gradients, Adam with fp32 master weights and moments",
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
        *(accelerator.kernels.expert_exchange.assumed if inputs.model.is_moe else ()),
        *site,
        f"runtime {runtime.id} as of {runtime.version}",
        *runtime.assumed,
        *(f"replaced for this question, whatever is said above: {behaviour}" for behaviour in runtime.replaced),
    ]


def _formats(inputs: Inputs) -> str:
    kept = f"{inputs.recipe.half} weights and activations"
    if not inputs.recipe.quantises:
        return kept
    return f"{kept}, products in {inputs.recipe.number_format} (recipe {inputs.job.precision})"
