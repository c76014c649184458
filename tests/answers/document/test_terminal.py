"""Terminal: a screen that is too narrow for a table breaks its cells and loses none of their characters."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from meshwright.answers.document.blocks import Table
from meshwright.answers.document.terminal import terminal

NAME = "tp1 cp2 ring ep4 pp4 vpp8 dp4 zero1 mbs1 m64 recompute-selective(layernorm,moe_act)"
LOST = "untested; 0.5% faster: 315 ms less exposed tensor-parallel communication"
RANKING = Table(("#", "plan", "step", "against the best"), (("2", NAME, "12.8 s", LOST),), "rlrl")


@pytest.mark.parametrize("width", range(58, 120))
def test_no_word_of_a_cell_is_cut(width: int) -> None:
    """At 80 columns rich cut two digits of 315 ms."""
    out = StringIO()
    Console(file=out, width=width, markup=False, emoji=False, highlight=False).print(terminal((RANKING,)))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    shown = set(" ".join(lines).split())
    assert set(LOST.split()) <= shown
    assert set(NAME.replace(",", ", ").split()) <= shown
