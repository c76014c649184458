"""Precision: what is kept in which number format, what that saves, and what keeps training stable."""

from __future__ import annotations

from collections.abc import Iterator
from math import log2

from meshwright.answers.document.blocks import Block, Bullets, Heading, Paragraph, Table
from meshwright.answers.memo.exchanges import HOST
from meshwright.answers.memo.memo import Memo
from meshwright.answers.words import plural, times
from meshwright.cost.optimizer_states import optimizer_bytes
from meshwright.errors import listed
from meshwright.layout.plan import Plan
from meshwright.specs.adapters import adapter_parameters
from meshwright.specs.inputs import Inputs
from meshwright.specs.packed import frozen_bytes
from meshwright.specs.precision import BF16, FORMATS, FP16, FP32, FP32_BYTES, HALF_BYTES
from meshwright.specs.quantised_weights import quantised_bytes
from meshwright.specs.weights import parameter_count
from meshwright.units import format_bytes, format_count, format_gib


def precision_section(memo: Memo) -> Iterator[Block]:
    """The table of formats, what they save and do not save, and the recipe of a stable step."""
    inputs = memo.inputs
    yield Heading(f"Appendix F. Number formats: {inputs.job.precision}", 2)
    columns = ("what", "format", "bytes an element", "why")
    yield Table(
        columns, tuple(_formats(memo.best.plan, inputs)), "llrl", caption=f"Number formats of {inputs.runtime.id} here"
    )
    yield Heading("What it saves, and what it does not", 3)
    yield Paragraph(_saves(memo))
    states = _states(memo.best.plan, inputs)
    yield Paragraph(f"{states}{_with_copies(memo, states)}")
    if inputs.recipe.quantises:
        yield Paragraph(_copies(inputs))
    yield Heading("What keeps it stable", 3)
    yield Paragraph(_range(inputs))
    yield Bullets(tuple(_step(memo)), numbered=True)
    yield Paragraph(_master(inputs))


def _formats(plan: Plan, inputs: Inputs) -> Iterator[tuple[str, str, str, str]]:
    half, recipe, storage = inputs.recipe.half, inputs.recipe, inputs.runtime.storage
    if recipe.quantises:
        yield (
            "operands of matrix products",
            recipe.number_format,
            f"{recipe.operand_bytes:g}",
            f"the {recipe.peak} peak, {times(inputs.peak_flops / inputs.half_peak_flops)} that of {half}; sums in fp32 "
            "inside the matrix units",
        )
    else:
        why = "read by matrix units, which sum in fp32 inside"
        yield "operands of matrix products", half, f"{HALF_BYTES}", why
    if inputs.freezes_weights:
        stored = recipe.number_format if inputs.stores_quantised else "nf4" if inputs.packs_weights else half
        why = "unpacked by every product" if inputs.packs_weights else "read by the passes"
        yield "frozen weights", stored, f"{_frozen_bytes(inputs):.3g}", f"{why}, never updated"
        if storage.weights == "half":
            yield "weights of adapters", half, f"{HALF_BYTES}", "what the passes read"
            yield "master weights of adapters", "fp32", f"{FP32_BYTES}", "small updates must not round away"
        else:
            yield "weights of adapters", "fp32", f"{storage.weight_bytes}", f"small updates, and cast to {half} for use"
    elif storage.weights == "full":
        width = storage.weight_bytes
        used = f"cast to {half} for use" if width == FP32_BYTES else "updated as they are, without fp32 copies"
        yield "weights at rest", _named(width, half), f"{width}", f"sharded, and {used}"
    else:
        yield "weights", half, f"{inputs.gathered_bytes:g}", "what the passes read and replicas gather"
        master_bytes = float(optimizer_bytes(plan, inputs)) - storage.moments_bytes
        yield "master weights", "fp32", f"{master_bytes:g}", "small updates must not round away"
    moments, why = storage.moment_bytes, "squares of gradients span decades"
    like_weights = "in the format of their weights"
    why = why if storage.weight_bytes == FP32_BYTES else like_weights
    yield "Adam's two moments", _named(moments, half), f"{storage.moments_bytes / 2:.4g} each", why
    apart = _kept_apart(inputs)
    if apart:
        yield "gradients kept", _named(apart, half), f"{apart}", f"{like_weights}, over micro-batches"
    summed = "gradients exchanged" if apart else "gradients summed"
    yield summed, _named(inputs.gradient_bytes, half), f"{inputs.gradient_bytes}", _why_summed(inputs)
    yield "activations and their messages", half, f"{HALF_BYTES}", "half the memory and half the traffic of fp32"
    if inputs.gathers_quantised:
        operand, gradient = (f"{size:g}" for size in inputs.sequence_gather_bytes)
        sizes = operand if operand == gradient else f"{operand}, gradients {gradient}"
        yield "what tensor-parallel ranks gather", recipe.number_format, sizes, "quantised before it is gathered"
    if inputs.model.is_moe:
        yield "router's scores", "fp32", f"{FP32_BYTES}", "close scores must not change which experts are chosen"
    yield "norm statistics, softmax, loss", "fp32", f"{FP32_BYTES}", "sums over a row, and exponentials"
    yield "gradient norm, loss, learning rate", "fp32", f"{FP32_BYTES}", "one number each"


