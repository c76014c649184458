"""Keys of a config.json that look like a misspelled key of its family."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from meshwright.errors import LONGEST, Fault
from meshwright.specs.huggingface.decoder import Decoder

ALIKE = 0.9
"""Share of common letters (difflib) from which a key is taken for a misspelled one."""


def misspelled(family: type[Decoder], config: Mapping[str, Any]) -> Iterator[Fault]:
    """A fault for each key that the family does not read, and that nearly is one which it reads and the file lacks.

    Keys that start with `_` are notes of transformers to itself.
    """
    keys = {name: family.keys_of(name) for name in family.model_fields}
    read = {key for spellings in keys.values() for key in spellings}
    absent = [key for spellings in keys.values() if not any(key in config for key in spellings) for key in spellings]
    for key in config:
        if not isinstance(key, str) or key in read or key.startswith("_"):
            continue
        near = difflib.get_close_matches(key[:LONGEST], absent, n=1, cutoff=ALIKE)
        if near:
            yield Fault(key, f"is not a key of {family.config_class}; did you mean {near[0]}?")
