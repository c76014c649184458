"""Memo: every figure of the recommendation, computed from the question; the text is written from these alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from meshwright.answers.launch.baseline import Baseline
from meshwright.answers.memo.bottleneck import Bottleneck, bottleneck, most_saved
from meshwright.answers.memo.budget import Budgets, budgets
from meshwright.answers.memo.exchanges import ExchangeLine, exchanges
from meshwright.answers.memo.micro_batching import MicroBatching, micro_batching
from meshwright.answers.memo.mitigation import Mitigation, mitigation
from meshwright.answers.memo.other_questions import OtherQuestion, other_questions
from meshwright.answers.memo.scaling import Point, Scaling, doublings, scaling
from meshwright.answers.plans.switched_plan import SwitchedPlan, switched_plan
from meshwright.answers.plans.switches import Switches, switches_of
from meshwright.answers.unfit.ways_to_fit import ways_to_fit
from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.fit import Verdict
from meshwright.errors import IllegalPlan, InvalidInput
from meshwright.search.changes.sensitivity import Sensitivity, sensitivity
from meshwright.search.find import Progress, SearchResult, best_where
from meshwright.search.fits.least_states import whole_states
from meshwright.search.many_searches.constraint_costs import ConstraintCost, constraint_costs
from meshwright.search.many_searches.remedies import Remedy
from meshwright.search.ranking.rank import rank_key
from meshwright.search.safe import safe_plan
from meshwright.specs.inputs import Inputs
from meshwright.specs.scale import with_gpus

Figure = TypeVar("Figure")
FIGURES = 9
"""Those that take time."""
BEYOND = 1.01
"""Times as many accelerators, by which a speed-up is more than they explain."""


@dataclass(frozen=True)
class Memo:
    """A recommendation for a question that a plan fits."""

    search: SearchResult
    best: Estimate
    """The recommended plan."""
    assumed: tuple[str, ...]
    """Options that were left to their defaults, in words."""
    constraint_costs: tuple[ConstraintCost, ...]
    budgets: Budgets
    exchanges: tuple[ExchangeLine, ...]
    scaling: Scaling
    smaller: Point | None
    """The best plan on the fewest accelerators, from the baseline on by doubling, that hold one safely; None where
    only the whole cluster does.
    """
    pipelined: Estimate | None
    """The best plan with a pipeline; None where the runtime has none."""
    micro_batching: MicroBatching | None
    """Of that plan."""
    sensitivity: Sensitivity
    bottleneck: Bottleneck
    switches: Switches
    mitigation: Mitigation | None
    """None where no switch is worth a run."""
    switched: SwitchedPlan | None
    """The best plan with other switches; None where that is no other plan, or not worth a run."""
    other_questions: tuple[OtherQuestion, ...]
    price: float | None
    """Of one accelerator for one hour; None where none is given."""
    existing: Baseline | None = None
    """The plan of the launch file that the question is from."""
    ways: tuple[Remedy, ...] = ()
    """What would make a plan safe, where none is."""

    @property
    def is_safe(self) -> bool:
        """Whether the recommended plan fits safely."""
        return self.best.verdict == Verdict.SAFE

    @property
    def inputs(self) -> Inputs:
        """The question."""
        return self.search.inputs

    @property
    def speed_up(self) -> float:
        """Tokens a second over those of `smaller`; 1 where there is none."""
        whole = self.best.tokens_per_s_per_gpu * self.inputs.cluster.num_gpus
        return whole / self.smaller.tokens_per_s if self.smaller else 1.0

    @property
    def saved(self) -> str:
        """The part of the step that the plan of `smaller` loses most more to, where the speed-up is more than the
        accelerators explain; else nothing.
        """
        if self.smaller is None or self.speed_up <= BEYOND * self.inputs.cluster.num_gpus / self.smaller.gpus:
            return ""
        return most_saved(self.best, self.inputs, self.smaller)


def usual_baseline(inputs: Inputs) -> int:
    """Accelerators from which scaling starts where nobody says: one node of several, else one accelerator."""
    cluster = inputs.cluster
    return cluster.gpus_per_node if cluster.num_nodes > 1 else 1


def memo(
    search: SearchResult,
    baseline: int,
    assumed: tuple[str, ...] = (),
    price: float | None = None,
    existing: Baseline | None = None,
    progress: Progress | None = None,
) -> Memo:
    """The figures of a recommendation for a search that found plans.

    baseline: accelerators from which scaling starts; assumed: options left to their defaults; price: of one accelerator
    for one hour, in any currency; existing: the plan of a launch file, the one to beat; progress: told (figures
    known, figures in all). Raises `InvalidInput` for a baseline that the cluster cannot have.
    """
    told = _counted(progress)
    best, inputs = search.best[0], search.inputs
    scaled = told(scaling(best, inputs, baseline))
    smaller, pipelined = told(fewest_safe(inputs, baseline)), told(best_pipelined(search))
    limiting, changes = bottleneck(best, inputs, scaled, smaller), told(sensitivity(best, inputs))
    switches, ways = told(switches_of(best, inputs)), told(ways_to_fit(search))
    return Memo(
        search=search,
        best=best,
        assumed=assumed,
        constraint_costs=told(constraint_costs(search)),
        budgets=budgets(best, inputs),
        exchanges=exchanges(best, inputs),
        scaling=scaled,
        smaller=smaller,
        pipelined=pipelined,
        micro_batching=micro_batching(pipelined, inputs) if pipelined else None,
        sensitivity=changes,
        bottleneck=limiting,
        switches=switches,
        mitigation=mitigation(switches, best, inputs, limiting),
        switched=told(switched_plan(search)),
        other_questions=told(other_questions(best, inputs)),
        price=price,
        existing=existing,
        ways=tuple(ways or ()),
    )


def _counted(progress: Progress | None) -> Callable[[Figure], Figure]:
    """Passes figures on, and tells how many are known."""
    known = 0

    def told(figure: Figure) -> Figure:
        nonlocal known
        known += 1
        if progress:
            progress(known, FIGURES)
        return figure

    return told


def best_pipelined(search: SearchResult) -> Estimate | None:
    """The recommended plan if it has a pipeline, else the best plan that has one; None where the runtime has none."""
    plans = [each for each in (*search.best, *search.other_splits) if each.plan.pp > 1]
    if search.best[0].plan.pp > 1:
        return search.best[0]
    best = min(plans, key=rank_key, default=None)
    return best or best_where(search.inputs, lambda plans: plans.pp > 1)


def fewest_safe(inputs: Inputs, baseline: int) -> Point | None:
    """The best plan for the same batch on the fewest accelerators that hold one safely, from the baseline on by
    doubling, fewer than the cluster; None where there are none.
    """
    least = whole_states(inputs) / inputs.cluster.accelerator.visible_memory_bytes
    counts = [count for count in doublings(baseline, inputs.cluster.num_gpus) if count >= least]
    points = (safest_on(inputs, count) for count in counts)
    return next((point for point in points if point), None)


def safest_on(inputs: Inputs, gpus: int) -> Point | None:
    """The best plan for the same batch on fewer accelerators, where it is safe; None where none is, or is legal."""
    try:
        fewer = inputs.replace(cluster=with_gpus(inputs.cluster, gpus))
        best = safe_plan(fewer)
    except (IllegalPlan, InvalidInput):
        return None
    return Point(gpus, fewer, best) if best else None
