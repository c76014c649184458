"""Activations: what they take on the fullest rank, by stage, and what recomputing more or less of them would do."""

from __future__ import annotations

from collections.abc import Iterator

from meshwright.answers.document.blocks import Block, Paragraph, Table
from meshwright.answers.memo.memo import Memo
from meshwright.answers.words import percent, plural
from meshwright.cost.estimate import Estimate
from meshwright.units import GIB, format_gib, format_seconds


def activations(memo: Memo) -> Iterator[Block]:
    """What divides activations and what does not, every stage, and what other recomputation would do."""
    best, plan = memo.best, memo.best.plan
    first, last = best.stages[0], best.stages[-1]
    text = f"Activations take {format_gib(best.memory.activations)} on the fullest rank."
    if plan.tp > 1:
        split = "all of them" if plan.sp else "those between the matrices, but not norms and residuals,"
        text += f" Tensor parallelism divides {split} by {plan.tp}."
    if plan.cp > 1:
        text += f" Context parallelism divides them by {plan.cp}."
    if plan.pp > 1:
        text += (
            f" The pipeline does not divide them: stage 0 holds {first.layers} of {memo.inputs.model.num_layers} "
            f"layers but keeps {plural(first.live_micro_batches, 'micro-batch', 'micro-batches')} in flight, the last "
            f"stage {last.live_micro_batches}."
        )
    yield Paragraph(text)
    if plan.pp > 1:
        yield _stages(best)
    changes = [each for each in memo.sensitivity.changes if each.knob == "recompute"]
    if changes:
        rows = [_recomputed("as recommended", best)]
        for each in changes:
            slower = each.estimate.step_time_s / best.step_time_s - 1
            change = f" ({'+' if slower >= 0 else '-'}{percent(abs(slower))})"
            rows.append(_recomputed(each.change.removeprefix("recompute "), each.estimate, change))
        columns = ("recompute", "activations", "in all", "step", "verdict")
        yield Table(columns, tuple(rows), "lrrrl", caption="Other recomputation: memory freed and time added")


def _stages(best: Estimate) -> Table:
    last = len(best.stages) - 1
    shown = {0, 1, last - 1, last, best.worst_stage, best.slowest_stage} if last > 7 else {*range(last + 1)}
    rows = (
        (
            str(each.stage),
            f"{each.layers}{' + embedding' if each.embedding else ''}{' + head' if each.head else ''}",
            str(each.live_micro_batches),
            f"{each.memory.states / GIB:.1f}",
            f"{each.memory.activations / GIB:.1f}",
            f"{(each.memory.logits + each.memory.temporaries) / GIB:.1f}",
            f"{each.memory.device / GIB:.1f}",
        )
        for each in best.stages
        if each.stage in shown
    )
    columns = ("stage", "layers", "in flight", "states", "activations", "logits, temporaries", "in all")
    caption = f"GiB per rank by stage; stage {best.worst_stage} is the fullest, stage {best.slowest_stage} the slowest"
    return Table(columns, tuple(rows), "rlrrrrr", caption=caption)


def _recomputed(name: str, estimate: Estimate, change: str = "") -> tuple[str, ...]:
    memory, step = estimate.memory, format_seconds(estimate.step_time_s)
    return name, format_gib(memory.activations), format_gib(memory.device), f"{step}{change}", str(estimate.verdict)