def _kept_apart(inputs: Inputs) -> int:
    """Bytes in which gradients are kept over micro-batches where replicas sum them in a format of its own; else 0."""
    same = {inputs.kept_gradient_bytes, inputs.gradient_bytes, inputs.runtime.storage.weight_bytes} == {FP32_BYTES}
    return 0 if same or inputs.runtime.storage.weights != "full" else inputs.kept_gradient_bytes


def _why_summed(inputs: Inputs) -> str:
    """Why gradients are summed in so many bytes."""
    apart = _kept_apart(inputs)
    if inputs.gradient_bytes == FP32_BYTES:
        return f"over {'replicas' if apart else 'micro-batches and replicas'}: thousands of small terms"
    scaled = ", and the loss scale keeps them in range" if FORMATS[inputs.recipe.half] is FP16 else ""
    half = "half the traffic" if apart else "half the memory and traffic"
    return f"{half} of fp32{scaled}; small terms of long sums are lost"


def _named(size: int, half: str) -> str:
    return {FP32_BYTES: "fp32", HALF_BYTES: half}.get(size, "8 bits")


def _saves(memo: Memo) -> str:
    inputs, activations = memo.inputs, memo.best.memory.activations
    half, peaks, faster = inputs.recipe.half, inputs.cluster.accelerator.peak_flops, ""
    if "fp32" in peaks:
        ratio = times(inputs.half_peak_flops / peaks["fp32"])
        faster = (
            f"Products in {half} run on the matrix units; products in fp32 run on the vector units. The dense peak of "
            f"the matrix units is {ratio} as high. "
        )
    sent = sum(each.sent_bytes * each.times for each in memo.exchanges if each.axis not in ("dp", HOST))
    traffic = f", and a rank would send twice the {format_bytes(sent)} of one step's passes" if sent else ""
    return (
        f"{faster}In fp32 the {format_gib(activations)} of activations on the fullest rank would be "
        f"{format_gib(activations * FP32_BYTES / HALF_BYTES)}{traffic}."
    )


def _states(plan: Plan, inputs: Inputs) -> str:
    if inputs.freezes_weights:
        return _states_of_adapters(inputs)
    states = float(optimizer_bytes(plan, inputs))
    full, moments = inputs.runtime.storage.weights == "full", inputs.runtime.storage.moments_bytes
    weights = inputs.runtime.storage.weight_bytes if full else HALF_BYTES
    gradients = inputs.kept_gradient_bytes
    mixed, plain = (0 if full else HALF_BYTES) + gradients + states, 4 * FP32_BYTES
    master = f"master weights {states - moments:g}" if not full else ""
    named = (f"weights {weights}", f"gradients {gradients}", master, f"moments {moments:.4g}")
    parts = listed([each for each in named if each])
    count = parameter_count(inputs.model)
    compared = "as many as" if mixed == plain else f"{abs(mixed - plain):g} {'more' if mixed > plain else 'fewer'} than"
    sizes = "" if mixed == plain else f" instead of {format_gib(count * plain)}"
    narrow = inputs.runtime.storage.weight_bytes < FP32_BYTES
    smaller = "get smaller" if narrow else "get no smaller"
    divides = "" if narrow else " Sharding divides it; precision does not."
    return (
        f"Weights, gradients and optimizer states {smaller}: {parts} are {mixed:.4g} bytes per "
        f"parameter, {compared} the {plain} of plain fp32 (4 + 4 + 8). For {format_count(count)} parameters that is "
        f"{format_gib(count * mixed)}{sizes} before sharding.{divides}"
    )


def _frozen_bytes(inputs: Inputs) -> float:
    """Of one frozen weight of a layer, with the copies that stand in place of a 2-byte one; on average where those of
    linear layers are packed.
    """
    if inputs.packs_weights:
        return frozen_bytes(inputs.model)
    return quantised_bytes(inputs) if inputs.stores_quantised else HALF_BYTES


def _states_of_adapters(inputs: Inputs) -> str:
    frozen = parameter_count(inputs.model)
    trained = adapter_parameters(inputs.model, inputs.job, inputs.runtime)
    storage, each = inputs.runtime.storage, _frozen_bytes(inputs)
    gradients, in_half = inputs.kept_gradient_bytes, storage.weights == "half"
    parts: dict[str, float] = {"weight": HALF_BYTES if in_half else storage.weight_bytes, "gradient": gradients}
    parts |= {"fp32 weight": FP32_BYTES} if in_half else {}
    parts |= {"moments": storage.moments_bytes}
    taken, listed_parts = sum(parts.values()), ", ".join(f"{name} {size:.4g}" for name, size in parts.items())
    return (
        f"The {format_count(frozen)} frozen weights take {each:.3g} bytes each, {format_gib(frozen * each)}, "
        f"and have neither gradients nor optimizer states. The {format_count(trained)} parameters of adapters take "
        f"{taken:g} bytes each ({listed_parts}), {format_gib(trained * taken)} before sharding."
    )


