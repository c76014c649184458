"""Configurations: what was measured again counts once, and no row is lost in another."""

from __future__ import annotations

import pytest

from meshwright.validation.outcomes import outcomes_of
from meshwright.validation.rows.configurations import Configuration, configurations
from meshwright.validation.rows.table import Row
from meshwright.validation.score.score import score_of
from tables import llama, shipped


def _again(**changes: str) -> Row:
    return llama(config_key="same", **changes)


def _sizes(*rows: Row) -> list[int]:
    return [len(each.rows) for each in configurations(rows)]


def test_what_was_measured_again_is_scored_once_by_its_median() -> None:
    rows = [
        _again(id=str(step), step_time_s=str(step), notes=f"try {step}", precision_detail=str(step))
        for step in (3, 2, 7)
    ]
    (outcome,) = outcomes_of(configurations(rows))
    assert outcome.step_time
    assert outcome.step_time.measured == 3
    score = score_of([outcome])
    assert (score.rows, score.represented) == (3, 3)
    assert score.step_time
    assert score.step_time.n == 1


def test_rows_of_one_key_that_ran_otherwise_stand_apart() -> None:
    assert _sizes(_again(), _again(seq_len="8192"), _again(dataset="other"), _again(fits="no")) == [1, 1, 1, 1]


def test_settings_that_change_nothing_set_no_rows_apart() -> None:
    assert _sizes(_again(), _again(settings="packed-sequences")) == [2]
    assert _sizes(_again(), _again(settings="expert-overlap"), _again(**{"with": "moment_bytes=2"})) == [1, 1, 1]


def test_releases_that_behave_alike_set_no_rows_apart() -> None:
    alike, other = (_again(runtime=f"megatron-core@nemo-{release}") for release in ("24.11", "25.04"))
    assert _sizes(alike, _again(runtime="megatron-core@nemo-25.02"), other) == [2, 1]


def test_releases_that_exchange_tokens_otherwise_set_rows_with_experts_alone_apart() -> None:
    releases = [f"megatron-bridge@{release}" for release in ("26.02", "26.04")]
    assert _sizes(*(_again(runtime=each) for each in releases)) == [2]
    assert _sizes(*(_again(runtime=each, moe_experts="8") for each in releases)) == [1, 1]


def test_rows_without_a_key_stand_apart_even_under_one_id() -> None:
    assert _sizes(llama(), llama()) == [1, 1]


def test_releases_that_treat_narrow_moments_otherwise_are_one_for_a_run_without_them() -> None:
    """NeMo 26.02's optimizer casts bf16 moments, as that of 26.04 does not."""
    old, new = ({"runtime": f"megatron-bridge@{release}"} for release in ("26.02", "26.04"))
    alike = {"with": "dispatcher=fused"}
    assert _sizes(_again(**old, **alike), _again(**new, **alike)) == [2]
    narrow = {"with": "dispatcher=fused;moment_bytes=2"}
    assert _sizes(_again(**old, **narrow), _again(**new, **narrow)) == [1, 1]


def test_a_row_with_junk_in_it_spoils_no_other() -> None:
    rows = [_again(id="bad", step_time_s="-1"), _again(id="good"), _again(id="worse", memory_gib="abc")]
    score = score_of(outcomes_of(configurations(rows)))
    assert (score.rows, score.represented) == (3, 1)
    assert {name for name, _ in score.skipped} == {"bad", "worse"}


def test_a_doubt_about_one_row_holds_for_its_configuration_in_either_order() -> None:
    rows = [_again(quality="ok"), _again(quality="slow")]
    assert [each.quality for each in configurations(rows)] == ["slow"]
    assert [each.quality for each in configurations(rows[::-1])] == ["slow"]


def test_memory_of_different_kinds_is_not_mixed() -> None:
    kinds = (("", ""), ("40", "allocated"), ("60", "reserved"), ("44", "allocated"))
    given = Configuration(tuple(_again(memory_gib=size, memory_kind=kind) for size, kind in kinds))
    assert (given.memory_kind, given.memory_gib) == ("allocated", 42)
    unknown = Configuration((_again(memory_gib="70", memory_kind="unknown"), *given.rows))
    assert (unknown.memory_kind, unknown.memory_gib) == ("allocated", 42)


@pytest.mark.parametrize("text", ["", "0", "-1", "abc", "1e400", "nan"])
def test_what_is_no_positive_figure_was_not_measured(text: str) -> None:
    given = Configuration((llama(step_time_s=text, memory_gib=text, tokens_per_s_per_gpu=text),))
    figures = given.step_time_s, given.memory_gib, given.tokens_per_s_per_gpu, given.memory_kind
    assert figures == (None, None, None, "")


def test_nothing_is_measured_of_a_run_that_ran_out_of_memory() -> None:
    given = Configuration((llama(fits="No"),))
    assert (given.fits, given.step_time_s, given.memory_gib) == (False, None, None)


def test_every_shipped_row_is_in_one_configuration() -> None:
    ids = [row["id"] for each in configurations(shipped()) for row in each.rows]
    assert sorted(ids) == sorted(row["id"] for row in shipped())
