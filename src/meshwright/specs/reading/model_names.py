"""Names of models as people write them: of the catalogue, of the hub, in short."""

from __future__ import annotations

import re

from meshwright.errors import UnknownName
from meshwright.specs import catalog

_TUNED = re.compile(r"-(instruct|chat|base|hf|it|pt|thinking|\d{4})(?=-|$)")
"""What fine-tunes, formats and dates of release add to a name; none of it changes an architecture."""

ALIKE = 0.6
"""How near a name must be to be offered: many names of models share a few letters, and say nothing of each other."""


def model_id(name: str) -> str:
    """The catalogue id of a model: by id or alias; by a name of the hub, whoever owns it and whatever it is tuned for;
    or by the beginning of one id alone.

    Raises `UnknownName` with the nearest ids and aliases.

    >>> model_id("meta-llama/Llama-3.1-70B-Instruct"), model_id("qwen3-235b")
    ('llama-3.1-70b', 'qwen3-235b-a22b')
    """
    try:
        return catalog.resolve("models", name)
    except UnknownName:
        ids = _ids_by_plain_name()
    plain = _plain(name)
    if plain in ids:
        return ids[plain]
    begun = {id_ for known, id_ in ids.items() if plain and known.startswith(f"{plain}-")}
    if len(begun) == 1:
        return begun.pop()
    raise UnknownName("model", name, catalog.names("models"), ids, ALIKE)


def _plain(name: str) -> str:
    """A name without its owner and without what does not change the architecture."""
    return _TUNED.sub("", name.strip().lower().replace("_", "-").replace(" ", "-").rpartition("/")[2])


def _ids_by_plain_name() -> dict[str, str]:
    return {
        _plain(known): id_
        for id_ in catalog.names("models")
        for known in (*catalog.load("models", id_).get("aliases", ()), id_)
    }
