"""Predictive: where the runs of a source lie that nobody has seen yet.

A model of random effects (Henderson 1975, doi:10.2307/2529430): ln(measured / predicted) of a run is the sum of what it
has in common with runs of its kind, of its runtime, of its accelerator and of its source, and of what is its own. Each
is normal around 0, but that of a source is Student's, as some sources are far off (Pinheiro, Liu and Wu 2001,
doi:10.1198/10618600152628059); what is in common varies in proportion to how like runs of one source spread.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import count
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from meshwright.arrays import Amount, FloatColumn, IntColumn
from meshwright.specs.residuals import EFFECTS, Cell, Likeness, Quantity, Residuals, order_error, residuals
from meshwright.specs.student import student

PARENT = 2
"""What all runs count for in the spread of a group, and a group in that of one of its runtimes or families, in sources;
assumed."""
OWN = ("group", "runtime")
"""The labels by which like runs of one source spread, from many to few."""
COMMON = {
    "kind": ("group",),
    "runtime": ("group", "family"),
    "accelerator": ("group",),
    "source": ("group", "family"),
}
"""Those by which what runs have in common varies, for each of `EFFECTS`: sources and runtimes of a family differ as its
runs spread; what a number format or an accelerator does is no matter of the family."""
TAILS = 4
"""Degrees of freedom of Student's distribution of sources; usual, not fitted (Lange, Little and Taylor 1989,
doi:10.1080/01621459.1989.10478852)."""

DIGITS = 12
"""To which a bias and a width are rounded: the last ones of a solution depend on how many threads solve."""

KEPT = 8
"""Residuals whose cells are kept ready: of both quantities, read either way, and of what leaves a source out."""

MEDIAN = NormalDist().inv_cdf(0.75)
"""What half of the draws of a normal distribution stay within, in standard deviations."""


NINE_OF_TEN = NormalDist().inv_cdf(0.9) / MEDIAN
"""By how many medians of their error two times must differ for nine of ten such pairs to be in that order."""


class Predictive(NamedTuple):
    """ln(measured / predicted) of a new source's runs."""

    bias: float
    """Its mean."""
    spread: float
    """Its standard deviation."""
    degrees: int
    """Of freedom, that the standard deviation rests on."""

    @property
    def eight_of_ten(self) -> tuple[float, float]:
        """The ratios of measured to predicted between which eight of ten runs lie, shares."""
        width = student(self.degrees) * self.spread
        return math.exp(self.bias - width), math.exp(self.bias + width)

    def widened(self, times: float) -> Predictive:
        """The same of runs whose errors are so many times as large."""
        return self._replace(bias=times * self.bias, spread=times * self.spread)


def predictive(quantity: Quantity, like: Likeness, measured_runs: int = 0, waiting: float = 0.0) -> Predictive:
    """From the published runs, for a question; measured_runs: a count of the user's own, which moved the prediction by
    `weight_of_runs`; waiting: as of `widening`.
    """
    return _of_computing(quantity, like, measured_runs).widened(widening(waiting, residuals(quantity).waiting))


@cache
def _of_computing(quantity: Quantity, like: Likeness, measured_runs: int) -> Predictive:
    known = residuals(quantity)
    return of_a_measured_source(like, known, measured_runs) if measured_runs else of_a_new_source(like, known)


def widening(waiting: Amount, scale: Amount) -> Amount:
    """How many times the errors of a step are those of one that only computes: sqrt(1 + (w / w0)^2).

    What exchanges, the host and a pipeline make a step wait for is less well known than kernels are, and sites differ
    in it: errors of the published runs grow with the share w of the step, as `make fit` finds w0. waiting: w;
    scale: w0. A variance that is a constant and a power of a covariate: Pinheiro and Bates 2000, Mixed-Effects Models
    in S and S-PLUS, section 5.2.

    >>> round(widening(0.25, 0.25), 2)
    1.41
    """
    share = waiting / scale
    wider: Amount = (1.0 + share * share) ** 0.5
    return wider


def of_an_unproven_kind(error: Predictive) -> Predictive:
    """The same for a plan of a kind that no published run has: spread' = sqrt(spread^2 + (d / 0.674)^2).

    d is how far the mean errors of two kinds of plans lie apart, the median over sources that `make fit` computes
    (`OrderError.plan_kinds`), and d / 0.674 the standard deviation of a normal difference with that median. That a new
    kind differs from known ones as these do from each other is assumed. error: of a plan of a known kind.
    """
    return error._replace(spread=math.hypot(error.spread, order_error().plan_kinds / MEDIAN))


