"""Expert degrees: the same plan with every other ep and etp that its runtime accepts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from meshwright.answers.document.blocks import Table
from meshwright.answers.screen import verdict_cell
from meshwright.answers.words import plural
from meshwright.cost.estimate import Estimate, Estimates
from meshwright.cost.memory.fit import Verdict
from meshwright.cost.messages import pass_messages
from meshwright.cost.step import estimate_plans
from meshwright.layout.legality import check
from meshwright.layout.legality.rule import divisors
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.search.plan_space.constrained import satisfies
from meshwright.specs.inputs import Inputs
from meshwright.units import GIB, format_seconds

SHOWN = 12
"""Rows of the screen; JSON has all."""


@dataclass(frozen=True)
class ExpertDegrees:
    """The plan priced with other expert axes and all else as it is."""

    ep: int
    etp: int
    step_time_s: float
    device_bytes: float
    verdict: Verdict
    exchanged_s: float
    """Seconds of all exchanges of one step on the slowest stage, both passes, as if nothing hid them."""
    exposed_s: float
    """Of these, what the step waits for."""


def expert_degrees(estimate: Estimate, inputs: Inputs) -> tuple[ExpertDegrees, ...]:
    """The plan with every legal pair of ep and etp that its question allows, and its own; the safest first, then the
    fastest.

    ep: the common divisors of the experts and the ranks of a pipeline stage; etp: the divisors of those ranks that
    share a scale-up domain. None for a model without experts.

    >>> from meshwright.cost.step import estimate_each
    >>> from meshwright.specs.reading.examples import MIXTRAL
    >>> (estimate,) = estimate_each([Plan(dp=8, ep=8, zero=1, num_microbatches=8)], MIXTRAL)
    >>> sorted((each.ep, each.etp) for each in expert_degrees(estimate, MIXTRAL))
    [(1, 1), (1, 2), (1, 4), (1, 8), (2, 1), (2, 2), (2, 4), (4, 1), (4, 2), (8, 1)]
    """
    if not inputs.model.is_moe:
        return ()
    plan, domain = estimate.plan, inputs.cluster.levels[0].size
    ranks, experts = plan.tp * plan.cp * plan.dp, math.gcd(*(each.count for each in inputs.model.mixtures))
    pairs = [(ep, etp) for etp in divisors(math.gcd(ranks, domain)) for ep in divisors(math.gcd(ranks // etp, experts))]
    plans = Plans.of(replace(plan, ep=ep, etp=etp) for ep, etp in pairs)
    own = np.equal(plans.ep, plan.ep) & np.equal(plans.etp, plan.etp)
    shown = check(plans, inputs).legal & (satisfies(plans, inputs) | own)
    priced = estimate_plans(plans.take(shown), inputs, keep_all_stages=True)
    rows = (_degrees(priced, row) for row in range(len(priced)))
    return tuple(sorted(rows, key=lambda each: (each.verdict, each.step_time_s)))


def _degrees(priced: Estimates, row: int) -> ExpertDegrees:
    estimate = priced[row]
    rows = pass_messages(priced, int(priced.slowest[row]))
    return ExpertDegrees(
        ep=estimate.plan.ep,
        etp=estimate.plan.etp,
        step_time_s=estimate.step_time_s,
        device_bytes=estimate.memory.device,
        verdict=estimate.verdict,
        exchanged_s=sum(row.seconds for row in rows if row.part == "ep"),
        exposed_s=estimate.time.exposed_ep_s,
    )


def expert_degrees_table(degrees: tuple[ExpertDegrees, ...], plan: Plan) -> Table:
    """The pairs of ep and etp with what a step takes, the own one marked."""
    own = next(each for each in degrees if (each.ep, each.etp) == (plan.ep, plan.etp))
    shown = degrees[:SHOWN] if own in degrees[:SHOWN] else (*degrees[: SHOWN - 1], own)
    rows = tuple(
        (
            f"{each.ep}",
            f"{each.etp}",
            format_seconds(each.step_time_s),
            "this plan" if each == own else f"{each.step_time_s / own.step_time_s - 1:+z.1%}",
            format_seconds(each.exchanged_s),
            format_seconds(each.exposed_s),
            f"{each.device_bytes / GIB:.1f}",
            verdict_cell(each.verdict),
        )
        for each in shown
    )
    rest = plural(len(degrees) - len(shown), "pair")
    left = f"Left out: {rest} of ep and etp, slower or with more memory; --json has all."
    more = left if degrees[SHOWN:] else ""
    columns = ("ep", "etp", "step", "", "exchange", "exposed", "GiB", "verdict")
    return Table(columns, rows, "rrrrrrrw", caption="The same plan with other values of ep and etp", note=more)
