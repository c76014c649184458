"""Trees: settings whose keys are paths, as the nested mapping of a configuration file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import yaml

from meshwright.launch.framework import Value
from meshwright.launch.writers.comments import commented


def nested(settings: dict[str, Value]) -> dict[str, Any]:
    """Settings by path as mappings within each other; the word `null` is none.

    >>> nested({"a.b": 1, "a.c": True, "d": "x"})
    {'a': {'b': 1, 'c': True}, 'd': 'x'}
    """
    tree: dict[str, Any] = {}
    for key, value in settings.items():
        *path, last = key.split(".")
        branch = tree
        for name in path:
            branch = branch.setdefault(name, {})
        branch[last] = None if value == "null" else value
    return tree


def yaml_text(settings: dict[str, Value], notes: Sequence[str]) -> str:
    """A YAML file of settings. notes: what it says first."""
    body = yaml.safe_dump(nested(settings), sort_keys=False, width=1000)
    return "\n".join([*commented(notes), "", body])


def json_text(settings: dict[str, Value], notes: Sequence[str]) -> str:
    """A JSON file of settings, which has no comments: what it says first stands under `about`."""
    return json.dumps({"about": list(notes), **nested(settings)}, indent=2) + "\n"
