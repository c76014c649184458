"""Edits: what changes in the text of a launch file for one setting, in the form of the file."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection
from typing import NamedTuple

from meshwright.launch.framework import Value
from meshwright.launch.imports.files.places import kin_of
from meshwright.launch.readers.settings import FileSetting, LaunchSettings
from meshwright.launch.table import LaunchTable

_ENDS = {"yaml": ":", "json": '"\\s*:', "toml": "\\s*=", "python": "="}
"""What follows the name of a key."""
_VARIABLE = re.compile(r"""[ =]("?)\$(?:\w+|\{\w+\})\1(?=[\s"')\\]|$)""")
"""A variable that is the whole value of a flag."""


class Edit(NamedTuple):
    """Characters from start to before stop, and what takes their place."""

    start: int
    stop: int
    text: str


def edit_of(
    read: LaunchSettings, table: LaunchTable, name: str, value: Value | None, gone: Collection[str] = ()
) -> Edit | None:
    """What changes in the text for one setting; None where that cannot be told.

    table: of its framework, beside whose settings a new one may stand; value: the new one; None: the setting is left
    out; gone: settings that are left out, beside which nothing stands.
    """
    given = read.by_key().get(name)
    if given is not None and value is True and given.value is True:
        return Edit(0, 0, "")
    if given is not None and value is not None:
        return Edit(*given.span, _written(read.form, value)) if given.span else None
    if value is None:
        return None if given is None else _removed(read, given)
    if read.form == "shell":
        kin = [each for each in kin_of(name, read, table) if each.key not in gone]
        return _added_flag(read, kin, name, value)
    return _added_key(read, table.keys, name, value)


def _written(form: str, value: Value) -> str:
    """A value as the form of the file has it."""
    words = value if isinstance(value, list) else [value]
    if form == "shell":
        return " ".join(shlex.quote(str(word)) for word in words)
    if form == "python":
        return repr(value)
    if isinstance(value, str) and form == "yaml":
        value = value.lower() if value in ("True", "False") else value
        return value if re.fullmatch(r"[A-Za-z][\w./-]*", value) else json.dumps(value)
    return json.dumps(value)


def _place_of_flag(text: str, setting: FileSetting) -> tuple[int, int] | None:
    """Where a flag stands on its line."""
    start = _start_of_line(text, setting.line)
    stop = text.find("\n", start)
    after = re.compile(rf"(?:--)?{re.escape(setting.key)}(?=[\s=\"')\\:]|$)")
    match = after.search(text, start, len(text) if stop < 0 else stop)
    return match.span() if match and setting.line else None


def _end_of_flag(text: str, setting: FileSetting, stop: int) -> int | None:
    """Where its value ends, which stands behind it or is a variable; None where it is neither. stop: where it ends."""
    if setting.span and stop < setting.span[0] <= stop + 1:
        return setting.span[1]
    if setting.value is True:
        return stop
    variable = _VARIABLE.match(text, stop)
    return variable.end() if variable else None


def _start_of_line(text: str, line: int) -> int:
    start = 0
    for _ in range(line - 1):
        start = text.index("\n", start) + 1
    return start


def _added_flag(read: LaunchSettings, kin: list[FileSetting], name: str, value: Value) -> Edit | None:
    """A flag beside the one that it is most akin to: before it, or behind it where a quote opens before it."""
    flag = name if value is True else f"{name} {_written('shell', value)}"
    for each in kin:
        if (place := _place_of_flag(read.text, each)) is None:
            continue
        if read.text.startswith("--", place[0]) and not flag.startswith("-"):
            flag = f"--{flag}"
        if read.text[place[0] - 1 : place[0]] not in ('"', "'"):
            return Edit(place[0], place[0], f"{flag} ")
        stop = each.span[1] if each.span else place[1]
        if each.value is True or each.span:
            return Edit(stop, stop, f" {flag}")
    return None


def _added_key(read: LaunchSettings, keys: set[str], name: str, value: Value) -> Edit | None:
    """A key before another one of its section, or in a section of its own."""
    section, _, last = name.rpartition(".") if not name.startswith("--") else ("", "", name)
    quote = '"' if read.form == "json" else ""
    sign = {"toml": " = ", "python": "="}.get(read.form, ": ")
    written = f"{quote}{last}{quote}{sign}{_written(read.form, value)}"
    for each in read.settings:
        parent, _, key = each.key.rpartition(".") if not each.key.startswith("--") else ("", "", each.key)
        beside = each.key in keys if name.startswith("--") else parent == section
        if beside and each.span and (start := _place_of_key(read, each, key)) is not None:
            line = read.text.rfind("\n", 0, start) + 1
            indent = read.text[line:start]
            flow = read.form in ("json", "python") or bool(indent.strip())
            return Edit(start, start, f"{written}, " if flow else f"{written}\n{indent}")
    return None if read.form == "python" else _section(read, section, last, value)


def _place_of_key(read: LaunchSettings, setting: FileSetting, key: str) -> int | None:
    """Where the key of a setting begins, its quote with it, before its value."""
    if setting.span is None:
        return None
    line = _start_of_line(read.text, setting.line)
    quote = '"' if read.form == "json" else ""
    places = [*re.finditer(rf"{quote}{re.escape(key)}{_ENDS[read.form]}", read.text[line : setting.span[0]])]
    return line + places[-1].start() if places else None


def _section(read: LaunchSettings, section: str, key: str, value: Value) -> Edit | None:
    """A section with one key at the end of a file that has none of that name."""
    if "." in section or any(each.key == section or each.key.startswith(f"{section}.") for each in read.settings):
        return None
    at, before = len(read.text), "" if read.text.endswith("\n") else "\n"
    written = _written(read.form, value)
    if read.form == "toml":
        return Edit(at, at, f"{before}\n[{section}]\n{key} = {written}\n" if section else "") if section else None
    if read.form == "yaml" and not read.text.lstrip().startswith("{"):
        return Edit(at, at, f"{before}{section}:\n  {key}: {written}\n" if section else f"{before}{key}: {written}\n")
    return None


def _removed(read: LaunchSettings, setting: FileSetting) -> Edit | None:
    if read.form == "shell":
        place = _place_of_flag(read.text, setting)
        stop = place and _end_of_flag(read.text, setting, place[1])
        return _without(read.text, place[0], stop) if place and stop else None
    if setting.span is None or read.form == "python":
        return None
    key = setting.key if setting.key.startswith("--") else setting.key.rpartition(".")[2]
    start, stop = _place_of_key(read, setting, key), setting.span[1]
    if start is None:
        return None
    if comma := re.compile(r"\s*,\s*").match(read.text, stop):
        return Edit(start, comma.end(), "")
    line = read.text.rfind("\n", 0, start) + 1
    end = read.text.find("\n", stop)
    alone = (
        not read.text[line:start].strip() and not read.text[stop : end if end >= 0 else None].partition("#")[0].strip()
    )
    return Edit(line, len(read.text) if end < 0 else end + 1, "") if alone and read.form != "json" else None


def _without(text: str, start: int, stop: int) -> Edit:
    """A flag out of a script: with its line where it stands alone there, else with the blank beside it."""
    line, end = text.rfind("\n", 0, start) + 1, text.find("\n", stop)
    behind = text[stop : end if end >= 0 else None].strip()
    continued = text[: max(line - 1, 0)].endswith("\\")
    if line and end >= 0 and not text[line:start].strip() and (behind == "\\" or (not behind and not continued)):
        return Edit(line, end + 1, "")
    last = text[stop : stop + 1] in ("", "\n") and text[start - 1 : start] == " " and start - 1 > line
    return Edit(start - last, stop + (text[stop : stop + 1] == " "), "")