def _with_copies(memo: Memo, states: str) -> str:
    """What one accelerator holds by the table of memory, where that is more; states: what is told of the states."""
    held = format_gib(memo.budgets.one.memory.states)
    if held in states or memo.inputs.freezes_weights:
        return ""
    return f" Appendix B counts {held} on one accelerator because it includes the copies that matrix products read."


def _copies(inputs: Inputs) -> str:
    accelerator, recipe = inputs.cluster.accelerator, inputs.recipe
    copies, size = recipe.copies(accelerator), recipe.quantised_bytes(accelerator)
    if inputs.stores_quantised:
        return (
            f"Weights are stored and gathered in {recipe.number_format} alone, {inputs.gathered_bytes:g} bytes each; "
            "they are made from the fp32 master weights every step."
        )
    return (
        f"Weights are quantised from {recipe.half} and stored in addition to it, in {copies} "
        f"{'copy' if copies == 1 else 'copies'}, {size:g} bytes a parameter more: {recipe.number_format} speeds up "
        f"products and can cost memory. Embedding, head and the attention core stay in {recipe.half}."
    )


def _range(inputs: Inputs) -> str:
    half = FORMATS[inputs.recipe.half]
    if half is FP16:
        scaler = inputs.runtime.loss_scaling
        least = f", never below {scaler.least:g}" if scaler.least else ""
        return (
            f"fp16 ends at {FP16.largest:g}, is fully accurate down to {FP16.least_normal:.1e} and holds nothing below "
            f"{FP16.least:.1e}. Gradients underflow, so the loss is scaled dynamically. `{inputs.runtime.id}` "
            f"starts at 2^{log2(scaler.initial):g}, doubles after {scaler.window} good steps and halves after "
            f"{plural(scaler.hysteresis, 'overflow')}{least}. The order of a step matters:"
        )
    return (
        f"bf16 has the range of fp32 (to {BF16.largest:.2g}; fp16 ends at {FP16.largest:g}), so gradients "
        f"neither overflow nor vanish and the loss needs no scaling. It is coarse: next to 1 its steps are "
        f"{BF16.spacing:g}, those of fp16 {FP16.spacing:.2g} and those of fp32 {FP32.spacing:.1e}. The order of a step:"
    )


def _step(memo: Memo) -> Iterator[str]:
    inputs, plan, all_ranks = memo.inputs, memo.best.plan, "data, tensor and pipeline ranks"
    share = f"m {plan.num_microbatches} x dp {plan.dp} = {plan.num_microbatches * plan.dp}"
    if FORMATS[inputs.recipe.half] is FP16:
        yield f"Scale the loss, divide it by micro-batches times replicas ({share}) exactly once, and run backward."
        yield f"Sum the gradients over the replicas in {inputs.gradient_bytes} bytes, then unscale them in fp32."
        yield f"All-reduce found-inf over all ranks ({all_ranks}), so either all of them step or none does."
        yield "Clip by the global norm (1.0 is usual), computed in fp32 over all shards."
        yield "On an overflow skip the step and lower the scale; else update the fp32 weights and cast them."
        return
    yield f"Divide the loss by micro-batches times replicas ({share}) exactly once, and run backward."
    narrow = inputs.runtime.storage.weight_bytes < FP32_BYTES
    apart = _kept_apart(inputs)
    over = "replicas" if apart else "micro-batches and replicas"
    kept = f", and keep them in {apart} over micro-batches" if apart else ""
    yield f"Sum the gradients over {over} in {inputs.gradient_bytes} bytes{kept}."
    yield f"Take the global norm in fp32 over all {all_ranks}; on a NaN or a spike skip the step on every rank."
    updated = "the weights" if narrow else "the fp32 weights and cast them"
    updated = "the adapters" if inputs.freezes_weights else updated
    yield f"Clip by that norm (1.0 is usual) and update {updated}."


def _master(inputs: Inputs) -> str:
    half = FORMATS[inputs.recipe.half]
    rounds = f"1 + {half.spacing * 0.4:.1g} rounds to 1 in {half.name}, so"
    small, stops = f"updates smaller than half of {half.spacing:.2g} of a weight", f"stops at {half.counts_to}"
    habits = "Warm the learning rate up, watch the gradient norm, and keep a checkpoint to go back to when it spikes."
    if inputs.runtime.storage.weight_bytes < FP32_BYTES:
        return (
            f"What training in {half.name} alone risks: {rounds} {small} are lost, as no fp32 copy keeps them. A "
            f"running sum of ones in {half.name} {stops}, and gradients of micro-batches are summed in it. Compare the "
            f"loss with that of a run with fp32 weights before you rely on it. {habits}"
        )
    over = " over replicas" if _kept_apart(inputs) else ""
    risk = f", which this runtime's {inputs.gradient_bytes}-byte sums{over} risk (`--gradients fp32`)"
    return (
        f"Why {half.name} needs fp32: {rounds} without master weights {small} would be lost. A running sum of ones in "
        f"{half.name} {stops}, so sums over many micro-batches and replicas belong in fp32"
        f"{'' if inputs.gradient_bytes == FP32_BYTES else risk}. {habits}"
    )
