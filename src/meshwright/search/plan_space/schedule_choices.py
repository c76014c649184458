"""Schedule choices: the schedules of a space, with the chunks of a stage, for a number of stages and of layers."""

from __future__ import annotations

from meshwright.layout.legality.rule import divisors
from meshwright.schedules.records import Schedule
from meshwright.search.plan_space.constrained import allowed, allows_schedule, named
from meshwright.specs.inputs import Inputs


def schedule_choices(inputs: Inputs, pp: int, layers: int, filled: bool) -> list[tuple[int, int]]:
    """Every (vpp, schedule) of the runtime: chunks where a schedule has several; without a pipeline 1F1B alone.

    Left out are a schedule that another one dominates, where that one can always run, and schedules that split the
    backward pass where the runtime refuses them beside compiled layers. pp: stages; layers: with the ends that count as
    some; filled: whether there are as many micro-batches as stages, whatever their size.
    """
    runtime = inputs.runtime
    if pp == 1:
        return [(vpp, int(Schedule.ONE_F_ONE_B)) for vpp in allowed("vpp", [1], inputs)]
    compiled = runtime.kernels.elementwise == "fused" and not runtime.plans.compiles_split_backward
    chosen, several = list[tuple[int, int]](), [vpp for vpp in _chunks(pp, layers, inputs) if vpp > 1]
    for schedule in Schedule:
        record = schedule.record
        dominated = record.dominated_by is not None and filled
        dominated = dominated and allows_schedule(record.dominated_by, inputs)
        if record.name in runtime.plans.schedules and not dominated and not (compiled and record.splits_backward):
            chosen += [(vpp, int(schedule)) for vpp in (several if record.chunks == "several" else [record.chunks])]
    return [
        (vpp, schedule)
        for vpp, schedule in chosen
        if allowed("vpp", [vpp], inputs)
        and allowed("schedule", [schedule], inputs)
        and not (inputs.constraints.even_chunks and layers % (pp * vpp))
    ]


def _chunks(pp: int, layers: int, inputs: Inputs) -> list[int]:
    """vpp of schedules that interleave: the divisors of a stage's layers; where these are unequal, the least for every
    largest chunk.
    """
    if layers % pp == 0:
        usual = divisors(layers // pp)
    else:
        largest = range(1, -(-layers // pp) + 1) if inputs.runtime.pipeline.stage_split != "even" else ()
        usual = [-(-layers // (pp * size)) for size in largest]
    counts = {*usual, *named("vpp", inputs)}
    return sorted(count for count in counts if count * pp <= layers) or [1]
