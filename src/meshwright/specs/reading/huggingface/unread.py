"""Unread: keys of a config.json that its family does not have, told so that nobody takes them for priced."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from meshwright.errors import LONGEST
from meshwright.specs import catalog
from meshwright.specs.reading.huggingface.decoder import Decoder
from meshwright.specs.reading.huggingface.values import KEYS, NORMS

SHOWN = 8
"""Keys that a note names."""


def unread_keys(family: type[Decoder], config: Mapping[str, Any]) -> list[str]:
    """The keys that say something, which neither the family nor a launch reads, and on which a price may rest.

    Those that are null, false, 0 or empty switch nothing on; those that start with `_` are notes of transformers.

    >>> from meshwright.specs.reading.huggingface.families import family
    >>> unread_keys(family("llama"), {"hidden_size": 64, "use_cache": True, "use_foo": True, "use_bar": False})
    ['use_foo']
    """
    read = {key for name in family.model_fields for key in family.keys_of(name)}
    known = read.union(KEYS, NORMS, _passed_over())
    return [key for key, value in config.items() if value and key not in known and not str(key).startswith("_")]


def unread_notes(family: type[Decoder], config: Mapping[str, Any]) -> list[str]:
    """One sentence on these keys; none where there are none."""
    keys = [str(key)[:LONGEST] for key in unread_keys(family, config)]
    if not keys:
        return []
    more = f" and {len(keys) - SHOWN} more" if len(keys) > SHOWN else ""
    what = f"keys of the file that are not read, as {family.config_class} has none of them"
    return [f"{what}: {', '.join(keys[:SHOWN])}{more}"]


@cache
def _passed_over() -> frozenset[str]:
    return frozenset(key for entry in catalog.table("config_keys")["passed_over"] for key in entry["keys"])
