"""Places: where in a launch file a setting would stand that is not there, or stands without a value."""

from __future__ import annotations

from meshwright.launch.readers.limits import line_of
from meshwright.launch.readers.settings import OBJECT, FileSetting, LaunchSettings
from meshwright.launch.table import LaunchTable


def place_of(key: str, read: LaunchSettings, table: LaunchTable) -> str:
    """Beside which setting of the file, in which line, another one would stand: one of its own section, else the one
    that is nearest to it in the table.

    key: as the table spells it, or the name of a field.
    """
    there = [each for each in read.settings if each.line and each.key and not each.key.endswith(OBJECT)]
    by_name = {plain_key(each.key): each for each in there}
    order = [name for field, row in table.rows.items() for name in (field, row.key)]
    at = order.index(key) if key in order else 0
    nearest = sorted(range(len(order)), key=lambda index: abs(index - at))
    section = key.rpartition(".")[0]
    own = [each for each in there if section and each.key.rpartition(".")[0] == section]
    others = [by_name[plain_key(order[index])] for index in nearest if plain_key(order[index]) in by_name]
    nearest_setting = next(iter([*own, *others, *there]), None)
    if nearest_setting is None:
        return f" (the file has no settings up to its end, line {line_of(read.text, len(read.text))})"
    return f" (it would stand beside {nearest_setting.key} in line {nearest_setting.line})"


def kin_of(key: str, read: LaunchSettings, table: LaunchTable) -> list[FileSetting]:
    """The settings of a file that its table knows, the most akin to a new one first: of the same part of the question,
    then nearest to it in the table.
    """
    order = [(field.partition(".")[0], name) for field, row in table.rows.items() for name in (row.key, *row.aliases)]
    order += [
        (choice.part, name)
        for choice in table.choices
        for case in choice.cases
        for name in (*case.settings, *case.also)
    ]
    at = {name: (part, index) for index, (part, name) in reversed([*enumerate(order)])}
    part, index = at.get(key, ("", 0))
    there = [each for each in read.settings if each.key in at and each.line]
    return sorted(there, key=lambda each: (at[each.key][0] != part, abs(at[each.key][1] - index)))


def left_to_the_script(key: str, read: LaunchSettings, name: str = "") -> str:
    """That a file leaves a setting to the training script, with its line and what says it; empty where it does not.

    name: what --set takes in place of the key.
    """
    auto = next((each for each in read.settings if each.key == key and each.value == "auto"), None)
    if auto is None:
        return ""
    return f"line {auto.line}: {key} is auto, and the arguments of the training script say it: --set {name or key}=..."


def plain_key(key: str) -> str:
    """A key by its last part, with one sign between its words."""
    return key.rpartition(".")[2].lstrip("-").replace("-", "_")