@cache
def tie_share(like: Likeness, published: bool = True) -> float:
    """The share by which the step times of two plans of one job must differ to be told apart.

    published: whether runs of both kinds of plans were. Then it is m, the median error of their ratio, at which three
    of four such pairs run in that order. Else the errors of two kinds differ as well, by d, the median over sources
    that `make fit` computes, and nine of ten pairs must: 1.90 sqrt(m^2 + d^2), with 1.90 the ratio of the quantiles of
    a normal distribution. Nine of ten is a judgement: who runs a plan that nobody has run takes a risk. Of a model with
    experts, m is that of plans with experts that split the work differently. Source: `order_error`.
    """
    usual = _ratio_error(like)
    return usual if published else NINE_OF_TEN * math.hypot(usual, order_error().plan_kinds)


@cache
def layout_share(like: Likeness) -> float:
    """The share by which a plan must be predicted to be faster than one that is known to work to take its place: that
    of nine of ten pairs of plans, 1.90 m, m as of `tie_share`. Nine of ten is a judgement, as there.
    """
    return NINE_OF_TEN * _ratio_error(like)


def _ratio_error(like: Likeness) -> float:
    """The median error of the ratio of two plans' step times."""
    order = order_error()
    return order.experts if like.group == "experts" else order.median


@cache
def of_a_new_source(like: Likeness, known: Residuals) -> Predictive:
    """Where the runs of a further source lie.

    bias = k' V^-1 y and spread^2 = c + u + w^2 - k' V^-1 k + s^2 ((t_4 / t_d)^2 - 1), with y the means of the cells, V
    their covariance, k that of the question with them, c the variance of what the question has in common with others, u
    what is added where none has its runtime or accelerator (`Residuals.unseen`), w the spread of its runs, s that of
    sources, t_4 and t_d what nine of ten values of Student's distribution with 4 and with the degrees of freedom of w
    stay below. That these widths add up as squares is an approximation. Source: best linear unbiased prediction,
    Henderson 1975.
    """
    cells, question = known.cells, labelled([like], known.cells)
    shared = common_covariance(_cells(known), question, known)[:, 0]
    weights = np.linalg.solve(_covariance(known), shared)
    bias = float(weights @ np.array([cell.mean for cell in cells]))
    common = float(common_covariance(question, question, known)[0, 0] - weights @ shared)
    common += _unseen_variance(like, known)
    degrees = _degrees(like, known)
    tails = max(1.0, student(TAILS) / student(degrees)) ** 2 - 1
    common += tails * (known.between.source * spread(cells, like, COMMON["source"])) ** 2
    width = math.sqrt(common + spread(cells, like) ** 2)
    return Predictive(round(bias, DIGITS), round(width, DIGITS), degrees)


def _unseen_variance(like: Likeness, known: Residuals) -> float:
    """By how much more the effects of labels vary that no cell has."""
    unseen = [(name, size) for name, size in known.unseen if not known.sources_of_label(name, like)]
    more: list[float] = [
        (size**2 - getattr(known.between, name) ** 2) * spread(known.cells, like, COMMON[name]) ** 2
        for name, size in unseen
    ]
    return sum(more)


def weight_of_runs(like: Likeness, known: Residuals, runs: int) -> float:
    """How much a source's own runs count in the speed of its kernels, beside those of all other sources.

    k = v / (v + w^2 / n), with w the spread of runs of one source, v the variance of what they have in common and n
    their number: with few, most of how far they lie off is their own (best linear unbiased prediction, Henderson 1975).
    known: of step times; runs: n, a count. Returns a share. Source: the published runs.
    """
    own = spread(known.cells, like) ** 2
    common = max(0.0, of_a_new_source(like, known).spread ** 2 - own)
    return common / (common + own / runs)


def of_a_measured_source(like: Likeness, known: Residuals, runs: int) -> Predictive:
    """Where further runs of a source lie of which n are known and count by k, as of `weight_of_runs`.

    (1 - k) b and w sqrt(1 + k / n) around a prediction that they moved by k, with b the bias of a new source and w the
    spread of runs; runs: n.
    """
    new, weight = of_a_new_source(like, known), weight_of_runs(like, known, runs)
    width = spread(known.cells, like) * math.sqrt(1 + weight / runs)
    return Predictive(round((1 - weight) * new.bias, DIGITS), round(width, DIGITS), new.degrees)


