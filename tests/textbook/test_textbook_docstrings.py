"""The docstrings of the calculators: equation, source, scope, what is returned, every argument, and a doctest."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

from meshwright import textbook
from meshwright.textbook import Searcher

FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(textbook, name) for name in textbook.__all__ if name != "Searcher"
} | {name: method for name, method in inspect.getmembers(Searcher, inspect.isfunction) if not name.startswith("_")}


def test_every_calculator_is_public() -> None:
    assert set(textbook.__all__) >= {"analyze_4d_parallelism", "estimate_4d_memory", "tensor_parallel_allreduce_cost"}
    with pytest.raises(AttributeError, match="anlyze"):
        _ = textbook.anlyze  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_a_docstring_says_everything(name: str) -> None:
    text = inspect.getdoc(FUNCTIONS[name])
    assert text is not None
    for word in ("Source:", "Scope:", "Returns", ">>>"):
        assert word in text
    for argument in inspect.signature(FUNCTIONS[name]).parameters:
        assert argument == "self" or re.search(rf"\b{argument}\b", text), argument
