"""Opened: options whose values are JSON, as a Trainer takes them."""

from __future__ import annotations

from meshwright.errors import InvalidInput
from meshwright.launch.framework import Value
from meshwright.launch.readers.traced import Unreadable
from meshwright.launch.readers.trees import read_tree
from meshwright.launch.spelling import Settings


def opened(settings: Settings, path: str) -> Settings:
    """The arguments with those that are JSON by their keys, behind the argument's with a dot."""
    plain: dict[str, Value] = {}
    for key, each in settings.items():
        if not str(each).startswith("{"):
            plain[key] = each
            continue
        try:
            inner = read_tree(path, str(each), "json").settings
        except Unreadable as error:
            raise InvalidInput(f"{key}: {error}") from error
        plain |= {f"{key}.{one.key}": one.value for one in inner if one.value is not None}
    return plain
