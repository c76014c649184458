"""CONTRIBUTING's recipes: what the page tells you to write works, is all that is needed, and nothing more changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from recipes import PROJECT, Block, blocks_of, copy_of_project, execute, files_of, restore, titles, write

pytestmark = pytest.mark.slow

PLACES = {
    "Add a runtime": 1,
    "Add a behaviour": 7,
    "Add an accelerator": 2,
    "Add a pipeline schedule": 3,
    "Add a job option": 4,
    "Add a plan field": 4,
    "Add a model family": 5,
}
"""Files of the package that a recipe creates or changes, by its title."""


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_of_project(tmp_path_factory.mktemp("project"))


@pytest.fixture
def project(copied: Path) -> Iterator[Path]:
    """A copy for one recipe after the other, each of which meets it as the project is."""
    yield copied
    restore(copied)


@pytest.mark.parametrize("title", PLACES)
def test_a_recipe_works_and_touches_only_what_it_names(title: str, project: Path) -> None:
    blocks = blocks_of(title)
    assert any(not block.language for block in blocks)
    changed = execute(blocks, project)
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
def test_every_step_of_a_recipe_is_needed(title: str, left_out: int, project: Path) -> None:
    blocks = blocks_of(title)
    with pytest.raises(AssertionError):
        execute([*blocks[:left_out], *blocks[left_out + 1 :]], project)


def test_a_project_is_as_before_once_a_recipe_was_carried_out(project: Path) -> None:
    before, page = files_of(project), "pyproject.toml"
    assert execute([Block("python", "src/new.py", ""), Block("diff", page, "+# more\n")], project) == {
        "src/new.py",
        page,
    }
    restore(project)
    assert (project / page).stat().st_mtime == (PROJECT / page).stat().st_mtime
    assert files_of(project) == before == {path: (PROJECT / path).read_bytes() for path in before}


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
