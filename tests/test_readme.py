"""What the README shows is what the commands print now."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def writer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("readme_writer", ROOT / "benchmarks" / "readme.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("mark", ["answer", "truth"])
def test_the_readme_and_the_first_page_show_what_is_printed_now(writer: ModuleType, mark: str) -> None:
    """Rewrite them with `make readme` when an answer has changed for a reason."""
    printed = getattr(writer, mark)()
    for page in (ROOT / "README.md", ROOT / "docs" / "index.md"):
        text = page.read_text("utf-8")
        assert writer.filled(text, mark, printed) == text


def test_the_picture_of_the_readme_is_that_of_its_answer(writer: ModuleType) -> None:
    assert writer.PICTURE.read_text("utf-8") == writer.picture()


def test_the_page_about_the_plan_file_shows_a_real_one(writer: ModuleType) -> None:
    text = (ROOT / "docs" / "plan-file.md").read_text("utf-8")
    assert writer.filled(text, "excerpt", writer.excerpt(), "json") == text


@pytest.mark.parametrize(
    ("page", "mark", "write"),
    [
        ("explain", "explain", "explained"),
        ("limits", "limits", "limited"),
        ("logs", "logs", "logged"),
        ("time", "documents", "packed"),
        pytest.param("sweep", "sweep", "swept", marks=pytest.mark.clients("pyarrow")),
    ],
)
def test_pages_show_what_is_printed_now(writer: ModuleType, page: str, mark: str, write: str) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text("utf-8")
    assert writer.filled(text, mark, getattr(writer, write)()) == text


def test_the_page_about_sweeps_shows_the_file_of_the_examples(writer: ModuleType) -> None:
    text = (ROOT / "docs" / "sweep.md").read_text("utf-8")
    assert writer.filled(text, "file", (ROOT / "examples" / "sweep.toml").read_text("utf-8").rstrip(), "toml") == text
