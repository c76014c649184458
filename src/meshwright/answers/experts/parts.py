"""Expert parts: what each part of a layer of experts takes, of one micro-batch and of a step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from meshwright.answers.document.blocks import Table
from meshwright.cost.estimate import Estimate, Estimates
from meshwright.cost.layer_parts import PartTime, layer_part_times
from meshwright.cost.step import estimate_plans
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind
from meshwright.units import format_bytes, format_seconds

NAMES = {
    "attention": "attention, norms and sums",
    "router": "router",
    "permute": "permute",
    "dispatch": "exchange out",
    "experts": "experts",
    "combine": "exchange back",
    "unpermute": "unpermute",
    "feed_forward": "shared experts",
    "others": "tensor, context communication",
    "host": "waiting for the host",
}


@dataclass(frozen=True)
class ExpertPart:
    """One part of a layer of experts."""

    part: str
    """A key of `NAMES`."""
    forward_s: float
    """Seconds that it adds to the forward pass of one layer and micro-batch."""
    backward_s: float
    """The same of backward, with what is computed and sent again."""
    forward_alone_s: float
    """Seconds that it takes, whatever runs beside it; of the host, to issue the pass."""
    backward_alone_s: float
    forward_bytes: float
    """That its element-wise kernels read and write, or that one rank sends, for one layer and micro-batch."""
    backward_bytes: float
    step_s: float
    """Seconds of one step, in all such layers of the stage."""
    step_bytes: float


@dataclass(frozen=True)
class ExpertLayerParts:
    """The layers of experts of one kind on one stage; the seconds of the parts add up to their price."""

    kind: str
    stage: int
    """The slowest one; where it has no such layers, that which has the most."""
    layers: int
    """Of this kind on the stage."""
    micro_batches: float
    parts: tuple[ExpertPart, ...]


def expert_parts(estimate: Estimate, inputs: Inputs) -> tuple[ExpertLayerParts, ...]:
    """The parts of every kind of layers with experts of a priced plan; none for a model without.

    >>> from meshwright.cost.step import estimate_each
    >>> from meshwright.specs.reading.examples import MIXTRAL
    >>> (estimate,) = estimate_each([Plan(dp=8, ep=8, zero=1, num_microbatches=8)], MIXTRAL)
    >>> (layers,) = expert_parts(estimate, MIXTRAL)
    >>> step_s = sum(part.step_s for part in layers.parts)
    >>> layers.layers, 0.8 * estimate.step_time_s < step_s < estimate.step_time_s  # less embedding, head and optimizer
    (32, True)
    """
    if not inputs.model.is_moe:
        return ()
    priced = estimate_plans(Plans.of([estimate.plan]), inputs, keep_all_stages=True)
    kinds = enumerate(inputs.model.layer_kinds)
    return tuple(_of_kind(priced, index, kind) for index, kind in kinds if kind.is_moe)


def _of_kind(priced: Estimates, index: int, kind: LayerKind) -> ExpertLayerParts:
    plan, stages, inputs = priced.plans[0], priced.stages, priced.inputs
    slowest, there = int(priced.slowest[0]), stages.layers[:, index]
    stage = slowest if there[slowest] else int(there.argmax())
    layers, micro_batches = int(there[stage]), plan.num_microbatches / int(stages.copies[stage])
    plain = int(stages.layers_not_recomputed[stage, index])
    counts = micro_batches * (layers - plain), micro_batches * plain
    return ExpertLayerParts(
        kind=kind.name,
        stage=stage,
        layers=layers,
        micro_batches=micro_batches,
        parts=tuple(_parts(plan, inputs, kind, counts)),
    )


def _parts(plan: Plan, inputs: Inputs, kind: LayerKind, counts: tuple[float, float]) -> Iterator[ExpertPart]:
    """counts: layers times micro-batches of a step, as the plan recomputes them and without recomputation."""
    times, without = (layer_part_times(each, inputs, kind) for each in (plan, replace(plan, recompute=Recompute.NONE)))
    for name in NAMES:
        part, plain = getattr(times, name), getattr(without, name)
        yield ExpertPart(
            part=name,
            forward_s=float(part.forward.seconds),
            backward_s=float(part.backward.seconds),
            forward_alone_s=float(part.forward.alone_s),
            backward_alone_s=float(part.backward.alone_s),
            forward_bytes=float(part.forward.bytes),
            backward_bytes=float(part.backward.bytes),
            step_s=counts[0] * _both_passes(part, "seconds") + counts[1] * _both_passes(plain, "seconds"),
            step_bytes=counts[0] * _both_passes(part, "bytes") + counts[1] * _both_passes(plain, "bytes"),
        )


def _both_passes(part: PartTime, field: str) -> float:
    return float(getattr(part.forward, field) + getattr(part.backward, field))


def expert_parts_table(layers: ExpertLayerParts, estimate: Estimate) -> Table:
    """What each part of one layer takes for one micro-batch, and of a step."""
    rows = [
        _row(part, estimate) for part in layers.parts if part.step_s or (part.forward_alone_s and part.part != "host")
    ]
    forward, backward, step = (
        sum(getattr(part, name) for part in layers.parts) for name in ("forward_s", "backward_s", "step_s")
    )
    total = [format_seconds(seconds) for seconds in (forward, backward)]
    rows.append(("= layer", *total, "", format_seconds(step), f"{step / estimate.step_time_s:.0%}"))
    caption = (
        f"One expert layer ({layers.kind}) for one micro-batch; stage {layers.stage} runs {layers.layers} x "
        f"{layers.micro_batches:g} of them in a step"
    )
    columns = ("", "forward", "backward", "bytes", "a step", "share")
    return Table(columns, tuple(rows), "wrrrrr", caption=caption, note=_note(layers), total=True)


def _row(part: ExpertPart, estimate: Estimate) -> tuple[str, ...]:
    size = part.forward_bytes + part.backward_bytes
    return (
        NAMES[part.part],
        format_seconds(part.forward_s),
        format_seconds(part.backward_s),
        format_bytes(size) if size else "",
        format_seconds(part.step_s),
        f"{part.step_s / estimate.step_time_s:.0%}",
    )


def _note(layers: ExpertLayerParts) -> str:
    """What the bytes are, and what hides the exchange."""
    exchanged = [part for part in layers.parts if part.part in ("dispatch", "combine")]
    alone = sum(part.forward_alone_s + part.backward_alone_s for part in exchanged)
    hidden = alone - sum(part.forward_s + part.backward_s for part in exchanged)
    words = "Bytes are those of both passes, moved by element-wise kernels or sent by one rank."
    if not alone:
        return words
    if hidden <= 0:
        return f"{words} Nothing hides the exchange because no other micro-batch runs at the same time."
    return (
        f"{words} The exchange takes {format_seconds(alone)} in both passes; the opposite pass of another "
        f"micro-batch hides {format_seconds(hidden)} of it."
    )
