"""Trace: one step of a plan as a Chrome trace, which Perfetto (ui.perfetto.dev) and chrome://tracing open."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from meshwright.answers.files import write_whole
from meshwright.answers.step_parts import PART_NAMES
from meshwright.arrays import FloatColumn
from meshwright.cost.estimate import Estimate
from meshwright.cost.step import estimate_plans
from meshwright.cost.unit import Exposed
from meshwright.layout.microbatches import pipeline_shape
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.layout.splits import layers_of_chunks
from meshwright.schedules.action import Action, ChunkTimes, Event, Timeline, play
from meshwright.schedules.records import blocks
from meshwright.search.resolve.chunks import chunk_times
from meshwright.specs.inputs import Inputs

MOST_SLICES = 120_000
"""Beyond so many, which make some 15 MB, every stage shows its first and last actions, and one slice for the rest."""
PIPELINE, COMMUNICATION, STEP = range(3)
"""Processes of the trace, which a viewer shows as groups of rows."""
AFTER = ("exposed_pp_s", "exposed_dp_s", "optimizer_s")
"""Parts of the step that the estimate puts behind the pipeline."""


class Slice(NamedTuple):
    """One coloured box on one row; nanoseconds."""

    process: int
    row: int
    start: int
    end: int
    category: str
    name: str
    about: dict[str, Any] = {}


class Clock(NamedTuple):
    """The pipeline of a plan on a clock."""

    timeline: Timeline
    shares: FloatColumn
    """Of a stage's seconds, what each of its chunks takes, shape (chunks, stages)."""
    forward: list[Exposed]
    """Exposed seconds of one micro-batch on each stage."""
    backward: list[Exposed]


def write_trace(path: Path, estimate: Estimate, inputs: Inputs) -> None:
    """Write the trace of one step whole, or not at all; path: as `files.writable` returned it."""
    lines = ",\n".join(json.dumps(event, separators=(",", ":")) for event in trace_events(estimate, inputs))
    about = json.dumps({"plan": str(estimate.plan), "step_time_s": estimate.step_time_s}, separators=(",", ":"))
    write_whole(path, f'{{"displayTimeUnit":"ms","otherData":{about},"traceEvents":[\n{lines}\n]}}\n')


