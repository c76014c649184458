"""The bar of a terminal: no share and no time of a whole that nobody knows."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from meshwright.answers.progress import bar
from meshwright.answers.progress.bar import SearchBar


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> tuple[SearchBar, io.StringIO]:
    """A bar that shows every picture, and what it wrote."""
    monkeypatch.setattr(bar, "EVERY_S", 0.0)
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=True, color_system=None, legacy_windows=False)
    return SearchBar("Pricing plans", 0.0, console), out


def last_line(out: io.StringIO) -> str:
    """The last picture."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue())
    return next(line for line in reversed(re.split(r"[\r\n]", text)) if line.strip())


def test_a_search_has_a_share_and_no_time_that_is_not_known(shown: tuple[SearchBar, io.StringIO]) -> None:
    search, out = shown
    with search.bar:
        search.advance(0, 100)
        assert "0%" in last_line(out)
        assert "-:--" not in out.getvalue()
        for done in (10, 20, 50):
            search.advance(done, 100)
        assert " 50%" in last_line(out)


def test_of_several_searches_their_number_is_shown_alone(shown: tuple[SearchBar, io.StringIO]) -> None:
    search, out = shown
    with search.bar:
        search.describe("Looking for what would fit: more accelerators, 5 of 5")
        for done in (0, 50, 100, 0, 50, 100, 0):
            search.advance(done, 100)
        line = last_line(out)
        assert line.startswith("Looking for what would fit: more accelerators, 5 of 5, search 3 ")
        assert not re.search(r"%|\d:\d\d", line)
        search.describe(None)
        search.advance(30, 100)
        assert last_line(out).startswith("Pricing plans ")
        assert "30%" in last_line(out)
