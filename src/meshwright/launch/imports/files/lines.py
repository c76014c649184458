"""Lines: where in a launch file stands what is wrong with it."""

from __future__ import annotations

import re
from typing import Any

from meshwright.errors import quoted
from meshwright.launch.imports.files.places import left_to_the_script, place_of, plain_key
from meshwright.launch.readers.limits import line_of
from meshwright.launch.readers.settings import LaunchSettings
from meshwright.launch.spelling import Understood
from meshwright.launch.table import Choice, LaunchTable, Row

_DEGREE = re.compile(
    r"(tensor|pipeline|context|expert|sequence|data)\w*parallel\w*_(size|degree)|parallel_degree|(^|[._])[tpcsed]p_(size|degree)$"
)
"""Keys, with underscores, that say how ranks share the work; one that is not known must not be passed over."""
_EXPERTS = re.compile(r"num[\w-]*experts$")
"""Keys that say a model has experts; under a name that is not known, it must not be taken for a dense one."""
_ABSENT = re.compile(r": a file without ([^ ]+)")
_FIELD = re.compile(r"\{([\w.]+)\}")
_WORD, _QUOTED = re.compile(r"[\w.-]+"), re.compile("'([^']+)'")


def faults_of(read: LaunchSettings, understood: Understood, table: LaunchTable, *, named: bool) -> list[str]:
    """What is wrong with settings, with their lines; of the model only where none is named."""
    of_the_model = _of_the_model(table) if named else ()
    faults = [fault for fault in understood.wrong if not fault.startswith(of_the_model)]
    faults += [
        f"{key} {value} is a degree of parallelism that is not known here: --framework names whose file it is"
        for key, value in understood.unknown.items()
        if _DEGREE.search(key.replace("-", "_")) and _several(value)
    ]
    faults += [
        f"{key} {value}: experts under a name that is not known here; --framework names whose file it is"
        for key, value in understood.unknown.items()
        if _EXPERTS.search(key) and _several(value) and not named
    ]
    return with_lines(faults, read, table)


def _several(value: Any) -> bool:
    """Whether a value is a whole number beyond 1, of any number of digits."""
    text = str(value).lstrip("0")
    return text.isdecimal() and text != "1"


def _of_the_model(table: LaunchTable) -> tuple[str, ...]:
    """How faults of settings begin that say nothing but the model."""
    choices = (f"{choice.about}:" for choice in table.choices if _about_the_model(choice))
    keys = ((row.key, *row.aliases) for name, row in table.rows.items() if name.startswith("model."))
    return (*choices, *(f"{key} " for each in keys for key in each))


def _about_the_model(choice: Choice) -> bool:
    return choice.part == "model" and all(name.startswith("model.") for case in choice.cases for name in case.fields)


def with_lines(faults: list[str], read: LaunchSettings, table: LaunchTable) -> list[str]:
    """Faults, each behind the line of the setting that it names, by its key, by its field or by its value, where the
    file has one.
    """
    found = []
    for fault in faults:
        line, absent = _line(fault, read, table), _ABSENT.search(fault)
        if absent and (auto := left_to_the_script(absent[1], read)):
            found.append(auto)
            continue
        about = fault.partition(":")[0]
        if absent and about in table.asked_as:
            found.append(f"{about}: {table.asked_as[about]}")
            continue
        said = f"line {line}: {fault}" if line else fault
        found.append(said if line or not absent else f"{said}{place_of(absent[1], read, table)}")
    return found


def _line(fault: str, read: LaunchSettings, table: LaunchTable) -> int:
    """Settings of a file that was translated are known by the last part of their keys, or by what they say."""
    settings = [each for each in reversed(read.settings) if each.line and each.key]
    exact = {each.key: each.line for each in settings}
    last = {plain_key(each.key): each.line for each in settings}
    said = {quoted(each.value)[1:-1]: each.line for each in settings if isinstance(each.value, str)}
    fields = {name.rpartition(".")[2]: _keys_of(row, table) for name, row in table.rows.items()}
    words = [word.rstrip(".") for word in _WORD.findall(fault.partition(": a file without")[0])]
    named = [word for index, word in enumerate(words) if index < 2 or set("-_.") & set(word)]
    named += ["model.name"] if fault.startswith("the model ") else []
    names = [key for word in named for key in (word, *fields.get(word.rpartition(".")[2], ()))]
    places = [exact.get(fault.split()[0], 0), *(last.get(plain_key(name), 0) for name in names)]
    places += [said[each] for each in _QUOTED.findall(fault) if each in said]
    return next(filter(None, places), 0) or _of_a_word(words, read)


def _keys_of(row: Row, table: LaunchTable) -> tuple[str, ...]:
    """The keys of a field, behind them those of the fields that it follows from."""
    others = [table.rows[name].key for name in _FIELD.findall(str(row.default)) if name in table.rows]
    return (row.key, *row.aliases, *others)


def _of_a_word(words: list[str], read: LaunchSettings) -> int:
    """The line of a setting that stands in the file where no setting of its own is read: in a document inside of it, or
    with a key that was cut.
    """
    for word in words:
        name = re.escape(plain_key(word)).replace("_", "[-_]")
        found = [*re.finditer(rf"(?<![\w-])(--)?{name}(?![\w-])", read.text)] if set("-_.") & set(word) else []
        if len(found) == 1:
            return line_of(read.text, found[0].start())
    return 0
