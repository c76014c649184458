"""Residuals: the fit finds how much effects vary, and intervals hold about eight of ten runs of a left-out source."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from meshwright.specs.predictive import widening
from meshwright.specs.residuals import EFFECTS, Likeness, residuals
from meshwright.validation.fit.residuals import (
    Residual,
    cells_of,
    coverage,
    coverage_by_others,
    interval,
    memory_residuals,
    residuals_of,
    step_time_residuals,
    waiting_scale,
)
from meshwright.validation.outcomes import outcomes_of
from meshwright.validation.rows.configurations import configurations
from meshwright.validation.rows.siblings import BY_WORDS
from meshwright.validation.rows.table import read_rows

DENSE = Likeness(group="dense", kind="dense", family="family", runtime="runtime", accelerator="accelerator")
WITHIN = 0.05


def run(source: str, log_ratio: float, runtime: str = "runtime") -> Residual:
    return Residual(source=source, like=DENSE._replace(runtime=runtime), log_ratio=log_ratio, judged="runs")


def drawn(between: float, seed: int) -> list[Residual]:
    """Twenty runs of each of sixteen sources with four runtimes, whose sources alone differ."""
    chance = np.random.default_rng(seed)
    effects = chance.normal(0, between, 16)
    return [
        run(f"source {index}", effect + own, runtime=f"runtime {index % 4}")
        for index, effect in enumerate(effects)
        for own in chance.normal(0, WITHIN, 20)
    ]


def test_the_fit_finds_how_much_sources_differ() -> None:
    found = [residuals_of(drawn(0.1, seed)) for seed in range(8)]
    explained = [sum(getattr(each.between, name) ** 2 for name in EFFECTS) ** 0.5 * WITHIN for each in found]
    assert np.mean(explained) == pytest.approx(0.1, rel=0.2)


@pytest.mark.parametrize("between", [0.0, 0.05, 0.1])
def test_intervals_hold_about_eight_of_ten_runs_of_a_source_that_is_left_out(between: float) -> None:
    """However much sources differ: an interval of the spread of runs alone would hold fewer the more they do."""
    held = [coverage_by_others(runs, runs)["runs"].mean_of_sources for runs in (drawn(between, s) for s in range(4))]
    assert np.mean(held) == pytest.approx(0.8, abs=0.05)


@pytest.mark.parametrize("scale", [0.2, 0.5])
def test_the_fit_finds_how_errors_grow_with_what_a_step_waits(scale: float) -> None:
    generator = np.random.default_rng(7)
    waits, errors = generator.uniform(0, 1, (60, 20)), generator.normal(0, 0.1, (60, 20))
    runs = [
        run(f"source {source}", error * np.hypot(1, wait / scale))._replace(waiting=float(wait))
        for source in range(60)
        for wait, error in zip(waits[source], errors[source], strict=True)
    ]
    assert waiting_scale(runs) == pytest.approx(scale, rel=0.2)
    known = residuals_of(runs)
    assert widening(0.0, known.waiting) == 1
    assert widening(0.8, known.waiting) > widening(0.4, known.waiting) > 1.2
    for waits_long in (False, True):
        held = [each for each in runs if (each.waiting > 0.5) == waits_long]
        assert coverage(held, lambda *_: known)["runs"].inside == pytest.approx(0.8, abs=0.05)


def test_errors_that_do_not_grow_widen_little() -> None:
    generator = np.random.default_rng(7)
    runs = [
        run(f"source {n % 60}", error)._replace(waiting=float(wait))
        for n, (error, wait) in enumerate(
            zip(generator.normal(0, 0.1, 1200), generator.uniform(0, 1, 1200), strict=True)
        )
    ]
    assert waiting_scale(runs) > 1.5
    assert waiting_scale([run("a", 0.1), run("b", 0.2)]) == 1


def test_runtimes_that_none_has_differ_even_where_those_that_some_have_are_not_seen_to() -> None:
    found = [residuals_of(drawn(0.05, seed), off_zero=True) for seed in range(4)]
    assert min(each.between.runtime for each in found) < 0.01
    assert all(0.1 < each.unseen.runtime > each.between.runtime for each in found)
    same = residuals_of(drawn(0.05, 0))
    assert same.unseen.runtime == same.between.runtime


def test_a_source_counts_once_in_the_mean_however_many_runs_it_has() -> None:
    inside, outside = [run("few", 0.0)] * 2, [run("many", 9.0)] * 8
    known = residuals_of(drawn(0.1, 0))
    (counted,) = coverage(inside + outside, lambda *_: known).values()
    assert counted == pytest.approx((10, 0.2, 2, 0.5, 0.5))


def test_a_cell_is_the_like_runs_of_one_source() -> None:
    runs = [run(source, log) for source, log in product("ab", (0.0, 0.1))]
    one, other = cells_of([*runs, run("b", 0.2)])
    assert (one.source, one.runs, one.mean) == ("a", 2, 0.05)
    assert (other.runs, other.mean, other.spread) == (3, 0.1, 0.1)


def test_runs_of_a_framework_that_another_stands_for_are_no_runs_of_that_one() -> None:
    rows = [row for row in read_rows() if row["dataset"] == "galvatron"][:2]
    found = memory_residuals(outcomes_of(configurations(rows)))
    assert {(each.like.runtime, each.like.family) for each in found} == {("galvatron", "galvatron")}


def test_the_catalogue_has_a_cell_for_every_source_of_sound_step_times() -> None:
    rows = read_rows()
    first = {row["dataset"]: row for row in rows if row["quality"] == "ok" and row["step_time_s"]}
    shown = step_time_residuals(outcomes_of(configurations(list(first.values()))))
    assert {each.source for each in shown} <= {cell.source for cell in residuals("step_time").cells}


def test_runs_that_were_read_by_their_words_are_held_against_others_that_were() -> None:
    """Whose predictions are further off: an interval of the others would not hold them."""
    narrow = drawn(0.05, 0)
    wide = [run._replace(log_ratio=9 * run.log_ratio, by_words=True) for run in narrow]
    alike, apart = (coverage_by_others(wide, others)["runs"] for others in ([*narrow, *wide], wide))
    assert alike == apart
    assert alike.mean_of_sources == pytest.approx(0.8, abs=0.1)
    assert coverage(wide, lambda *_: residuals_of(narrow))["runs"].mean_of_sources < 0.3


def test_a_row_of_which_only_words_are_known_has_a_wider_interval() -> None:
    known = next(row for row in read_rows() if row["dataset"] == "bridge" and row["moe_experts"] and row["step_time_s"])
    widths = []
    for by in ("", BY_WORDS):
        (outcome,) = outcomes_of(configurations([known | {"known_by": by}]))
        low, high = interval("step_time", outcome) or (0.0, 0.0)
        assert low < high
        widths.append(high / low)
    assert widths[1] > widths[0]
