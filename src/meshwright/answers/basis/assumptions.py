"""Assumptions: what an answer rests on that was not given."""

from __future__ import annotations

from collections.abc import Iterator

from meshwright.answers.basis.conditions import applicable
from meshwright.cost.comms.experts import exchange_constants
from meshwright.cost.compute.slowdown import slowest_of_cluster, sustained_slowdown, usual_slowdown
from meshwright.search.fits.host_memory import host_bytes
from meshwright.specs.assumed import Assumed
from meshwright.specs.behaviours import switched_fields
from meshwright.specs.inputs import Inputs
from meshwright.specs.precision import FP32_BYTES
from meshwright.specs.residuals import without_source
from meshwright.specs.routing import expert_spread, measured_spreads
from meshwright.units import format_bandwidth, format_count, format_gib


def assumptions(inputs: Inputs) -> list[str]:
    """Every assumption behind the price of a plan, in the order model, job, cluster, runtime."""
    accelerator, library, runtime = inputs.cluster.accelerator, inputs.cluster.library, inputs.runtime
    job = [
        f"{_formats(inputs)}, {_gradients(inputs)}, Adam with {_updated(inputs)} and {_moments(inputs)}",
        *_host_memory(inputs),
        *_offloaded_layers(inputs),
        *_offloaded_modules(inputs),
        f"every sequence is full ({inputs.job.sequence_length} tokens), with {_attention(inputs)}",
        *_unfused(inputs),
        *_routing(inputs),
    ]
    return [
        *inputs.model.assumptions,
        *_prediction(inputs),
        *inputs.job.assumptions,
        *job,
        *inputs.cluster.assumptions,
        *applicable(accelerator.assumed, inputs),
        *applicable(accelerator.kernels.assumed, inputs),
        *applicable(inputs.recipe.assumed, inputs),
        *applicable(library.assumed, inputs),
        *applicable(_token_exchange(inputs), inputs),
        *_kernel_speed(inputs),
        *_sources(inputs),
        f"the runtime is {runtime.id} as of {runtime.version}",
        *applicable(runtime.assumed, inputs),
        *_fallen_back(inputs),
        *_replaced(inputs),
    ]


def _replaced(inputs: Inputs) -> Iterator[str]:
    """What the question replaced of its runtime, with the switches that did it."""
    switched = switched_fields(inputs.runtime)
    for each in inputs.runtime.replaced:
        switch = f"{switched[each.field]}: " if each.field in switched else ""
        yield f"replaced for this question, in spite of anything above: {switch}{each}"


def _attention(inputs: Inputs) -> str:
    """What tokens attend to."""
    job = inputs.job
    if job.attended_length == job.sequence_length:
        return "causal attention"
    return f"causal attention within documents of {job.attended_length} tokens, as much on every rank"


def _unfused(inputs: Inputs) -> list[str]:
    """That attention is not fused where the runtime's would be."""
    if inputs.attention_generation != "eager" or inputs.attention_kernel == "eager":
        return []
    taken = f"heads of {' and '.join(map(str, inputs.model.head_sizes))} elements on {inputs.cluster.accelerator.id}"
    return [f"attention writes its scores to memory and keeps them for backward: no fused kernel takes {taken}"]


def _gradients(inputs: Inputs) -> str:
    summed, kept = inputs.gradient_bytes, inputs.kept_gradient_bytes
    apart = "" if summed == kept else f", summed over replicas in {summed}"
    return f"{kept}-byte gradients{apart}"


def _updated(inputs: Inputs) -> str:
    """The weights that Adam updates."""
    if inputs.freezes_weights:
        return "fp32 weights of adapters"
    in_fp32 = inputs.runtime.storage.weight_bytes == FP32_BYTES
    return "fp32 master weights" if in_fp32 else "2-byte weights, without fp32 copies, which loses small updates,"


def _moments(inputs: Inputs) -> str:
    """Adam's moments, where they are not in fp32 with their bytes."""
    storage = inputs.runtime.storage
    if storage.moment_bytes == FP32_BYTES:
        return "moments"
    scales = f", a scale for each {storage.moment_block} elements" if storage.moment_block else ""
    return f"{storage.moment_bytes}-byte moments{scales}"


def _host_memory(inputs: Inputs) -> list[str]:
    """What optimizer states on the host need there, and what prices them."""
    if not inputs.runtime.storage.offloads_states:
        return []
    copies, updates = inputs.cluster.accelerator.kernels.host_copy_bandwidth, inputs.runtime.host
    held = (
        "weights, gradients and optimizer states"
        if inputs.runtime.storage.offloads_weights
        else "optimizer states and fp32 gradients"
    )
    return [
        f"{held} are in host memory, "
        f"{format_gib(host_bytes(inputs))} on each node if ZeRO divides them over all ranks; each accelerator copies "
        f"at {format_bandwidth(copies)}, and each node updates "
        f"{format_count(updates.updated_parameters_per_s)} parameters per second"
    ]


