"""Docs: what their pages take from the code exists."""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).parent.parent / "docs").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_docstring_that_a_page_shows_exists(page: Path) -> None:
    for name in re.findall(r"^::: ([\w.]+)$", page.read_text("utf-8"), re.MULTILINE):
        assert pkgutil.resolve_name(name).__doc__, name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_page_that_a_page_links_to_exists(page: Path) -> None:
    for target in re.findall(r"\]\(([\w-]+\.md)(?:#[\w-]+)?\)", page.read_text("utf-8")):
        assert (page.parent / target).is_file(), target
