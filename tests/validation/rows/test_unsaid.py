"""What a framework's own configurations have is taken for a blank, and what it did then, in tables without settings."""

from __future__ import annotations

import pytest

from meshwright.layout.plan import Recompute
from meshwright.validation.rows.reading import read_case
from meshwright.validation.rows.siblings import as_known
from meshwright.validation.rows.table import Row
from meshwright.validation.rows.unsaid import done_until, unsaid_columns
from tables import llama


def _stranger(**said: str) -> Row:
    blank = {"recompute": "", "recompute_modules": "", "compiled": "", "params_b": "8.03", "source": ""}
    return llama(runtime="torchtitan", tp="1", dp="8", dataset="a stranger", id="new") | blank | said


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ({}, {"compiled": "no", "recompute": "selective"}),
        ({"runtime": "torchtitan@0.2.2"}, {"compiled": "no", "recompute": "selective"}),
        ({"params_b": "70.6"}, {"compiled": "no", "recompute": "full"}),
        ({"params_b": "671", "moe_experts": "256"}, {"compiled": "no", "recompute": "selective"}),
        ({"precision": "fp8"}, {"recompute": "selective"}),
        ({"compiled": "yes", "recompute": "none"}, {}),
        ({"source": "commit message: [graph_trainer] memory"}, {"recompute": "selective"}),
        ({"runtime_detail": "torchtitan (FSDP2), float8, compile"}, {"recompute": "selective"}),
        ({"notes": "no compile assumed"}, {"compiled": "no", "recompute": "selective"}),
        ({"runtime": "pytorch-fsdp1"}, {}),
    ],
)
def test_blanks_are_as_in_the_configurations_of_the_framework(said: Row, meant: Row) -> None:
    told = unsaid_columns(_stranger(**said))
    assert {key: value for each in told for key, value in each.columns.items()} == meant


@pytest.mark.parametrize(
    ("source", "compiled", "eager"),
    [
        ("benchmarks/llama3_h100_202412_torchtitan.md", "yes", True),
        ("logs of 2025-03-04", "yes", True),
        ("logs of 2025-04-04", "yes", False),
        ("logs of 2025-03-04", "no", False),
        ("a page without a date", "yes", False),
        ('commit message "float8 rowwise recipe (#808)" of 2025-06', "yes", True),
        ("commit message (#700) of 2024-12", "yes", False),
        ("commit message (#1881)", "yes", False),
    ],
)
def test_the_loss_of_old_torchtitan_is_not_compiled(source: str, compiled: str, eager: bool) -> None:
    done = done_until(_stranger(source=source, compiled=compiled))
    assert [each.behaviours for each in done] == ([("cross_entropy=eager",)] if eager else [])


def test_a_stranger_is_priced_so_and_says_it() -> None:
    (row,) = as_known([_stranger(source="logs of 2025-03-04", compiled="True", params_b="1,026")])
    case = read_case(row)
    assert case.inputs.runtime.kernels.cross_entropy == "eager"
    assert case.plan.recompute == Recompute.FULL
    for words in (
        "every layer recomputed, as torchtitan's own",
        "the loss is not compiled, by the date of its source",
    ):
        assert words in row["assumed"]
