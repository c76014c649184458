"""Tensor parallelism across domains: that nothing fits within one is said only where the search has shown it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from meshwright.answers.plans.crossing import crosses_domains, nothing_fits_inside
from meshwright.answers.plans.table import warnings
from meshwright.search.find import SearchResult, find
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.constraints import Constraints
from strategies import llama_70b, question


@cache
def found(global_batch: int, sequence_length: int, **constraints: int) -> SearchResult:
    inputs = question(llama_70b(), "2x8:h100", global_batch=global_batch, sequence_length=sequence_length)
    runtime = with_behaviours(inputs.runtime, ["optimizer_states=bf16"])
    return find(inputs.replace(runtime=runtime, constraints=Constraints(**constraints)))


def warned(result: SearchResult) -> str:
    return " ".join(map(str, warnings(result)))


def test_where_no_plan_fits_within_a_domain_that_is_said() -> None:
    result = found(16, 147456)
    assert crosses_domains(result)
    assert nothing_fits_inside(result)
    assert "tp 16 crosses nvlink domains of 8. This is rare; nothing fits within one." in warned(result)


@pytest.mark.parametrize(
    "result",
    [
        pytest.param(lambda: found(1, 8192), id="others fit, but are slower"),
        pytest.param(lambda: found(16, 131072, tp=16), id="nothing else was searched"),
    ],
)
def test_where_that_is_not_known_it_is_not_said(result: Callable[[], SearchResult]) -> None:
    assert crosses_domains(result())
    assert not nothing_fits_inside(result())
    assert "This is rare; every layer waits for slower links." in warned(result())
