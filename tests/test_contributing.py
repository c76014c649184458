"""CONTRIBUTING's recipes: what the page tells you to write works, is all that is needed, and nothing more changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from recipes import Block, blocks_of, copy_of_project, execute, titles, write

pytestmark = pytest.mark.slow

PLACES = {
    "Add a runtime": 1,
    "Add a behaviour": 7,
    "Add an accelerator": 2,
    "Add a pipeline schedule": 3,
    "Add a plan field": 4,
    "Add a model family": 3,
}
"""Files of the package that a recipe creates or changes, by its title."""


@pytest.mark.parametrize("title", PLACES)
def test_a_recipe_works_and_touches_only_what_it_names(title: str, tmp_path: Path) -> None:
    blocks = blocks_of(title)
    assert any(not block.language for block in blocks)
    changed = execute(blocks, copy_of_project(tmp_path))
    assert changed == {block.path for block in blocks if block.language}
    assert sum(path.startswith("src/") for path in changed) <= PLACES[title]


@pytest.mark.parametrize(
    ("title", "left_out"),
    [
        (title, index)
        for title in PLACES
        for index, block in enumerate(blocks_of(title))
        if block.path.startswith("src/")
    ],
)
def test_every_step_of_a_recipe_is_needed(title: str, left_out: int, tmp_path: Path) -> None:
    blocks = blocks_of(title)
    with pytest.raises(AssertionError):
        execute([*blocks[:left_out], *blocks[left_out + 1 :]], copy_of_project(tmp_path))


def test_every_recipe_is_on_the_page() -> None:
    assert set(PLACES) <= set(titles())


@pytest.mark.parametrize(
    ("text", "message"),
    [("-gone\n+new\n", "holds these lines 0 times"), (" twice\n+new\n", "holds these lines 2 times")],
)
def test_a_change_must_fit_the_file(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "file.py").write_text("twice\ntwice\n")
    with pytest.raises(AssertionError, match=message):
        write(Block("diff", "file.py", text), tmp_path)
