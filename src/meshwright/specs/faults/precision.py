"""Precision faults: a recipe that a runtime, or an accelerator, cannot run."""

from __future__ import annotations

from collections.abc import Iterator

from meshwright.errors import Fault, any_of, quoted
from meshwright.specs.cluster import Accelerator
from meshwright.specs.job import Job
from meshwright.specs.precision import HALF_BYTES, read_precision
from meshwright.specs.runtime import Runtime


def precision_faults(accelerator: Accelerator, job: Job, runtime: Runtime) -> Iterator[Fault]:
    """The first fault of the job's recipe there, and that of its weights beside states on the host."""
    yield from _recipe(accelerator, job, runtime)
    yield from _host(job, runtime)


def _recipe(accelerator: Accelerator, job: Job, runtime: Runtime) -> Iterator[Fault]:
    recipe = read_precision(job.precision)
    peaks, constants = accelerator.peak_flops, accelerator.kernels.low_precision
    if job.precision not in runtime.plans.precisions:
        yield Fault("job.precision", f"{runtime.id} has no {job.precision}; {_instead(accelerator, runtime)}")
    elif missing := [peak for peak in (recipe.peak, recipe.half) if peak not in peaks]:
        priced = f"{accelerator.id} has no {missing[0]} matrix units"
        if missing[0] in accelerator.unpriced_formats:
            priced = f"{missing[0]} is not priced on {accelerator.id}, whose peak in it is not in the catalogue"
        yield Fault("job.precision", f"{priced}; {_instead(accelerator, runtime)}")
    elif not recipe.runs_on(accelerator):
        needs = f"{recipe.id} needs compute capability {recipe.least_compute_capability:g} or more"
        has = f"{accelerator.id} has {accelerator.compute_capability}"
        yield Fault("job.precision", f"{needs}, and {has}; {_instead(accelerator, runtime)}")
    elif recipe.number_format != "half" and recipe.number_format not in constants:
        what = f"kernels {quoted(accelerator.kernels.id)} hold no constants of {recipe.number_format} products"
        yield Fault("job.precision", f"{what}; use {recipe.half}")
    elif recipe.half == "fp16" and runtime.storage.weight_bytes == HALF_BYTES:
        what = "is 2, where fp16 needs 4: an optimizer that updates fp16 weights alone loses small updates"
        yield Fault("runtime.storage.weight_bytes", f"{what}; use 4, or job.precision bf16")


def _host(job: Job, runtime: Runtime) -> Iterator[Fault]:
    """Source: Megatron-LM, training/arguments.py: --optimizer-cpu-offload and --fp8-param-gather."""
    recipe, stored = read_precision(job.precision), runtime.storage
    quantised = recipe.quantises and job.precision in stored.quantised_weights
    if stored.offloads_states and quantised and not recipe.scales_from_earlier_steps:
        what = f"must be nothing where weights are stored in 8 bits alone, as {runtime.id} does in"
        yield Fault("runtime.storage.offloaded", f"{what} {job.precision}; nearest: fp8-delayed")


def _instead(accelerator: Accelerator, runtime: Runtime) -> str:
    """What to do where a recipe cannot run."""
    possible = any_of(name for name in runtime.plans.precisions if read_precision(name).runs_on(accelerator))
    return f"use {possible}" if possible else f"{runtime.id} has no recipe that {accelerator.id} can run"
