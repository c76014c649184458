"""Terminal: a screen that is too narrow for a table breaks its cells and loses none of their characters."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from meshwright.answers.document.blocks import Block, Lines, Table
from meshwright.answers.document.terminal import terminal

NAME = "tp1 cp2 ring ep4 pp4 vpp8 dp4 zero1 mbs1 m64 recompute-selective(layernorm,moe_act)"
LOST = "untested; 0.5% faster: 315 ms less exposed tensor-parallel communication"
RANKING = Table(("#", "plan", "step", "against the best"), (("2", NAME, "12.8 s", LOST),), "rlrl")


@pytest.mark.parametrize("width", range(58, 120))
def test_no_word_of_a_cell_is_cut(width: int) -> None:
    """At 80 columns rich cut two digits of 315 ms."""
    lines = _printed(RANKING, width)
    assert max(map(len, lines)) <= width
    shown = set(" ".join(lines).split())
    assert set(LOST.split()) <= shown
    assert set(NAME.replace(",", ", ").split()) <= shown


def test_a_word_that_is_longer_than_its_line_is_broken_at_hyphens_slashes_and_dots() -> None:
    name = Table(("runtime", "plan"), (("megatron-bridge", "recompute-selective"),), "ll")
    told = [line.split() for line in _printed(name, 22)]
    assert told == [["runtime", "plan"], ["megatron-", "recompute-"], ["bridge", "selective"]]
    path = _printed(Lines(("see megatron/core/transformer/moe/experts.py",)), 24)
    assert [line.strip() for line in path] == ["see megatron/core/", "transformer/moe/", "experts.py"]


def test_a_word_without_such_a_place_is_broken_where_its_line_ends() -> None:
    assert _printed(Lines(("0123456789" * 3,)), 24) == ["012345678901234567890123", "456789"]


def _printed(block: Block, width: int) -> list[str]:
    out = StringIO()
    Console(file=out, width=width, markup=False, emoji=False, highlight=False).print(terminal((block,)))
    return out.getvalue().splitlines()
