"""Known fields: whether a configuration has only those that its framework takes, and refuses any other."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import resources

from meshwright.launch.imports.rules.demands import FileRule
from meshwright.launch.readers.settings import LaunchSettings
from meshwright.specs.base import Spec

FILES = resources.files("meshwright.launch.imports.rules") / "fields"


class KnownFields(Spec):
    """Every field of a framework's configurations, of all releases."""

    source: str
    extended_by: tuple[str, ...]
    """Fields that name a class with more of them."""
    fields: dict[str, tuple[str, ...]]
    """By their section."""


@cache
def fields_of(name: str) -> KnownFields | None:
    """The fields of a launch table's framework; None where they are not known."""
    file = FILES / f"{name}.toml"
    return KnownFields(**tomllib.loads(file.read_text("utf-8"))) if file.is_file() else None


def field_rules(name: str, read: LaunchSettings) -> Iterator[FileRule]:
    """Whether the sections of a configuration have no other fields than the framework's; name: of the dialect.

    What the file only names beside it may have more, and so may a section that the framework does not have, as a
    command line can name a class with it. Python itself refuses arguments that its classes lack.
    """
    known, own = fields_of(name), read.by_key()
    if known is None or read.form == "python" or own.keys() & {*known.extended_by}:
        return
    wrong = {}
    for key, setting in own.items():
        section, _, field = key.rpartition(".")
        fields = known.fields.get(section, (field,))
        if setting.line and field not in fields:
            near = difflib.get_close_matches(field, fields, n=1)
            wrong[key] = f"{key} (nearest: {section}.{near[0]})" if near else key
    reason = f"{', '.join(wrong.values())}: no field of any release, which it refuses" if wrong else ""
    yield FileRule(name="known_keys", kept=not wrong, source=known.source, keys=tuple(wrong), reason=reason)
