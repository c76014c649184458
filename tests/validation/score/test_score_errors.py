"""Errors: by hand, and the order that their figures always have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.validation.score.errors import errors_of, mean_of_datasets, memory, memory_of, step_time
from tables import outcome

FIGURES = st.floats(1e-6, 1e6)


def test_errors_agree_with_those_by_hand() -> None:
    """5 % and 30 % too long, 20 % too short, exact; what was not measured does not count."""
    pairs = [(100.0, 105.0), (10.0, 13.0), (10.0, 8.0), (4.0, 4.0), None]
    errors = errors_of([outcome(pair) for pair in pairs], step_time)
    assert errors
    assert errors._asdict() == pytest.approx(
        {
            "n": 4,
            "mape": 0.1375,
            "median_ape": 0.125,
            "bias": 0.0375,
            "p90": 0.2 + 0.7 * 0.1,
            "within_10": 0.5,
            "within_20": 0.75,
        }
    )


@pytest.mark.parametrize("predicted", [0.9, 1.1])
def test_a_prediction_just_10_percent_off_is_within_10_percent(predicted: float) -> None:
    errors = errors_of([outcome((1.0, predicted))], step_time)
    assert errors
    assert (errors.n, errors.within_10) == (1, 1)


def test_nothing_measured_has_no_errors() -> None:
    assert errors_of([outcome()], step_time) is None
    assert mean_of_datasets([outcome()], memory) is None


@given(st.lists(st.tuples(FIGURES, FIGURES), min_size=1, max_size=30))
def test_figures_of_errors_keep_their_order(pairs: list[tuple[float, float]]) -> None:
    errors = errors_of([outcome(memory=pair) for pair in pairs], memory)
    assert errors
    assert errors.mape >= abs(errors.bias) * (1 - 1e-9) - 1e-9
    assert 0 <= errors.within_10 <= errors.within_20 <= 1
    assert errors.p90 >= errors.median_ape >= 0
    assert errors.n == len(pairs)


def test_each_dataset_weighs_the_same() -> None:
    """Three runs 10 % off and one 50 % off."""
    outcomes = [*(outcome((10.0, 11.0), dataset="many") for _ in range(3)), outcome((10.0, 5.0), dataset="few")]
    assert mean_of_datasets(outcomes, step_time) == pytest.approx(0.3)


def test_memory_of_one_kind_leaves_out_the_others() -> None:
    outcomes = [outcome(memory=(10.0, 11.0), memory_kind="reserved"), outcome(memory=(10.0, 20.0))]
    errors = errors_of(outcomes, memory_of("reserved"))
    assert errors
    assert errors.n == 1
    assert errors.mape == pytest.approx(0.1)
