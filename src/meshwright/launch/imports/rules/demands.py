"""Demands: what a framework demands of the settings of a launch file beside one another, as data."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache, partial
from importlib import resources
from typing import Any, NamedTuple

from meshwright.errors import any_of
from meshwright.launch.facts import Facts, holds
from meshwright.launch.framework import Value
from meshwright.launch.imports.rules.conditions import Said, fulfilled, keys_of
from meshwright.launch.imports.rules.nearest import nearest_word
from meshwright.launch.imports.spellings.numbers import whole_number
from meshwright.launch.spelling import Settings
from meshwright.launch.table import launch_table
from meshwright.specs.base import Spec
from meshwright.specs.like import over_like
from meshwright.text_files import packaged_table

FILES = resources.files("meshwright.launch.imports.rules") / "demands"
FARTHEST = 1000
"""Whole numbers on either side of a value that are tried for the nearest one that is accepted."""
_FLAG = re.compile(r"--[\w-]+")
_FILLED = re.compile(r"\{([\w.-]+)\}")


class Demand(Spec):
    """One thing that a framework checks of the settings before it trains."""

    name: str
    facts: tuple[str, ...] = ()
    """Facts of the plan and its question under which it looks, by their names in `facts`."""
    when: tuple[str, ...]
    """Conditions under which it looks; see `conditions.fulfilled`."""
    needs: tuple[str, ...]
    """Conditions that must hold then."""
    why: str
    nearest: str = ""
    """The nearest change; a setting in braces stands for its value."""
    solve: str = ""
    """The setting whose nearest whole number that is accepted is the change, or another one beside `nearest`."""
    source: str
    """Where it looks."""


class Demands(Spec):
    """What one framework demands."""

    source: str
    defaults: dict[str, Value] = {}
    """Values of settings where they are left out."""
    demands: tuple[Demand, ...]


class FileRule(NamedTuple):
    """One rule about the settings of a launch file, and whether it keeps it."""

    name: str
    kept: bool
    source: str
    """Where the framework looks at it."""
    keys: tuple[str, ...] = ()
    """Settings that break it."""
    reason: str = ""
    """What is wrong, with the nearest change; empty where it is kept."""
    warning: str = ""
    """What it needs of the environment that the file itself does not set; empty where it needs nothing."""


@cache
def demands_of(name: str) -> Demands | None:
    """What the framework of a launch table demands, or another one that it is `like`; None where nothing is known."""
    read = _entry(name)
    if not read:
        return None
    sources = read.pop("shared", {})
    shared = [{"name": name, "source": source} | _shared()[name] for name, source in sources.items()]
    own = [over_like(each, partial(_in_fields, name, each["name"])) for each in read["demands"]]
    return Demands(**read | {"demands": [*shared, *own]})


def _entry(name: str) -> dict[str, Any]:
    """What the file of that name says; nothing where there is none."""
    file = FILES / f"{name}.toml"
    return over_like(tomllib.loads(file.read_text("utf-8")), _entry) if file.is_file() else {}


def _in_fields(framework: str, name: str, other: str) -> dict[str, Any]:
    """The demand of that name of another framework, with the fields in which recipes of this one say its flags."""
    table = launch_table(framework)
    theirs = next(each for each in _entry(other)["demands"] if each["name"] == name)
    flags = {*_FLAG.findall(" ".join((*theirs["when"], *theirs["needs"])))}

    def spelled(words: str) -> str:
        return _FLAG.sub(lambda flag: table.key_in_file(flag[0]) if flag[0] in flags else flag[0], words)

    return {key: [*map(spelled, each)] if isinstance(each, list) else spelled(each) for key, each in theirs.items()}


@cache
def _shared() -> dict[str, dict[str, Any]]:
    """Demands that several frameworks have alike, by name, without their sources."""
    return packaged_table("meshwright.launch.imports.rules", "shared_demands.toml")


def demanded(name: str, said: Said, facts: Facts) -> Iterator[FileRule]:
    """Every demand of a framework, kept or broken; facts: of the plan and its question, none where they are not known.

    A demand that rests on what the file leaves open counts as kept.
    """
    demands = demands_of(name)
    if demands is None:
        return
    said = Said(said.settings, said.open, said.whole, demands.defaults)
    for demand in demands.demands:
        source = demand.source if re.match(r"[\w-]+/", demand.source) else f"{demands.source} {demand.source}"
        looks = _looks(demand, said, facts)
        broken = _broken(demand, said) if looks else []
        conditions = (*demand.when, *broken) if broken else ()
        keys = dict.fromkeys(said.name(key) for each in conditions for key in keys_of(each))
        named = tuple(key for key in keys if said.has(key))
        reason = _reason(demand, broken, named, said) if broken else ""
        warning = _warning(demand, said) if looks and not broken else ""
        yield FileRule(demand.name, kept=not broken, source=source, keys=named, reason=reason, warning=warning)


def _broken(demand: Demand, said: Said) -> list[str]:
    """The conditions that a demand makes and that do not hold."""
    return [condition for condition in demand.needs if fulfilled(condition, said) is False]


def _looks(demand: Demand, said: Said, facts: Facts) -> bool:
    asked = all(name in facts and holds(name, facts) for name in demand.facts)
    return asked and all(fulfilled(condition, said) for condition in demand.when)


def _warning(demand: Demand, said: Said) -> str:
    """What a demand needs of variables of the environment that nothing in the file sets; empty where it needs none."""
    named = {key for each in demand.needs for key in keys_of(each) if key.isupper()}
    unset: Settings = dict.fromkeys(named - said.settings.keys() - said.open, "")
    empty = Said(unset | said.settings, said.open, said.whole, said.defaults)
    if not unset or all(fulfilled(each, empty) is not False for each in demand.needs):
        return ""
    return f"{demand.nearest} comes from the environment, which this file does not set: {demand.why}"


def _reason(demand: Demand, broken: list[str], named: tuple[str, ...], said: Said) -> str:
    given = ", ".join(_spelled(key, said.settings[key]) for key in named)
    wanted = [key for each in broken if not each.startswith("not ") for key in keys_of(each)]
    without = [key for key in wanted if said.has(key) is False and key not in said.defaults]
    listed = any_of(dict.fromkeys(without))
    change = _nearest(demand, broken, said)
    return f"{given}{f' without {listed}' if listed else ''}: {demand.why}{f'; nearest: {change}' if change else ''}"


def _spelled(key: str, value: Value) -> str:
    words = value if isinstance(value, list) else [value]
    return key if value is True and key.startswith("--") else f"{key} {' '.join(map(str, words))}"


def _nearest(demand: Demand, broken: list[str], said: Said) -> str:
    """The nearest change with which a demand is kept; empty where none is known."""
    if not demand.nearest and not demand.solve:
        key, _, words = broken[0].partition(" in ")
        return f"{key} {nearest_word(str(said.settings[key]), words.split())}"
    number = _solved(demand, said) if demand.solve else None
    spelled = " ".join(map(said.name, demand.nearest.split(" ")))
    said_so = _FILLED.sub(lambda each: str(said.value(each[1])), spelled)
    return " or ".join(filter(None, (f"{demand.solve} {number}" if number else "", said_so)))


def _solved(demand: Demand, said: Said) -> int | None:
    """The whole number nearest to the value of a setting with which a demand is kept; of two, the lower one. None where
    none is near, or the value is no number of a usual size.
    """
    start = whole_number(said.value(demand.solve))
    if start is None:
        return None

    def kept(number: int) -> bool:
        settings: Settings = said.settings | {demand.solve: number}
        return all(fulfilled(each, Said(settings, said.open, said.whole, said.defaults)) for each in demand.needs)

    tried = (number for step in range(1, FARTHEST) for number in (start - step, start + step) if number > 0)
    return next((number for number in tried if kept(number)), None)
