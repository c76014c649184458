"""The notebooks of the pages: every cell runs, shows what it says now, and little of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import notebooks

pytestmark = pytest.mark.slow

PATHS = sorted(notebooks.FOLDER.glob("*.ipynb"))
MOST_BYTES = 60_000


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_its_cells_say_now(path: Path) -> None:
    """Write them again with `make notebooks` when an answer has changed for a reason."""
    text = path.read_text("utf-8")
    assert notebooks.written(notebooks.executed(json.loads(text))) == text
    assert len(text) < MOST_BYTES


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_notebook_is_one_that_jupyter_reads(path: Path) -> None:
    notebook: dict[str, Any] = json.loads(path.read_text("utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    assert notebook["cells"][0]["source"][0].startswith("# ")


def test_the_gallery_links_to_all_five() -> None:
    page = (notebooks.FOLDER.parent / "gallery.md").read_text("utf-8")
    assert sorted(re.findall(r"\(notebooks/([\w-]+\.ipynb)\)", page)) == [path.name for path in PATHS]
    assert len(PATHS) == 5
