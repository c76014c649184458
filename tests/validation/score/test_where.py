"""Conditions: comparisons of columns with values, and nothing else that Python would understand."""

from __future__ import annotations

import pytest

from meshwright.errors import InvalidInput
from meshwright.validation.score.validate import validate
from meshwright.validation.score.where import row_filter
from tables import llama


@pytest.mark.parametrize(
    "condition",
    [
        "dataset == 'mine'",
        "num_gpus >= 8 and not num_gpus > 8",
        "8 <= num_gpus <= 64",
        "model in ('Llama-2-7B', 'b') or tp == 99",
        "'Llama' in model and 'GPT' not in model",
        "tp in [1, 2] and 2 in (tp, pp)",
        "pp < tp < dp",
        "step_time_s == 2.5",
        "vpp == '' and moe_experts == ''",
        "not vpp < 4 and not vpp >= 4",
        "vpp != 1",
        "tp > -1",
        "  (tp == 2)  ",
        "notes == '\\d' or model < 'M'",
    ],
)
def test_a_condition_that_holds_asks_for_the_row(condition: str) -> None:
    assert row_filter(condition)(llama())
    assert not row_filter(f"not ({condition.strip()})")(llama())


@pytest.mark.parametrize("condition", ["hidden < 5", "hidden >= 5", "hidden == 5", "hidden == ''", "hidden in (1, 2)"])
def test_junk_equals_no_number_and_no_blank(condition: str) -> None:
    assert not row_filter(condition)(llama(hidden="many"))


def test_numbers_may_have_commas() -> None:
    assert row_filter("hidden == 4096")(llama(hidden="4,096"))


@pytest.mark.parametrize(
    "condition",
    [
        *("", "tp", "True", "tp ==", "tp == 1; pp == 1", "tp = 1", "(" * 500, "not " * 50_000 + "tp == 1", "tp == 1\0"),
        *("len(model) == 5", "model.upper() == 'A'", "__import__('os')", "model.id == 'a'", "model[0] == 'a'"),
        *("tp + 1 == 2", "tp * pp == 8", "lambda: 1", "tp if pp == 1 else dp", "[x for x in 'a']", "(tp := 1)"),
        *("tp is 1", "tp == None", "tp == 1j", "model == b'a'", "sp == True", "f'{model}' == 'a'", "~tp == 1", "*tp"),
        *("(tp == 1) == (pp == 1)", "tp == (1, 2)", "model == ['a']", "model in ('a', ('b',))", "tp == " + "9" * 5000),
    ],
)
def test_anything_else_is_refused_with_an_example(condition: str) -> None:
    with pytest.raises(
        InvalidInput, match=r"is not a condition.*for example: dataset == 'llmfoundry' and num_gpus >= 64"
    ):
        row_filter(condition)


@pytest.mark.parametrize(
    "condition",
    ["model < 5", "num_gpus < 'a'", "num_gpus == '64'", "tp == model", "tp in 'abc'", "tp in pp", "model in ('a', 1)"],
)
def test_text_and_numbers_are_not_compared(condition: str) -> None:
    with pytest.raises(InvalidInput, match="must be both text or both numbers"):
        row_filter(condition)


def test_an_unknown_column_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidInput, match=r"unknown column 'num_gpu'; nearest: .*num_gpus"):
        row_filter("tp == 1 or num_gpu == 8")


def test_a_value_that_no_row_has_is_told_with_the_nearest_spellings() -> None:
    answer = validate(where="gpu == 'mi300x'")
    assert answer.score.rows == 0
    (line,) = answer.unmatched
    assert "no row has gpu 'mi300x'; nearest: 'MI300X" in line
    assert line in str(answer.blocks()[0])
    assert not validate(where="dataset == 'llmfoundry' and gpu == 'A100-SXM-40GB'").unmatched
