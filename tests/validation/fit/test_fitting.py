"""The fit finds constants that runs were made with, and what is left out never helps itself."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.specs.fitted import fitted_constants, slowdown, slowdowns
from meshwright.validation.fit.curves import (
    KERNELS,
    Curve,
    curves_of,
    file_constants,
    names_of,
    priced_s,
    times_of,
)
from meshwright.validation.fit.fitting import fitted
from meshwright.validation.fit.residuals import Residual, by_kind, covered, covered_by_others
from meshwright.validation.rows.configurations import configurations
from meshwright.validation.rows.table import read_rows
from meshwright.validation.score.outcomes import outcomes_of


def curve(source: str, names: tuple[str, ...], measured_s: float) -> Curve:
    """Nine seconds of kernels alone and one of everything else."""
    return Curve(source, names, measured_s, np.array([9 * KERNELS + 1]), np.array([1.0]))


def test_the_fit_finds_the_constant_that_runs_were_made_with() -> None:
    times = 1.25
    runs = [curve("a", ("ampere",), 9 * times + 1) for _ in range(3)]
    assert fitted(runs)["ampere"] == pytest.approx(times, abs=0.006)


def test_a_constant_that_no_run_follows_stays_and_one_that_is_left_out_is_1() -> None:
    constants = fitted([curve("a", ("ampere",), 10.0)], without="ampere")
    assert constants["ampere"] == 1
    assert constants["hopper"] == file_constants()["hopper"]


def test_a_large_source_does_not_outweigh_all_others() -> None:
    """Nine runs of one source weigh three, as much as three of one run each."""
    fast, slow = (9 * times + 1 for times in (1.0, 1.3))
    runs = [curve("large", ("ampere",), fast)] * 9
    runs += [curve(source, ("ampere",), slow) for source in ("b", "c", "d", "e")]
    assert fitted(runs)["ampere"] == pytest.approx(1.3, abs=0.006)


def test_what_a_curve_says_is_what_the_planner_prices() -> None:
    """At the file's constants, for runs of every framework."""
    outcomes = outcomes_of(configurations(read_rows()[::90]))
    timed = [each for each in outcomes if each.step_time and each.sound]
    for each, priced in zip(timed, curves_of(timed), strict=True):
        kernels, attention = (np.array([share]) for share in times_of(priced.names, file_constants()))
        assert each.step_time
        error = np.log(each.step_time.predicted / each.step_time.measured)
        assert priced.log_errors(kernels, attention)[0] == pytest.approx(error, abs=0.005)


def test_every_constant_reaches_the_kernels_that_it_names() -> None:
    named = {name for constant in fitted_constants().values() for names in constant.kernels.values() for name in names}
    assert {name for kernels in named for name in slowdowns(kernels, "half", "torchtitan")} <= set(fitted_constants())
    assert slowdown("h100", "half", "torchtitan") == pytest.approx(
        fitted_constants()["hopper"].value * fitted_constants()["torchtitan"].value
    )
    assert times_of(("hopper", "torchtitan"), {"hopper": 1.5, "torchtitan": 2.0}) == (3.0, 1.0)


def test_intervals_hold_about_eight_of_ten_runs_of_their_own_kind() -> None:
    spread = np.random.default_rng(7).lognormal(0, 0.1, 400)
    runs = [Residual(f"source {index % 4}", "kind", float(ratio)) for index, ratio in enumerate(spread)]
    assert covered(runs, by_kind(runs)).inside == pytest.approx(0.8, abs=0.02)
    assert covered_by_others(runs, runs).inside == pytest.approx(0.8, abs=0.04)


def test_under_the_constants_of_the_file_a_run_takes_what_is_predicted_for_it_on_its_own_site() -> None:
    rows = [row for row in read_rows() if "power-limited" in row["notes"] or row["dataset"] == "sc21-t1"]
    outcomes = [each for each in outcomes_of(configurations(rows)) if each.case and each.step_time]
    assert {each.case.inputs.cluster.site_derate > 1 for each in outcomes if each.case} == {True, False}
    for each in outcomes:
        assert each.case is not None
        assert each.step_time is not None
        priced = priced_s(each.case, *times_of(names_of(each.case), file_constants()))
        assert priced == pytest.approx(each.step_time.predicted, rel=1e-9)
