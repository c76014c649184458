"""Unsaid: the degrees that a recipe in Python leaves to another one, which is not read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from meshwright.launch.readers.settings import OBJECT, FileSetting, LaunchSettings

DEGREES = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size")
"""Fields of a model that decide the plan."""
OF_A_MODEL = tuple(f"model.{name}" for name in DEGREES)
_RECIPES = ("recipe", "trainer", "Trainer", "_config")
"""How functions are called that make a recipe, or a part of it that has degrees."""


def recipes_elsewhere(read: LaunchSettings) -> list[FileSetting]:
    """What makes a recipe in other files, as far as its name says so."""
    made = [each for each in read.settings if each.key.endswith(OBJECT)]
    return [each for each in (*made, *read.elsewhere) if maker_of(each).rpartition(".")[2].endswith(_RECIPES)]


def maker_of(each: FileSetting) -> str:
    """The name of what makes an object, or of a function that stands elsewhere."""
    return str(each.value).partition(" ")[0] if each.key.endswith(OBJECT) else each.key


def unsaid_degrees(
    said: set[str], maker: FileSetting | None, degrees: Iterable[str] = OF_A_MODEL
) -> Iterator[FileSetting]:
    """The degrees that are not among the keys of a file, each as open; maker: of the recipe that has them."""
    name, line = (maker_of(maker), maker.line) if maker else ("what makes the trainer", 0)
    for degree in degrees:
        if degree not in said:
            yield FileSetting(degree, None, line, None, (f"{name}, which is not read",))
