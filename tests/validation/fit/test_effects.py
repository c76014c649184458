"""Effects: a source that is far off counts for less, and others are not made wide by it."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.specs.predictive import TAILS, of_a_new_source
from meshwright.specs.residuals import Likeness
from meshwright.validation.fit.effects import effects
from meshwright.validation.fit.residuals import Residual, cells_of, residuals_of

LIKE = Likeness(group="dense", kind="dense", family="family", runtime="runtime", accelerator="accelerator")
WITHIN = 0.05


def runs(effect: dict[str, float]) -> list[Residual]:
    """Ten runs of each source, around its effect."""
    chance = np.random.default_rng(0)
    return [
        Residual(source, LIKE, middle + own, "runs")
        for source, middle in effect.items()
        for own in chance.normal(0, WITHIN, 10)
    ]


def usual(count: int = 12) -> dict[str, float]:
    chance = np.random.default_rng(1)
    return {f"source {index:02}": middle for index, middle in enumerate(chance.normal(0, WITHIN, count))}


def test_a_source_far_off_counts_for_less_than_any_other() -> None:
    cells = cells_of(runs({**usual(), "stray": 1.0}))
    weights = dict(zip((cell.source for cell in cells), effects(cells).weights, strict=True))
    assert weights.pop("stray") < 0.1 < 0.5 < min(weights.values())
    assert max(weights.values()) < (TAILS + 1) / TAILS


def test_how_far_off_one_source_is_hardly_widens_the_interval_of_a_new_one() -> None:
    """Were every source normal, a stray one ten times as far off would make it several times as wide."""
    near, far = (of_a_new_source(LIKE, residuals_of(runs({**usual(), "stray": at}))).spread for at in (0.5, 5.0))
    without = of_a_new_source(LIKE, residuals_of(runs(usual()))).spread
    assert without < near
    assert far == pytest.approx(near, rel=0.1)
    assert far < 2 * without


def test_kinds_of_runs_of_one_source_are_weighed_apart() -> None:
    stray = [each._replace(like=LIKE._replace(kind="other")) for each in runs({"source 00": 1.0})]
    known = residuals_of([*runs(usual()), *stray])
    first, other = (cell for cell in known.cells if cell.source == "source 00")
    assert (first.kind, other.kind) == ("dense", "other")
    assert other.weight < 0.1 < first.weight


def test_what_cells_weigh_already_changes_nothing() -> None:
    cells = cells_of(runs(usual()))
    assert effects([cell._replace(weight=0.1) for cell in cells]) == effects(cells)


def test_rows_read_badly_do_not_move_the_interval_of_their_runtime() -> None:
    """Where words alone tell what a framework did, errors are those of sources, though all of a runtime are far off."""
    rare = LIKE._replace(runtime="rare")
    stray = [each._replace(like=rare) for each in runs({f"stray {index}": 1.0 for index in range(3)})]
    told = [*runs(usual()), *stray]
    worded = [each._replace(by_words=True) for each in told]
    assert of_a_new_source(rare, residuals_of(told)).eight_of_ten[0] > 2
    low, high = of_a_new_source(rare, residuals_of(worded)).eight_of_ten
    assert low < 1 < high < np.exp(0.5)
