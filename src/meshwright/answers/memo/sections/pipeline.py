"""Pipeline: what micro-batching changes against splitting the layers and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from meshwright.answers.document.blocks import Block, Figure, Heading, Paragraph, Table
from meshwright.answers.memo.memo import Memo
from meshwright.answers.memo.micro_batching import MicroBatching, bubble_share, idle_share
from meshwright.answers.memo.sections.plan import reason_lost
from meshwright.answers.pictures.pipeline import PipelineChart, pipeline_picture
from meshwright.answers.words import percent, plural
from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.fit import Verdict
from meshwright.schedules.records import SCHEDULE_NAMES
from meshwright.units import GIB, format_bytes, format_seconds

MANY = "micro-batches"
RULE = 4
"""Micro-batches over stages by the usual rule, which keeps the textbook's bubble below a fifth."""


def pipeline_section(memo: Memo) -> Iterator[Block]:
    """The bubble for several m and a timeline, of the plan or the best pipeline; of the plan, what is in flight and
    balance.
    """
    yield Heading("Appendix D. Micro-batching: how busy the accelerators are", 2)
    pipeline, best = memo.micro_batching, memo.pipelined
    if memo.best.plan.pp == 1:
        yield Paragraph(_without(memo))
    if pipeline is None or best is None:
        return
    plan, step_s, bubble_s = best.plan, best.step_time_s, best.time.bubble_s
    yield Paragraph(
        f"With {plan.pp} stages and one micro-batch only one stage would work at a time, so each would be busy "
        f"{percent(pipeline.naive_busy)} of the time. With {plan.num_microbatches} micro-batches all stages work "
        f"except while the pipeline fills and drains. That bubble is {format_seconds(bubble_s)} of "
        f"{format_seconds(step_s)}: "
        f"{percent(bubble_s / step_s)} of the step, or {percent(bubble_s / (step_s - bubble_s))} of the busy time, "
        "which is the ratio that some papers print."
    )
    yield _bubbles(pipeline, best)
    yield Paragraph(_rule(pipeline, best))
    yield timeline_figure(pipeline, best)
    if best is memo.best:
        yield Paragraph(_in_flight(memo, best))
        yield Paragraph(_balance(best))


def _without(memo: Memo) -> str:
    best, other = memo.best, memo.pipelined
    text = (
        f"The recommended plan has no pipeline (pp 1). Every rank works on all {memo.inputs.model.num_layers} layers, "
        f"so none waits for another stage and the bubble is 0 s. Each replica adds up the gradients of its "
        f"{plural(best.plan.num_microbatches, 'micro-batch', MANY)} before one optimizer step."
    )
    if other is None:
        return f"{text} `{memo.inputs.runtime.id}` has no pipeline for this question."
    risk = "" if other.verdict == Verdict.SAFE else f" ({other.verdict})"
    return (
        f"{text} The best plan with a pipeline is `{other.plan}`{risk}: {reason_lost(other, memo)}. The rest is about "
        "that plan."
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
    columns = ("m", "global batch", "by the formula", "bubble", "MFU", "GiB")
    caption = f"The bubble as a share of the step: by the formula for equal stages, {textbook}, and as predicted"
    return Table(columns, rows, "rrrrrr", caption=caption)


def _rule(pipeline: MicroBatching, best: Estimate) -> str:
    plan, stages = best.plan, pipeline.stages
    enough = "follows it" if plan.num_microbatches >= RULE * plan.pp else "breaks it, because the batch is too small"
    chunks = (
        f"Its {plan.vpp} chunks on each stage divide the bubble by {plan.vpp}, for {plan.vpp} times as many messages. "
        if plan.vpp > 1
        else ""
    )
    return (
        f"The usual rule is m of at least {RULE} pp, {RULE * plan.pp} here; the plan has {plan.num_microbatches} and "
        f"{enough}. {chunks}More micro-batches mean a larger batch, or smaller micro-batches that use the matrix units "
        f"less well. {stages} stages need at least {plan.micro_batch * stages} sequences at once."
    )


def timeline_figure(pipeline: MicroBatching, best: Estimate) -> Figure:
    """The schedule, of few micro-batches."""
    name, count, played = SCHEDULE_NAMES[best.plan.schedule], pipeline.drawn, pipeline.chosen
    idle = f"{percent(idle_share(played))} idle"
    chart = PipelineChart(f"{name}, {plural(count, 'micro-batch', MANY)}: {idle}", played.events, played.makespan_s)
    caption = f"The {name} schedule with {plural(count, 'micro-batch', MANY)}"
    if count != best.plan.num_microbatches:
        caption += (
            f"; with the {best.plan.num_microbatches} of the plan {percent(bubble_share(best))} of the step is bubble"
        )
    return Figure("pipeline", pipeline_picture([chart], "The pipeline"), caption)


def _in_flight(memo: Memo, best: Estimate) -> str:
    first, last = best.stages[0], best.stages[-1]
    messages = [each for each in memo.exchanges if each.axis == "pp"]
    size = f", {format_bytes(messages[0].sent_bytes)} each" if messages else ""
    count = best.plan.num_microbatches
    return (
        f"The schedule limits what is in flight: {first.live_micro_batches} of {count} micro-batches on stage 0 and "
        f"{last.live_micro_batches} on stage {last.stage}. Running all forward passes first would keep {count}. "
        f"Neighbours exchange {2 * count * best.plan.vpp:,} messages a step{size}."
    )


def _balance(best: Estimate) -> str:
    times = [stage.forward_s + stage.backward_s for stage in best.stages]
    slowest, fastest = max(times), min(times)
    return (
        f"The slowest stage sets the pace: stage {times.index(slowest)} takes {format_seconds(slowest)} for a "
        f"micro-batch; stage {times.index(fastest)} takes {format_seconds(fastest)}, "
        f"{percent(1 - fastest / slowest)} less. The first stage also has the embedding, the last the head and the "
        "loss."
    )
