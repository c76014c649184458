"""Predictive intervals: wide where little is known, Student's in width, drawn towards what is alike."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from meshwright.specs import predictive
from meshwright.specs.predictive import Predictive, of_a_measured_source, of_a_new_source, spread
from meshwright.specs.residuals import Between, Cell, Likeness, OrderError, Residuals, Unseen
from meshwright.specs.student import STUDENT

SIZES = Between(kind=0.3, runtime=0.8, accelerator=0.5, source=0.5)
ALIKE = Between(kind=0, runtime=0, accelerator=0, source=0.5)


def cell(source: str, runtime: str = "a", mean: float = 0.0, group: str = "dense", spread: float = 0.1) -> Cell:
    return Cell(
        source=source,
        group=group,
        kind=group,
        family="f",
        runtime=runtime,
        accelerator="x",
        runs=10,
        mean=mean,
        spread=spread,
    )


def known_of(cells: Sequence[Cell], between: Between = SIZES, runtime: float = 0, accelerator: float = 0) -> Residuals:
    """Runtimes and accelerators without a cell differ as others do, or by more."""
    sizes = (max(between.runtime, runtime), max(between.accelerator, accelerator))
    return Residuals(cells=tuple(cells), between=between, unseen=Unseen(runtime=sizes[0], accelerator=sizes[1]))


def asked(runtime: str = "a", accelerator: str = "x", group: str = "dense") -> Likeness:
    return Likeness(group=group, kind=group, family="f", runtime=runtime, accelerator=accelerator)


def test_the_widths_are_students() -> None:
    """Up to each value lie nine of ten of its distribution: half, and the integral of its density from 0."""
    for degrees, value in enumerate(STUDENT, start=1):
        scale = math.gamma((degrees + 1) / 2) / math.gamma(degrees / 2) / math.sqrt(degrees * math.pi)
        at = np.linspace(0, value, 10_001)
        density = scale * (1 + at**2 / degrees) ** (-(degrees + 1) / 2)
        assert 0.5 + np.trapezoid(density, at) == pytest.approx(0.9, abs=1e-4)
    low, high = Predictive(0.1, 0.2, 3).eight_of_ten
    assert math.log(high) - 0.1 == pytest.approx(1.638 * 0.2) == pytest.approx(0.1 - math.log(low))


def test_one_cell_and_one_effect_are_the_textbook_shrinkage() -> None:
    """A cell of n runs of another source with the runtime alone in common: bias = t y / (t + s + w / n)."""
    sizes = Between(kind=0, runtime=1, accelerator=0, source=1)
    known = known_of([cell("one", mean=0.2)], sizes)
    found = of_a_new_source(asked(), known)
    variance = 0.01
    assert found.bias == pytest.approx(0.2 * variance / (2 * variance + variance / 10))
    expected = 3 * variance - variance**2 / (2 * variance + variance / 10)
    assert found.spread**2 == pytest.approx(expected)


def test_what_no_source_has_is_wider() -> None:
    known = known_of([cell(name, mean=0.1) for name in "pqrs"])
    seen, runtime, both = (
        of_a_new_source(each, known) for each in (asked(), asked(runtime="b"), asked(runtime="b", accelerator="y"))
    )
    assert seen.spread < runtime.spread < both.spread
    assert seen.bias > runtime.bias > both.bias > 0


def test_what_no_source_has_is_wider_even_where_those_of_others_do_not_differ() -> None:
    """By 0.3 and 0.4 of a spread of 10 %."""
    alike = known_of([cell("p"), cell("q")], ALIKE)
    wider = known_of(alike.cells, ALIKE, accelerator=0.3, runtime=0.4)
    assert of_a_new_source(asked(), wider) == of_a_new_source(asked(), alike)
    for labels, more in ((asked(accelerator="y"), 0.03), (asked(runtime="b"), 0.04), (asked("b", "y"), 0.05)):
        before, after = (of_a_new_source(labels, each).spread for each in (alike, wider))
        assert after == pytest.approx(math.hypot(before, more))


def test_a_measured_source_is_narrower_and_the_more_so_the_more_runs_it_has() -> None:
    known = known_of([cell(name) for name in "pqrs"])
    widths = [of_a_measured_source(asked(), known, runs).spread for runs in (1, 2, 100)]
    assert of_a_new_source(asked(), known).spread > widths[0] > widths[1] > widths[2] > 0.1
    assert widths[2] == pytest.approx(0.1 * math.sqrt(1 + 1 / 100), rel=1e-3)


def test_runs_of_a_source_count_the_more_the_more_it_may_differ_and_the_more_there_are() -> None:
    """v / (v + w^2 / n) of what they say, and the rest of what a new source's would be."""
    known = known_of([cell(name, mean=0.2) for name in "pqrs"])
    new, own = of_a_new_source(asked(), known), 0.1
    for runs in (1, 2, 100):
        common = new.spread**2 - own**2
        weight = common / (common + own**2 / runs)
        measured = of_a_measured_source(asked(), known, runs)
        assert measured.bias == pytest.approx((1 - weight) * new.bias)
        assert measured.spread == pytest.approx(own * math.sqrt(1 + weight / runs))
        assert measured.degrees == new.degrees
    unseen = known_of(known.cells, accelerator=0.3)
    left = [
        of_a_measured_source(labels, unseen, 1).bias / of_a_new_source(labels, unseen).bias
        for labels in (asked(), asked(accelerator="y"))
    ]
    assert 0 < left[1] < left[0] < 1


