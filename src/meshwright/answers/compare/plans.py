"""Named plans side by side: what each costs, which rules it breaks, and which is better."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from meshwright.answers.compare.dropped import side_words
from meshwright.answers.compare.named import Named
from meshwright.answers.compare.premises import Contradiction, plan_premise
from meshwright.answers.compare.training import Training, training_of
from meshwright.answers.plans.ties import reasons
from meshwright.answers.step_parts import from_peak, why_lost
from meshwright.cost.estimate import Estimate
from meshwright.cost.step import estimate_each
from meshwright.errors import Fault, IllegalPlan
from meshwright.layout.legality import priced_anyway, require_legal
from meshwright.search.find import Progress
from meshwright.search.many_searches.best_of import best_of
from meshwright.search.ranking.rank import rank_time_s
from meshwright.specs.inputs import Inputs
from meshwright.units import format_gib


@dataclass(frozen=True)
class Column:
    """One plan."""

    named: Named
    broken: tuple[Fault, ...]
    """The rules of the runtime that it breaks."""
    estimate: Estimate | None
    """None where it breaks a rule that its price rests on."""
    parts: dict[str, float]
    """Seconds of every part of its step, from the peak on, which add up to it; none where it has no price."""
    contradiction: Contradiction | None
    training: Training | None

    @property
    def label(self) -> str:
        """What its column is called."""
        return self.named.label


@dataclass(frozen=True)
class PlanComparison:
    """Plans side by side, in the order named."""

    inputs: Inputs
    columns: tuple[Column, ...]
    best: Column | None
    """The best legal one, as `best_of` chooses; None where all break rules."""
    recommended: Estimate | None
    """What a search of the question recommends, where it was asked since plans are close to the best."""
    sentences: tuple[str, ...]
    """Which is better, for each of the others mainly why, and which drop tokens that others compute."""

    @property
    def reference(self) -> Column:
        """The first plan that has a price, which the others are compared with; the first where none has."""
        return next((column for column in self.columns if column.estimate), self.columns[0])

    @property
    def others(self) -> tuple[Column, ...]:
        """All but the reference."""
        return tuple(column for column in self.columns if column is not self.reference)


def compare_plans(named: Sequence[Named], inputs: Inputs, progress: Progress | None = None) -> PlanComparison:
    """Price every named plan for its own question as the planner does, legal or, where its price holds all the same,
    not.

    inputs: the question that they share; progress: as `find` tells it.
    """
    columns = tuple(map(_column, named))
    legal = [(column, column.estimate) for column in columns if column.estimate and not column.broken]
    if not legal:
        return PlanComparison(inputs, columns, None, None, (_all_illegal(columns),))
    chosen = best_of([estimate for _, estimate in legal], [column.named.inputs for column, _ in legal], progress)
    best, estimate = legal[chosen.row]
    tied = [legal[row] for row in chosen.tied]
    dropped = side_words({column.label: column.named.inputs for column, _ in legal})
    sentences = *_losses(columns, best, estimate), *_ties(best, estimate, tied, chosen.recommended)
    sentences += (dropped,) if dropped else ()
    return PlanComparison(inputs, columns, best, chosen.recommended, sentences)


def _column(named: Named) -> Column:
    inputs = named.inputs
    broken = _broken(named, inputs)
    if not all(map(priced_anyway, broken)):
        return Column(named, broken, None, {}, None, None)
    estimate = estimate_each([named.plan], inputs)[0]
    parts, contradiction = from_peak(estimate, inputs), plan_premise(estimate, inputs)
    return Column(named, broken, estimate, parts, contradiction, training_of(estimate, inputs))


def _broken(named: Named, inputs: Inputs) -> tuple[Fault, ...]:
    """What the runtime refuses a plan for."""
    try:
        require_legal(named.plan, inputs)
    except IllegalPlan as refusal:
        return refusal.faults
    return ()


def _all_illegal(columns: Sequence[Column]) -> str:
    runtimes = " or ".join(dict.fromkeys(column.named.inputs.runtime.id for column in columns))
    return f"None of these plans is legal for {runtimes}; meshwright check shows every rule."


def _losses(columns: Sequence[Column], best: Column, estimate: Estimate) -> Iterator[str]:
    """Which is best, and what each of the others loses to it."""
    if estimate.verdict.fits:
        yield f"{best.label} is {'better' if len(columns) == 2 else 'the best'}:"
    else:
        visible = format_gib(estimate.fit.visible_bytes)
        yield f"No legal plan fits in {visible}; {best.label} comes closest:"
    yield from (f"{each.label} {_loss(each, estimate)}." for each in columns if each is not best)


def _ties(
    best: Column, estimate: Estimate, tied: Sequence[tuple[Column, Estimate]], recommended: Estimate | None
) -> Iterator[str]:
    """What cannot be told apart from the best, why it comes before faster ones, and what a search recommends."""
    for each, other in tied:
        faster = rank_time_s(other) < rank_time_s(estimate)
        why = reasons(estimate, other, best.named.inputs) if faster else "is predicted to be faster"
        yield f"{best.label} and {each.label} are closer than predictions can tell; {best.label} {why}."
    if recommended and recommended.plan == estimate.plan:
        yield f"meshwright plan recommends {best.label}."
    elif recommended:
        yield f"meshwright plan recommends another plan, {recommended.plan}: {why_lost(recommended, estimate)}."


def _loss(column: Column, best: Estimate) -> str:
    """Why a plan is not the best: the rules that it breaks, or what it loses."""
    lost = f"is {why_lost(column.estimate, best)}" if column.estimate else ""
    if not column.broken:
        return lost
    rules = ", ".join(fault.where for fault in column.broken)
    return f"is not legal ({rules})" + (f"; if it were, it {lost}" if lost else "")
