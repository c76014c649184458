"""Rows of a comparison: a closed form's answer next to the planner's, with the difference and its reasons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from meshwright.arrays import Floats
from meshwright.cost.comms.group import sent_bytes
from meshwright.cost.estimate import Estimate
from meshwright.cost.step import estimate_each
from meshwright.errors import InvalidInput
from meshwright.layout.legality import require_legal
from meshwright.layout.named import plan_of
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import Job
from meshwright.specs.model import Model
from meshwright.specs.reading.cluster import read_cluster
from meshwright.specs.reading.inputs import read_inputs
from meshwright.units import GIGA

MOST = 10**7
"""Tokens, sequences, micro-batches or ranks; products of a few such still fit in 64 bits."""


class ComparisonRow(NamedTuple):
    """One quantity, twice."""

    quantity: str
    unit: str
    closed_form: float
    planner: float
    why: str
    difference: float
    """The planner's answer less the closed form's."""
    relative: float | None
    """The same over the closed form's; None where that is 0."""


@dataclass(frozen=True)
class PlannerComparison:
    """What the planner says about the same degrees, or why it says nothing."""

    rows: tuple[ComparisonRow, ...] = ()
    notes: tuple[str, ...] = ()
    refused: str | None = None


def compared(quantity: str, unit: str, closed_form: float, planner: float, why: str) -> ComparisonRow:
    """One quantity by a closed form and by the planner, in one unit, and why they differ."""
    difference = planner - closed_form
    relative = difference / closed_form if closed_form else None
    return ComparisonRow(
        quantity, unit, closed_form=closed_form, planner=planner, why=why, difference=difference, relative=relative
    )


def gigabytes(quantity: str, closed_form: float, planner_bytes: Floats, why: str) -> ComparisonRow:
    """The same in GB; planner_bytes: the planner's, in bytes."""
    return compared(quantity, "GB", closed_form, float(planner_bytes) / GIGA, why)


def priced(
    model: Model,
    cluster: str,
    degrees: dict[str, int],
    batches: tuple[int, int, int],
    compare: Callable[[Estimate, Inputs], PlannerComparison],
) -> PlannerComparison:
    """The comparison on the planner's estimate for these degrees, or its refusal.

    degrees: tp, pp, cp and dp; batches: sequence length in tokens, micro-batch in sequences, number of micro-batches.
    Raises `InvalidInput` for a cluster that cannot be read.
    """
    sequence, size, count = batches
    site = read_cluster(cluster)
    if max(*batches, *degrees.values()) > MOST:
        return PlannerComparison(refused=f"a size or degree is beyond {MOST}, the largest that it takes")
    try:
        inputs = read_inputs(model, site, Job(sequence_length=sequence, global_batch=size * count * degrees["dp"]))
        tp, pp, cp, dp = (degrees[axis] for axis in ("tp", "pp", "cp", "dp"))
        plan = plan_of(inputs, tp=tp, pp=pp, cp=cp, dp=dp, micro_batch=size)
        require_legal(plan, inputs)
        return compare(estimate_each([plan], inputs)[0], inputs)
    except InvalidInput as error:
        return PlannerComparison(refused=str(error))


def data_parallel_bytes(estimate: Estimate) -> float:
    """Bytes that one rank of the worst stage sends per step to sum gradients and, with ZeRO, to gather parameters."""
    memory, ranks = estimate.memory, estimate.plan.dp * estimate.plan.cp
    if not estimate.plan.zero:
        return float(sent_bytes("all_reduce", memory.gradients, ranks))
    scattered = sent_bytes("reduce_scatter", memory.gradients, ranks)
    return float(scattered + sent_bytes("all_gather", memory.parameters, ranks))


def time_note(estimate: Estimate) -> str:
    """The step and what of its communication nothing hides, which a volume cannot say."""
    time, step = estimate.time, estimate.step_time_s
    exposed = {"tp": time.exposed_tp_s, "dp": time.exposed_dp_s, "pp": time.exposed_pp_s}
    shares = ", ".join(f"{axis} {float(seconds) / step:.1%}" for axis, seconds in exposed.items())
    return f"the planner's step takes {step:.4g} s; exposed communication as shares of it: {shares}"