def spread(cells: Sequence[Cell], like: Cell | Likeness | None = None, levels: Sequence[str] = OWN) -> float:
    """The standard deviation of like runs of one source: the mean over cells, so that a source with wild runs does not
    make all wide. A cell weighs the root of its degrees of freedom; a group has that of all runs beside its own, and
    each further level that of the one before. like: the labels of the runs, none: of all; levels: names of labels.
    """
    several = [cell for cell in cells if cell.runs > 1]
    mean = _weighted_mean(several, 0.0, 0)
    for level in levels if like else ():
        several = [cell for cell in several if getattr(cell, level) == getattr(like, level)]
        mean = _weighted_mean(several, mean, PARENT)
    return mean


def _spreads(cells: Sequence[Cell], labelled: Sequence[Cell | Likeness], levels: Sequence[str]) -> FloatColumn:
    """`spread` of the runs like each: shape (n,)."""
    labels = [tuple(getattr(each, level) for level in levels) for each in labelled]
    known = {label: spread(cells, each, levels) for label, each in dict(zip(labels, labelled, strict=True)).items()}
    return np.array([known[label] for label in labels])


def _weighted_mean(cells: Sequence[Cell], parent: float, weight: float) -> float:
    weights = [math.sqrt(cell.runs - 1) for cell in cells]
    total = sum(each * cell.spread for each, cell in zip(weights, cells, strict=True)) + weight * parent
    return total / (sum(weights) + weight) if cells or weight else 0.0


class Labelled(NamedTuple):
    """Cells or a question, with how like runs spread."""

    each: Sequence[Cell | Likeness]
    spreads: Mapping[tuple[str, ...], FloatColumn]
    """By the labels of `COMMON`; each of shape (n,)."""
    numbers: Mapping[str, IntColumn]
    """By the names of `EFFECTS`, a number for the label of each, the same where labels are equal; shape (n,)."""


def labelled(each: Sequence[Cell | Likeness], cells: Sequence[Cell]) -> Labelled:
    """Some of them; cells: whose runs tell how like ones spread."""
    spreads = {levels: _spreads(cells, each, levels) for levels in set(COMMON.values())}
    return Labelled(each, spreads, {name: _numbered(_label(one, name) for one in each) for name in EFFECTS})


@lru_cache(maxsize=KEPT)
def _cells(known: Residuals) -> Labelled:
    return labelled(known.cells, known.cells)


@lru_cache(maxsize=KEPT)
def _covariance(known: Residuals) -> FloatColumn:
    """Of the means of cells: shape (n, n)."""
    return common_covariance(_cells(known), _cells(known), known) + own_covariance(known.cells)


def common_effects(rows: Labelled, columns: Labelled, names: Sequence[str] = EFFECTS) -> FloatColumn:
    """For each label of `names`, the product of both spreads where two are equal, else 0, over the weight of the
    column's source: (len(names), n, m).
    """
    parts = []
    for name in names:
        equal = rows.numbers[name][:, None] == columns.numbers[name]
        parts.append(equal * np.outer(rows.spreads[COMMON[name]], columns.spreads[COMMON[name]]))
    parts[names.index("source")] /= [each.weight if isinstance(each, Cell) else 1.0 for each in columns.each]
    return np.array(parts)


_NUMBERS: dict[str, int] = {}
"""By label, each another, whichever threads ask: NumPy takes fifty times as long to compare texts."""
_UNUSED = count()


def _numbered(labels: Iterable[str]) -> IntColumn:
    return np.array([_NUMBERS.setdefault(label, next(_UNUSED)) for label in labels])


def _label(each: Cell | Likeness, name: str) -> str:
    """The source of a question is none of those that are known; the kinds of runs of one have no error in common."""
    if name == "source":
        return f"{each.source}: {each.kind}" if isinstance(each, Cell) else ""
    return str(getattr(each, name))


def common_covariance(rows: Labelled, columns: Labelled, known: Residuals) -> FloatColumn:
    """Covariance of what cells and questions have in common: shape (n, m)."""
    variances = np.array([getattr(known.between, name) ** 2 for name in EFFECTS])
    shared: FloatColumn = np.tensordot(variances, common_effects(rows, columns), axes=1)
    return shared


def own_covariance(cells: Sequence[Cell]) -> FloatColumn:
    """Covariance of what is a cell's own: w^2 / n of its runs, shape (n, n)."""
    return np.diag(_spreads(cells, cells, OWN) ** 2 / [cell.runs for cell in cells])


def _degrees(like: Likeness, known: Residuals) -> int:
    """One less than the sources of the group whose runs spread, and what its parent counts for: a single run says
    nothing of a spread.
    """
    spreading = {cell.source for cell in known.cells if cell.group == like.group and cell.runs > 1}
    return len(spreading) + PARENT - 1
