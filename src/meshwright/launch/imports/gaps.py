"""Gaps: what a launch file leaves open and the answer rests on, each with what says it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from meshwright.launch.forms import Fields
from meshwright.launch.imports.answered import left_auto, says_batch
from meshwright.launch.imports.files.places import left_to_the_script, place_of
from meshwright.launch.imports.spellings.deepspeed_json import CONFIGURATIONS
from meshwright.launch.readers.settings import FileSetting, LaunchSettings
from meshwright.launch.readers.shell.expansion import UNKNOWN
from meshwright.launch.table import LaunchTable
from meshwright.specs.model import Model

NEEDED = ("job.sequence_length", "job.global_batch", "plan.micro_batch")
OF_THE_MODEL = ("model.layers", "model.hidden_size", "model.heads", "model.vocab_size")
_NAME = re.compile(r"[A-Za-z_]\w*|\d+", re.ASCII)


def settled(read: LaunchSettings, table: LaunchTable) -> tuple[LaunchSettings, list[str]]:
    """The settings without words that are empty unless the environment sets them, and the names of those.

    A variable that the script sets nowhere is empty where it stands by itself, or behind a flag that takes no value.
    """
    kept, empty = [], list[str]()
    for each in read.settings:
        alone = not each.key or (isinstance(each.value, str) and UNKNOWN.fullmatch(each.value) and _switch(each, table))
        unset = [
            name for name in each.open if name not in read.skipped and _NAME.fullmatch(name) and not name.isdecimal()
        ]
        if alone and each.open and len(unset) == len(each.open):
            empty += unset
            kept += [replace(each, value=True, open=())] if each.key else []
        else:
            kept.append(each)
    return replace(read, settings=tuple(kept)), list(dict.fromkeys(empty))


def gaps_of(
    read: LaunchSettings, fields: Fields, table: LaunchTable, keyed: dict[str, Any], model: Model | None
) -> list[str]:
    """What the file leaves open and the answer rests on, all of it."""
    keys = table.keys | (table.fields_of_recipes if read.form == "python" else frozenset())
    relevant = [each for each in read.by_key().values() if each.open and each.key in keys]
    relevant += [each for each in read.settings if each.open and not each.key]
    relevant = [each for each in relevant if each.key not in keyed]
    hidden = {name for each in relevant for name in each.open if name in read.skipped}
    gaps = [_undecided(line, names) for line, names in read.undecided.items() if hidden and names]
    gaps += [_open(each) for each in relevant if not set(each.open) & hidden]
    if hidden and not gaps:
        gaps += [_open(each) for each in relevant]
    open_keys = {each.key for each in relevant}
    counted = says_batch(fields)
    needed = [name for name in NEEDED if fields.get(name) is None and not (counted and name != "job.sequence_length")]
    if fields.get("plan.zero") is None:
        needed.append("plan.zero")
    gaps += [_absent(read, table, name, open_keys) for name in needed]
    if model is None:
        gaps += _of_the_model(read, fields, table, open_keys)
    return [gap for gap in dict.fromkeys(gaps) if gap]


def says_sizes(fields: Fields) -> bool:
    """Whether a file says any size of its model."""
    return any(fields.get(name) is not None for name in OF_THE_MODEL)


def _switch(setting: FileSetting, table: LaunchTable) -> bool:
    """Whether a flag takes no value."""
    cases = [case for choice in table.choices for case in choice.cases]
    values = [case.settings.get(setting.key, case.also.get(setting.key)) for case in cases]
    values += [each.every_value.get(setting.key) for each in table.settings]
    forms = [row.form for row in table.rows.values() if row.key == setting.key]
    return "switch" in forms or (any(value is True for value in values) and not forms)


def _undecided(line: int, names: tuple[str, ...]) -> str:
    named = [name for name in names if _NAME.fullmatch(name)]
    says = f": {' '.join(f'--set {name}=...' for name in named)}" if named else ""
    return f"line {line}: which side of a condition holds rests on {', '.join(names)}{says}" if named else ""


def _open(setting: FileSetting) -> str:
    names = dict.fromkeys(setting.open)
    where = f"line {setting.line}: " if setting.line else ""
    what = f"{setting.key} rests on {', '.join(names)}" if setting.key else f"options that {', '.join(names)} holds"
    says = " ".join(f"--set {name}=..." if _NAME.fullmatch(name) else f"--set {setting.key}=..." for name in names)
    return f"{where}{what}: {says}"


def _absent(read: LaunchSettings, table: LaunchTable, name: str, open_keys: set[str]) -> str:
    key = table.rows[name].key if name in table.rows else name
    if key in open_keys:
        return ""
    if name in table.asked_as and not _named_engine(read):
        return f"{name}: {table.asked_as[name]}"
    if name == "job.global_batch" and (count := left_auto(read, table, ())):
        return f"line {count.line}: {count.key} is auto, and follows from the global batch: --set {name}=..."
    if auto := left_to_the_script(key, read, "" if _settable(key) else name):
        return auto
    cases = [case for choice in table.choices for case in choice.cases]
    if name == "plan.zero" and (file := _named_engine(read)):
        where = f": line {file.line} names {file.value}, which is neither beside it nor at the root of its repository"
    elif any(name in (*case.fields, *(str(value).strip("{}") for value in case.settings.values())) for case in cases):
        where = ", nor in one that it names" if read.form == "shell" else place_of(key, read, table)
    else:
        where = ", which has no key for it" if key == name else place_of(key, read, table)
    said = table.key_in_file(key)
    return f"{said} is not in the file{where}: --set {said if _settable(said) else name}=..."


def _named_engine(read: LaunchSettings) -> FileSetting | None:
    """What names a file of DeepSpeed."""
    named = [each for each in read.settings if each.key in CONFIGURATIONS and isinstance(each.value, str)]
    return next((each for each in named if each.value and not each.open), None)


def _of_the_model(read: LaunchSettings, fields: Fields, table: LaunchTable, open_keys: set[str]) -> list[str]:
    if fields.get("model.name") is not None:
        return [f"the model {fields['model.name']!r} is not in the catalogue: --model and its config.json"]
    absent = [name for name in OF_THE_MODEL if fields.get(name) is None]
    keys = [table.rows[name].key if name in table.rows else name.partition(".")[2] for name in absent]
    unsaid = [key for key in keys if key not in open_keys]
    if not unsaid:
        return []
    settable = unsaid[0] if _settable(unsaid[0]) else absent[keys.index(unsaid[0])]
    says = f" (or --set {table.key_in_file(settable)}=...)" if len(unsaid) == 1 else ""
    spelled = [name for name in (*OF_THE_MODEL, "model.name") if name in table.rows]
    where = _place_of_model(unsaid[0] if len(spelled) > 1 else spelled[0], read, table) if spelled else ""
    listed = ", ".join(table.key_in_file(key) for key in unsaid)
    return [f"of the model: {listed}{where}; name it: --model config.json, or a catalogue name{says}"]


def _place_of_model(name: str, read: LaunchSettings, table: LaunchTable) -> str:
    """Where a file would name its model; an option of the training script stands in no file of settings."""
    of_the_script = name in table.rows and table.rows[name].key.startswith("--") and read.form in ("yaml", "json")
    if name in table.rows and table.rows[name].key == name:
        return ""
    return f" ({table.rows[name].key} of the training script)" if of_the_script else place_of(name, read, table)


def _settable(key: str) -> bool:
    """Whether --set takes a key for a setting rather than for a variable."""
    return key.startswith("--") or "." in key