def _offloaded_layers(inputs: Inputs) -> list[str]:
    """How activations that wait in the host's memory get there and back."""
    layers = inputs.runtime.activations.offloaded_layers
    if not layers:
        return []
    count = f"{layers} layers" if layers < sum(inputs.layers_per_kind) else "all layers"
    bandwidth = format_bandwidth(inputs.cluster.accelerator.kernels.host_copy_bandwidth)
    return [
        f"activations of {count} wait in host memory; copies at {bandwidth} each way run beside the forward and the "
        "backward pass, which wait if their copies take longer"
    ]


def _offloaded_modules(inputs: Inputs) -> list[str]:
    """How what modules save gets to the host and back."""
    activations = inputs.runtime.activations
    if not activations.offloaded_modules:
        return []
    names, bandwidth = ", ".join(activations.offloaded_modules), inputs.cluster.accelerator.kernels.host_copy_bandwidth
    return [
        f"what {names} save waits in host memory, of tensors of {activations.least_offloaded_elements:,} elements or "
        f"more, but for one layer of a micro-batch; copies at {format_bandwidth(bandwidth)} each way run beside other "
        "layers, which wait if their copies take longer; what the host needs to start them is not priced"
    ]


def _fallen_back(inputs: Inputs) -> list[str]:
    """That tokens go by another dispatcher than the runtime's usual one."""
    if not inputs.model.is_moe or inputs.dispatcher == inputs.runtime.communication.dispatcher:
        return []
    return [f"tokens go to experts by all-to-all: DeepEP and HybridEP do not run on {inputs.cluster.accelerator.id}"]


def _token_exchange(inputs: Inputs) -> Assumed:
    """Of what the runtime's dispatcher runs."""
    if not inputs.model.is_moe:
        return ()
    assumed: dict[str, Assumed] = {
        "all_to_all": inputs.cluster.library.all_to_all.assumed,
        "fused": exchange_constants(inputs).assumed,
    }
    return assumed.get(inputs.dispatcher, ())


def _kernel_speed(inputs: Inputs) -> list[str]:
    """What kernels take in a step over what they take alone, and the site's own share of it."""
    usual = usual_slowdown(inputs)
    speed = "kernels run as fast in a step as in isolation; no training run shows otherwise"
    if usual != 1:
        speed = f"kernels take {usual:.3g} times as long in a step as in isolation, as in published runs"
    accelerators = inputs.cluster.num_gpus
    slowest = f"waiting for the slowest of {accelerators} accelerators: {slowest_of_cluster(inputs):.3g} times as long"
    return [
        *_clock(inputs),
        f"{speed} (site_derate {inputs.cluster.site_derate:g})",
        *([slowest] if accelerators > 1 else []),
    ]


def _sources(inputs: Inputs) -> list[str]:
    """What no published run was on, unless the site's own were measured."""
    none = [] if inputs.cluster.measured_runs else without_source(inputs)
    return [f"no published run {' or '.join(none)} supports the step time, so its range is wider"] if none else []


def _clock(inputs: Inputs) -> list[str]:
    """What the power limit costs large products."""
    sustained = sustained_slowdown(inputs, inputs.recipe.number_format)
    power = inputs.cluster.accelerator.power
    if sustained is None or power is None:
        return []
    limit = inputs.cluster.power_limit_w or power.watts
    if sustained == 1.0:
        return [f"large matrix products are as fast as in short benchmarks at {limit:g} W"]
    return [f"large matrix products take {sustained:.3g} times as long as in short benchmarks at {limit:g} W"]


def _prediction(inputs: Inputs) -> list[str]:
    trained, known = inputs.mtp_layers, inputs.model.mtp_layers
    if trained:
        which = "as the model has" if inputs.job.mtp_layers is None else "as the job asks for"
        more = f"{trained} more layer{'s' * (trained > 1)}"
        return [f"multi-token prediction is trained, {which}: {more} on the stage with the head"]
    why = "as the job asks for" if inputs.job.mtp_layers == 0 else f"as none is modelled for {inputs.runtime.id}"
    return [f"multi-token prediction ({known} layers) is not counted anywhere, {why}"] if known else []


def _routing(inputs: Inputs) -> list[str]:
    """How unequally experts share tokens, unless the job says so."""
    if inputs.model.is_moe and inputs.expert_capacity and inputs.job.expert_capacity is None:
        return [
            f"every expert takes {inputs.expert_capacity:g} times the mean of its tokens from each rank, as "
            f"{inputs.runtime.id} does by default: more tokens are dropped, fewer are padded"
        ]
    if not inputs.routes_as_usual:
        return []
    spread, sources = expert_spread(), len(measured_spreads())
    return [
        f"in each layer and micro-batch the tokens per expert vary by {spread.usual:.0%} (standard deviation over "
        f"mean), as in {sources} measured runs ({spread.least:.0%} to {spread.most:.0%} in 8 of 10); "
        "--expert-imbalance 1 gives even routing, which benchmarks force"
    ]


def _formats(inputs: Inputs) -> str:
    formats = f"{inputs.recipe.half} weights and activations"
    if not inputs.recipe.quantises:
        return formats
    return f"{formats}, products in {inputs.recipe.number_format} (recipe {inputs.job.precision})"