def trace_events(estimate: Estimate, inputs: Inputs) -> Iterator[dict[str, Any]]:
    """The events of the trace: names of the rows, then every slice as a complete event; microseconds."""
    stages = range(estimate.plan.pp)
    for process, name in enumerate(("Pipeline", "Exposed communication", "Step, as it is priced")):
        yield {"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}}
        yield {"ph": "M", "name": "process_sort_index", "pid": process, "args": {"sort_index": process}}
        for row in stages if process != STEP else range(1):
            name = f"stage {row}" if process != STEP else "step"
            yield {"ph": "M", "name": "thread_name", "pid": process, "tid": row, "args": {"name": name}}
            yield {"ph": "M", "name": "thread_sort_index", "pid": process, "tid": row, "args": {"sort_index": row}}
    for each in slices(estimate, inputs):
        yield {
            "ph": "X",
            "name": each.name,
            "cat": each.category,
            "pid": each.process,
            "tid": each.row,
            "ts": each.start / 1000,
            "dur": (each.end - each.start) / 1000,
            "args": each.about,
        }


def slices(estimate: Estimate, inputs: Inputs) -> Iterator[Slice]:
    """Every slice: what each stage does by its schedule's own order and when it idles, in which part of it nothing but
    communication runs, and the step as it is priced.

    The clock plays the order with the stages' seconds, a chunk taking its share of them; messages between stages take
    no time there, and stand behind the pipeline as in the price. With unequal stages the played pipeline can be shorter
    than the priced one.
    """
    clock = play_pipeline(estimate.plan, inputs)
    for stage, events in enumerate(clock.timeline.events):
        yield from _stage(stage, events, clock, len(clock.timeline.events))
    yield from _step(estimate, inputs)


def play_pipeline(plan: Plan, inputs: Inputs) -> Clock:
    """The order of a plan's pipeline played with its stages' seconds, a chunk taking its share of them."""
    time = estimate_plans(Plans.of([plan]), inputs, keep_all_stages=True).stage_time
    block_of_chunk = blocks(plan.schedule, plan.pp, plan.vpp)
    actions = plan.schedule.record.actions(pipeline_shape(plan))
    layers = layers_of_chunks(inputs, plan)
    chunks = chunk_times([(plan, layers[None])], inputs)[0][0][block_of_chunk]
    shares = chunks / chunks.sum(axis=0)
    passes = ([_at(seconds, stage) for stage in range(plan.pp)] for seconds in time.passes)
    times = ChunkTimes(*((shares * seconds).tolist() for seconds in passes))
    forward, backward = (
        [Exposed(*(_at(part, stage) for part in each)) for stage in range(plan.pp)]
        for each in (time.exposed_forward, time.exposed_backward)
    )
    return Clock(timeline=play(actions, times, block_of_chunk), shares=shares, forward=forward, backward=backward)


def _at(column: Any, row: int) -> float:
    return float(column[row]) if getattr(column, "ndim", 0) else float(column)


def _stage(stage: int, events: Sequence[Event], clock: Clock, stages: int) -> Iterator[Slice]:
    """The actions of one stage, its bubbles and its communication; the middle of too many as one slice."""
    most = MOST_SLICES // (stages * (2 + sum(1 for axis in clock.backward[stage] if axis)))
    cut = range(most // 2, len(events) - most // 2) if len(events) > most else range(0)
    pipeline, idle = partial(Slice, process=PIPELINE, row=stage), 0
    for index, event in enumerate(events):
        start, end = _nanoseconds(event.start_s), _nanoseconds(event.end_s)
        if index in cut:
            if index == cut.start:
                last = _nanoseconds(events[cut.stop - 1].end_s)
                name, first = f"steady: {len(cut)} actions", event.action.micro_batch
                about = {"actions": len(cut), "from_micro_batch": first}
                yield pipeline(start=start, end=last, category="steady", name=name, about=about)
            idle = end
            continue
        if start > idle:
            yield pipeline(start=idle, end=start, category="bubble", name="bubble")
        idle, action = end, event.action
        name, about = f"{action.kind} {action.micro_batch}", {"micro_batch": action.micro_batch, "chunk": action.chunk}
        yield pipeline(start=start, end=end, category=action.kind, name=name, about=about)
        yield from _exposed(stage, end, event.action, clock)
    makespan = _nanoseconds(clock.timeline.makespan_s)
    if makespan > idle:
        yield pipeline(start=idle, end=makespan, category="bubble", name="bubble")


def _exposed(stage: int, end: int, action: Action, clock: Clock) -> Iterator[Slice]:
    """What of an action is communication that nothing hides, by axis, drawn at its end."""
    passes = {"forward": clock.forward, "backward": clock.backward, "input_gradient": clock.backward}
    whole = passes[action.kind][stage] if action.kind in passes else Exposed()
    exposed = Exposed(*(float(clock.shares[action.chunk, stage]) * part for part in whole))
    start, communication = end - _nanoseconds(float(exposed.total)), partial(Slice, process=COMMUNICATION, row=stage)
    for axis, seconds in exposed._asdict().items():
        if seconds:
            after = min(start + _nanoseconds(seconds), end)
            yield communication(start=start, end=after, category="communication", name=f"{axis} parallel")
            start = after


def _step(estimate: Estimate, inputs: Inputs) -> Iterator[Slice]:
    """The parts of the priced step: the pipeline, then what comes once."""
    once = {name: getattr(estimate.time, name) for name in AFTER} | {"host_s": inputs.runtime.host.host_s_per_step}
    before = 0.0
    for name, seconds in {"pipeline": estimate.step_time_s - sum(once.values()), **once}.items():
        start, end = _nanoseconds(before), _nanoseconds(before + seconds)
        if end > start:
            part = PART_NAMES.get(name, name)
            yield Slice(process=STEP, row=0, start=start, end=end, category="step", name=part)
        before += seconds


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)
