"""Precision faults: a recipe that a runtime, or an accelerator, cannot run."""

from __future__ import annotations

from collections.abc import Iterator

from meshwright.errors import Fault, any_of, quoted
from meshwright.specs.cluster import Accelerator
from meshwright.specs.job import Job
from meshwright.specs.precision import HALF_BYTES, read_precision
from meshwright.specs.runtime import Runtime


def precision_faults(accelerator: Accelerator, job: Job, runtime: Runtime) -> Iterator[Fault]:
    """The first fault of the job's recipe there."""
    recipe, instead = read_precision(job.precision), _instead(accelerator, runtime)
    peaks, constants = accelerator.peak_flops, accelerator.kernels.low_precision
    if job.precision not in runtime.plans.precisions:
        yield Fault("job.precision", f"{runtime.id} has no {job.precision}; {instead}")
    elif missing := [peak for peak in (recipe.peak, recipe.half) if peak not in peaks]:
        priced = f"{accelerator.id} has no {missing[0]} matrix units"
        if missing[0] in accelerator.unpriced_formats:
            priced = f"{missing[0]} is not priced on {accelerator.id}, whose peak in it is not in the catalogue"
        yield Fault("job.precision", f"{priced}; {instead}")
    elif not recipe.runs_on(accelerator):
        needs = f"{recipe.id} needs compute capability {recipe.least_compute_capability:g} or more"
        has = f"{accelerator.id} has {accelerator.compute_capability}"
        yield Fault("job.precision", f"{needs}, and {has}; {instead}")
    elif recipe.number_format != "half" and recipe.number_format not in constants:
        what = f"kernels {quoted(accelerator.kernels.id)} hold no constants of {recipe.number_format} products"
        yield Fault("job.precision", f"{what}; use {recipe.half}")
    elif recipe.half == "fp16" and runtime.storage.weight_bytes == HALF_BYTES:
        what = "is 2, where fp16 needs 4: an optimizer that updates fp16 weights alone loses small updates"
        yield Fault("runtime.storage.weight_bytes", f"{what}; use 4, or job.precision bf16")


def _instead(accelerator: Accelerator, runtime: Runtime) -> str:
    """What to do where a recipe cannot run."""
    possible = any_of(name for name in runtime.plans.precisions if read_precision(name).runs_on(accelerator))
    return f"use {possible}" if possible else f"{runtime.id} has no recipe that {accelerator.id} can run"
