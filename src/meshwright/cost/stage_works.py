"""Stage works: what one micro-batch takes on every stage of many plans, priced once for each kind of stage there is."""

from __future__ import annotations

import operator
from typing import NamedTuple, Self

from meshwright.arrays import Floats, IntColumn, column, some, total
from meshwright.cost.footprint import PlanTable, first_largest
from meshwright.cost.runs import Runs
from meshwright.cost.unit import UnitTime, UnitTimes
from meshwright.distinct import combined, distinct_rows, gathered, spread
from meshwright.schedules.pipeline import PassTimes


class BothPasses(NamedTuple):
    """Seconds of one micro-batch on stages, through both passes; shape (n,)."""

    compute: Floats
    tensor: Floats
    """Of communication that compute does not hide, by axis."""
    context: Floats
    expert: Floats
    host: Floats
    total: Floats
    passes: PassTimes

    @classmethod
    def of(cls, work: UnitTime) -> Self:
        """Those of stages."""
        exposed = combined(operator.add, work.exposed_forward, work.exposed_backward)
        compute = work.forward.total + work.backward.total
        return cls(compute, *exposed, host=work.host, total=work.total, passes=work.passes)


class StageWorks(NamedTuple):
    """Seconds of one micro-batch on the stages of plans."""

    each: UnitTime
    """Of every pair of a micro-batch's shape and a stage's layers and ends that there is, shape (w,)."""
    both: BothPasses
    """The same through both passes."""
    row: IntColumn
    """The pair of every stage of the runs, shape (s,)."""

    @classmethod
    def of(cls, table: PlanTable, units: UnitTimes) -> Self:
        """Those of a table of plans; units: of the shapes of one micro-batch."""
        stages = table.pipelines.stages
        # Distinct contents of a stage: layers of each kind recomputed or not, ends, copies: kind (q,).
        again = stages.layers - stages.layers_not_recomputed
        ends = stages.embedding * 1, stages.head * 1, stages.copies
        (*counts, embedding, head, copies), kind = distinct_rows(*again.T, *stages.layers_not_recomputed.T, *ends)
        # Distinct pairs of them with the shape of a micro-batch, (w,), and the pair of every stage of the runs, (s,).
        runs = table.runs
        (shape, kind), row = distinct_rows(
            runs.shapes.of_plan.take(runs.stages.plan), kind.take(runs.pipelines.of_stage)
        )
        # How often each pair has every piece of the model, (w,), and the seconds of each pair.
        pieces = units.embedding, units.head, *units.layers, *units.layers_not_recomputed
        times, share = [(1.0 * count).take(kind) for count in (embedding, head, *counts)], 1 / copies.take(kind)
        shared = some(copies > 1)

        def seconds(*parts: Floats) -> Floats:
            going = [spread(part, shape) * count for part, count in zip(parts, times, strict=False) if some(part)]
            if not going:
                return 0.0
            return total(going) * share if shared else total(going)

        each = combined(seconds, *pieces)
        return cls(each, BothPasses.of(each), row)

    def slowest(self, runs: Runs) -> IntColumn:
        """The row of the slowest stage of each of the runs, shape (k,)."""
        return first_largest(column(self.both.total).take(self.row), runs.stages)

    def at(self, stages: IntColumn) -> BothPasses:
        """Those of some stages of the runs, by row."""
        own = self.row.take(stages)
        return gathered(self.both, own[0] if len(own) == 1 else own)
