"""Layout strings: what is written is read back, and what is none is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.errors import InvalidInput
from meshwright.layout.layout_string import layout_string, read_layout_string


@given(st.lists(st.integers(0, 12), min_size=2, max_size=40))
def test_what_is_written_is_read_back(sizes: list[int]) -> None:
    assert read_layout_string(layout_string(sizes)) == tuple(sizes)


def test_the_published_layout_of_llama_70b_in_fp8_has_40_chunks_of_80_layers() -> None:
    """Megatron-Bridge, perf_recipes/llama/h100: TP4 PP8 VP5."""
    sizes = read_layout_string("Et*2|(t*2|)*34,t*3|(t*2|)*3,tL")
    assert (len(sizes), sum(sizes), sizes[0], sizes[35], sizes[-1]) == (40, 80, 2, 3, 1)


@pytest.mark.parametrize(
    "given", ["", "t|t", "tL", "Et", "Et|mt|L", "EtLt|L", "Et*L", "E(t|L", "E(t|)*L", "Ex|L", "E" * 9]
)
def test_what_is_no_layout_is_refused(given: str) -> None:
    with pytest.raises(InvalidInput, match="pipeline layout"):
        read_layout_string(given)


def test_a_layout_that_repeats_without_end_is_refused() -> None:
    with pytest.raises(InvalidInput):
        read_layout_string("E" + "(" * 8 + "t|" + ")*999" * 8 + "L")