def test_the_spread_of_a_group_with_few_runs_is_drawn_towards_that_of_all() -> None:
    cells = [cell(name, spread=0.1) for name in "pqrs"] + [cell("t", group="experts", spread=0.3)]
    dense, experts, unseen = (
        spread(cells, asked(runtime, group=group))
        for runtime, group in (("unseen", "dense"), ("a", "experts"), ("unseen", "experts"))
    )
    assert dense < spread(cells) < unseen < experts < 0.3


def test_single_runs_add_no_degrees_of_freedom() -> None:
    """They say nothing of a spread: two sources with several runs, and two for the parent, less one."""
    cells = [cell("p"), cell("q"), cell("p", runtime="b")]
    alone = [cell(name, spread=0.0)._replace(runs=1) for name in "rst"]
    for known in (cells, cells + alone):
        assert of_a_new_source(asked(), known_of(known)).degrees == 3
    assert of_a_new_source(asked(group="new"), known_of(cells)).degrees == 1


def test_sources_of_a_family_whose_runs_spread_less_differ_less() -> None:
    """But what an accelerator does is no matter of the family."""
    tight, wild = (cell(name, name, spread=width)._replace(family=name) for name, width in (("p", 0.02), ("q", 0.2)))
    known = known_of([tight, wild], SIZES.replace(kind=0, accelerator=0))
    narrow, usual, wide = (
        of_a_new_source(asked(runtime="new")._replace(family=family), known).spread for family in ("p", "new", "q")
    )
    assert narrow < usual < wide
    alike = known_of([tight, wild], Between(kind=0, runtime=0, accelerator=1, source=0))
    same = {of_a_new_source(asked(runtime="new")._replace(family=family), alike).spread for family in "pq"}
    assert len(same) == 1


def test_errors_of_pairs_and_of_kinds_of_plans_add_as_independent_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """3, 4 and 5 %; 7.5, 4 and 8.5 % with experts."""
    order = OrderError(median=0.03, experts=0.075, plan_kinds=0.04, pairs=1, sources=1)
    for name in ("tie_share", "layout_share"):
        monkeypatch.setattr(predictive, name, getattr(predictive, name).__wrapped__)
    monkeypatch.setattr(predictive, "order_error", lambda: order)
    shares = [predictive.tie_share(asked(group=group), published=False) for group in ("dense", "experts")]
    assert shares == pytest.approx([1.9 * 0.05, 1.9 * 0.085], rel=1e-3)
    assert predictive.tie_share(asked()) == 0.03


def test_the_errors_of_a_run_and_of_its_kind_of_plan_add_as_independent_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """0.6745 is the median of a normal deviation: 3, 4 and 5 %."""
    order = OrderError(median=0.03, experts=0.075, plan_kinds=0.04 * 0.67449, pairs=1, sources=1)
    monkeypatch.setattr(predictive, "order_error", lambda: order)
    assert predictive.of_an_unproven_kind(Predictive(0.1, 0.03, 5)) == pytest.approx((0.1, 0.05, 5), rel=1e-5)
