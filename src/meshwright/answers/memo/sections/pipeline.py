"""Pipeline: what micro-batching changes against splitting the layers and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from meshwright.answers.document.blocks import Block, Figure, Heading, Paragraph, Table
from meshwright.answers.memo.memo import Memo
from meshwright.answers.memo.micro_batching import MicroBatching, bubble_share, idle_share
from meshwright.answers.memo.words import percent, plural
from meshwright.answers.pictures.pipeline import PipelineChart, pipeline_picture
from meshwright.cost.estimate import Estimate
from meshwright.schedules.records import SCHEDULE_NAMES
from meshwright.units import GIB, format_bytes, format_seconds

MANY = "micro-batches"
NAIVE = 4
"""Stages of the split that a plan without a pipeline is compared with."""
RULE = 4
"""Micro-batches over stages by the usual rule, which keeps the textbook's bubble below a fifth."""


def pipeline_section(memo: Memo) -> Iterator[Block]:
    """Utilisation of a naive split, the bubble for several m, activations in flight, balance, and both timelines."""
    yield Heading("3. Micro-batching: how busy the accelerators are", 2)
    pipeline = memo.micro_batching
    if pipeline is None:
        yield from _without(memo)
        return
    best, plan = memo.best, memo.best.plan
    step_s, bubble_s = best.step_time_s, best.time.bubble_s
    yield Paragraph(
        f"Splitting the layers over {plan.pp} stages and nothing else keeps one stage busy while the others wait: each "
        f"works {percent(pipeline.naive_busy)} of the time and idles {percent(1 - pipeline.naive_busy)}. Cut into "
        f"{plan.num_microbatches} micro-batches, all stages work except while the pipeline fills and drains: "
        f"{format_seconds(bubble_s)} of {format_seconds(step_s)} here, a bubble of {percent(bubble_s / step_s)} of the "
        f"step, or {percent(bubble_s / (step_s - bubble_s))} of the busy time, the ratio that some papers print."
    )
    yield _bubbles(pipeline, best)
    yield Paragraph(_rule(pipeline, best))
    yield from _timelines(pipeline, best)
    yield Paragraph(_in_flight(memo, best))
    yield Paragraph(_balance(best))


def _without(memo: Memo) -> Iterator[Block]:
    plan, inputs = memo.best.plan, memo.inputs
    stages, count = min(NAIVE, inputs.model.num_layers), plan.num_microbatches
    yield Paragraph(
        f"The recommendation has no pipeline (pp 1): every rank works on all {inputs.model.num_layers} layers, so "
        f"none waits for another stage and the bubble is 0 s. Splitting the layers over {stages} accelerators and "
        f"nothing else would keep each busy {percent(1 / stages)} of the time; with "
        f"{plural(count, 'micro-batch', MANY)} in flight that becomes {percent(count / (count + stages - 1))}. "
        f"Micro-batches remain as gradient accumulation: {count} of {plural(plan.micro_batch, 'sequence')} on each "
        "replica, whose gradients are summed before one optimizer step."
    )
    other = next((each for each in (*memo.search.other_splits, *memo.search.best) if each.plan.pp > 1), None)
    if other:
        slower = other.step_time_s / memo.best.step_time_s - 1
        yield Paragraph(
            f"The best plan with a pipeline, `{other.plan}`, is {percent(abs(slower))} "
            f"{'slower' if slower >= 0 else 'faster'}; its bubble is {percent(bubble_share(other))} of the step."
        )


def _bubbles(pipeline: MicroBatching, best: Estimate) -> Table:
    rows = tuple(
        (
            f"{each.micro_batches}{' (the plan)' if each.micro_batches == best.plan.num_microbatches else ''}",
            f"{each.global_batch}",
            percent(each.equal_stages),
            percent(each.bubble),
            percent(each.mfu),
            f"{each.estimate.memory.device / GIB:.1f}",
        )
        for each in pipeline.bubbles
    )
    chunks = "" if pipeline.chunks == 1 else f"{pipeline.chunks} "
    textbook = f"({pipeline.stages} - 1) / ({chunks}m + {pipeline.stages} - 1)"
    columns = ("m", "global batch", "equal stages", "bubble", "MFU", "GiB")
    return Table(columns, rows, "rrrrrr", f"Share of a step that is bubble; equal stages: {textbook}")


def _rule(pipeline: MicroBatching, best: Estimate) -> str:
    plan, stages = best.plan, pipeline.stages
    enough = "follows it" if plan.num_microbatches >= RULE * plan.pp else "breaks it, because the batch is too small"
    chunks = (
        f"Its {plan.vpp} chunks on each stage divide the bubble by {plan.vpp}, for {plan.vpp} times as many messages. "
        if plan.vpp > 1
        else ""
    )
    return (
        f"The usual rule is m of {RULE} pp or more, {RULE * plan.pp} here; the plan has {plan.num_microbatches} and "
        f"{enough}. {chunks}More micro-batches mean a larger batch, or smaller ones that use the matrix units less "
        f"well: {plan.micro_batch * stages} sequences are the least that {stages} stages need at once."
    )


def _timelines(pipeline: MicroBatching, best: Estimate) -> Iterator[Figure]:
    """The plan's schedule by itself, then beside the naive one on the scale of that."""
    naive, planned = (
        PipelineChart(f"{name}: {percent(idle_share(timeline))} idle", timeline.events, timeline.makespan_s)
        for name, timeline in (
            ("Layers split, one batch", pipeline.naive),
            (f"{SCHEDULE_NAMES[best.plan.schedule]}, {pipeline.drawn} micro-batches", pipeline.chosen),
        )
    )
    alone = (
        f"{pipeline.drawn} micro-batches by the plan's schedule, each box with its number; with the plan's "
        f"{best.plan.num_microbatches} the bubble is {percent(bubble_share(best))} of the step"
    )
    yield Figure("schedule", pipeline_picture([planned], "The pipeline as planned"), alone)
    both = (
        f"The same {pipeline.drawn} micro-batches on one scale: with the layers split and nothing else, and as planned"
    )
    yield Figure("pipeline", pipeline_picture([naive, planned], "The pipeline, naive and as planned"), both)


def _in_flight(memo: Memo, best: Estimate) -> str:
    first, last = best.stages[0], best.stages[-1]
    messages = [each for each in memo.exchanges if each.axis == "pp"]
    size = f", {format_bytes(messages[0].sent_bytes)} each" if messages else ""
    count = best.plan.num_microbatches
    return (
        f"The schedule limits what is in flight: {first.live_micro_batches} of {count} micro-batches on stage 0 and "
        f"{last.live_micro_batches} on stage {last.stage}, where running all forward passes first would keep {count}. "
        f"Neighbours exchange {2 * count * best.plan.vpp:,} messages a step{size}."
    )


def _balance(best: Estimate) -> str:
    times = [stage.forward_s + stage.backward_s for stage in best.stages]
    slowest, fastest = max(times), min(times)
    return (
        f"The slowest stage sets the pace: stage {times.index(slowest)} takes {format_seconds(slowest)} for a "
        f"micro-batch, stage {times.index(fastest)} {format_seconds(fastest)}, {percent(1 - fastest / slowest)} less. "
        "The first stage has the embedding, the last the head and the loss."
    )
