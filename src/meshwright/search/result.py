"""What a search found."""

from __future__ import annotations

from dataclasses import dataclass, field

from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.fit import Verdict
from meshwright.reprs import list_of
from meshwright.search.ranking.rank import LEAST_GAIN, rank_time_s
from meshwright.search.ranking.rivals import Rivals
from meshwright.specs.inputs import Inputs


@dataclass(frozen=True)
class SearchResult:
    """What a search found."""

    inputs: Inputs
    considered: int
    """Plans whose degrees multiply to the cluster; of a search that was stopped, those looked at."""
    legal: int
    """Of these, plans that the runtime accepts."""
    fitting: int
    """Of these, plans whose verdict is not out-of-memory."""
    unpriced: int
    """Of those that do not fit, plans that were not priced, since their weights, gradients and optimizer states alone
    are more than memory."""
    refused: dict[str, int]
    """Per rule of the runtime, how many considered plans break it."""
    best: tuple[Estimate, ...]
    """The recommended plan, then the best plan of every other choice that fits, the fastest first, less those that
    recompute in vain (`recomputed_in_vain`); empty when nothing fits."""
    other_splits: tuple[Estimate, ...]
    """For every (tp, cp, pp, dp) that none of these has, the best of its plans, the fastest first."""
    fastest: Estimate | None
    """The fastest plan of the recommended one's verdict, at risk by its `rank_time_s`."""
    equal: int
    """Plans of the recommended one's verdict that predictions cannot tell from the fastest, the two among them."""
    proven: Estimate | None
    """The best plan that is split as the fastest published run of a job of the model, where one fits."""
    tested: Estimate | None
    """The best plan by its `rank_time_s` of kinds that published runs have, not all of them beaten, where one fits."""
    at_risk: Estimate | None
    """Of the plans at risk of running out of memory the fastest by its `rank_time_s`, where there is one."""
    leanest: Estimate
    """The legal plan with the least memory on its worst stage."""
    complete: bool
    """Whether every plan was considered: the search was not stopped."""
    size: int
    """Plans in the space."""
    rivals: Rivals | None = field(default=None, compare=False)
    """Of the plans that fit, those that `crossover` asks for, where the search was to keep them."""

    def __repr__(self) -> str:
        inputs = self.inputs
        title = f"<{type(self).__name__} of {inputs.model.name} on {inputs.cluster.name}: {self.counts}"
        shown = ("the best", self.best) if self.best else ("the leanest", (self.leanest,))
        return list_of(f"{title}; {shown[0]}:", [each.brief for each in shown[1]]) + ">"

    @property
    def none_safe(self) -> bool:
        """Whether plans fit, all of them at risk: the recommended one is safe where any is."""
        return bool(self.best) and self.best[0].verdict != Verdict.SAFE

    @property
    def counts(self) -> str:
        """How many plans were considered, legal and fitting."""
        return f"{self.considered:,} plans considered, {self.legal:,} legal, {self.fitting_words}"

    @property
    def fitting_words(self) -> str:
        """How many plans fit, and where none is safe that they are at risk."""
        return f"none fits safely, {self.fitting:,} at risk" if self.none_safe else f"{self.fitting:,} fit"

    @property
    def faster_at_risk(self) -> Estimate | None:
        """The best plan at risk, where the recommended one is safe and takes longer than its `rank_time_s` by
        `LEAST_GAIN` or more: it is so much faster that it would pay to find out whether it fits.
        """
        best, risky = self.best[0] if self.best else None, self.at_risk
        if not best or not risky or self.none_safe:
            return None
        return risky if rank_time_s(risky) <= (1 - LEAST_GAIN) * best.step_time_s else None
