"""The fit finds constants that runs were made with, and what is left out never helps itself."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.cost.compute.slowdown import slowdown, slowest_of_cluster
from meshwright.specs import catalog
from meshwright.specs.fitted import fitted_constants, fitted_values
from meshwright.specs.inputs import Inputs
from meshwright.specs.reading.accelerator import read_kernels
from meshwright.specs.runtime import read_runtime
from meshwright.validation.fit.curves import TIMES, Curve, Refitted, curves_of, follows_of, step_time_under
from meshwright.validation.fit.fitting import fit_constants
from meshwright.validation.outcomes import outcomes_of
from meshwright.validation.rows.configurations import configurations
from meshwright.validation.rows.settings import stand_ins
from meshwright.validation.rows.table import read_rows


def curve(source: str, names: tuple[str, ...], measured_s: float) -> Curve:
    """Nine seconds of kernels alone and one of everything else."""
    return Curve(source, (names,), measured_s, 9 * TIMES + 1)


def test_the_fit_finds_the_constant_that_runs_were_made_with() -> None:
    times = 1.25
    runs = [curve("a", ("ampere",), 9 * times + 1) for _ in range(3)]
    assert fit_constants(runs)["ampere"] == pytest.approx(times, abs=0.006)


def test_a_constant_that_no_run_follows_stays_and_one_that_is_left_out_is_1() -> None:
    constants = fit_constants([curve("a", ("ampere",), 10.0)], without="ampere")
    assert constants["ampere"] == 1
    assert constants["hopper"] == fitted_values()["hopper"]


def test_a_large_source_does_not_outweigh_all_others() -> None:
    """Nine runs of one source weigh three, as much as three of one run each."""
    fast, slow = (9 * times + 1 for times in (1.0, 1.3))
    runs = [curve("large", ("ampere",), fast)] * 9
    runs += [curve(source, ("ampere",), slow) for source in ("b", "c", "d", "e")]
    assert fit_constants(runs)["ampere"] == pytest.approx(1.3, abs=0.006)


def test_what_a_curve_says_is_what_the_planner_prices() -> None:
    """At the file's constants, for runs of every framework that the catalogue has."""
    outcomes = outcomes_of(configurations(read_rows()[::90]))
    known = [each for each in outcomes if each.framework not in stand_ins()]
    curves = [(each, curve) for each in known for curve in curves_of([each])]
    assert len(curves) > 10
    for each, priced in curves:
        assert each.step_time
        error = np.log(each.step_time.predicted / each.step_time.measured)
        assert priced.log_errors(priced.times_of(fitted_values())).item() == pytest.approx(error, abs=0.005)


def test_constants_rest_on_no_run_of_one_accelerator() -> None:
    """Those judge whether constants that rest on clusters hold elsewhere."""
    alone = [row for row in read_rows() if row["num_gpus"] == "1" and row["quality"] == "ok"]
    assert {"one-h100-hf", "one-h100-titan"} <= {row["dataset"] for row in alone}
    assert curves_of(outcomes_of(configurations(alone))) == []


def test_every_constant_reaches_the_kernels_that_it_names() -> None:
    kernels = {read_kernels(each).slowdown for each in catalog.names("kernels")}
    runtimes = {read_runtime(each).kernels.kernel_constant for each in catalog.names("runtimes")}
    assert kernels | runtimes <= {*fitted_constants(), ""}
    row = next(row for row in read_rows() if row["runtime"].startswith("torchtitan") and "H100" in row["gpu"])
    (case,) = (each.case for each in outcomes_of(configurations([row])))
    assert case
    values = fitted_values()
    slowest = slowest_of_cluster(case.inputs)
    assert slowdown(case.inputs) == pytest.approx(values["hopper"] * values["torchtitan"] * slowest)
    given = {name: getattr(case.inputs, name) for name in Inputs.model_fields}
    assert slowdown(Refitted(**given, values=values | {"hopper": 1.5, "torchtitan": 2.0})) == pytest.approx(3 * slowest)


def test_a_curve_follows_groups_of_constants_each_on_its_own() -> None:
    follows = (("torchtitan",), ("hopper",), ("blackwell",))
    every, own, stays = np.meshgrid(TIMES, TIMES, TIMES, indexing="ij")
    curve = Curve("a", follows, 1.0, every * (3 * own + 2 * stays) + 1)
    constants = {"torchtitan": 1.07, "hopper": 1.25, "blackwell": 1.5}
    assert np.exp(curve.log_errors(curve.times_of(constants))).item() == pytest.approx(1.07 * (3.75 + 3) + 1)


def test_a_run_that_follows_no_constant_takes_what_it_takes() -> None:
    curve = Curve("a", (), 2.0, np.array(3.0))
    assert curve.log_errors(curve.times_of({})).item() == pytest.approx(np.log(1.5))


def test_a_run_follows_the_constants_of_its_accelerator_and_runtime_and_of_older_attention() -> None:
    rows = [row for row in read_rows() if row["id"] in ("torchtitan-046", "NEMO2407-001")]
    nemo, titan = [each.case for each in outcomes_of(configurations(rows)) if each.case]
    assert follows_of(titan.inputs) == (("blackwell", "torchtitan"),)
    assert follows_of(nemo.inputs) == (("hopper",), ("older_hopper_attention",))


def test_no_constant_rests_on_kernels_of_experts_that_are_not_measured_as_well_as_others() -> None:
    """On Blackwell runs with experts are kept to judge by, as their products were measured on single B200 alone."""
    rows = [row for row in read_rows() if row["dataset"] in ("bridge", "bridge-cards")]
    outcomes = [each for each in outcomes_of(configurations(rows)) if each.is_moe and each.case and each.sound]
    chips = {each.case.inputs.cluster.accelerator for each in outcomes if each.case and curves_of([each])}
    assert {"hopper"} == {chip.kernels.slowdown for chip in chips}
    assert any(each.case.inputs.cluster.accelerator.kernels.slowdown == "blackwell" for each in outcomes if each.case)


def test_under_the_constants_of_the_file_a_run_takes_what_is_predicted_for_it_on_its_own_site() -> None:
    rows = [row for row in read_rows() if row["power_limit_w"] or row["dataset"] == "sc21-t1"]
    outcomes = [each for each in outcomes_of(configurations(rows)) if each.case and each.step_time]
    assert {each.case.inputs.cluster.power_limit_w is None for each in outcomes if each.case} == {True, False}
    for each in outcomes:
        assert each.case is not None
        assert each.step_time is not None
        priced = step_time_under(each.case.plan, each.case.inputs, fitted_values())
        assert priced == pytest.approx(each.step_time.predicted, rel=1e-9)
