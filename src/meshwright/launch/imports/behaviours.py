"""Behaviours: what a launch file switches on or off of how its framework runs."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from meshwright.launch.facts import Facts, facts_of
from meshwright.launch.framework import Setting, Value
from meshwright.launch.imports.import_table import import_table
from meshwright.launch.spelling import Settings, Understood, filled
from meshwright.launch.table import LaunchTable
from meshwright.layout.plan import Plan
from meshwright.specs.base import Spec
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.inputs import Inputs
from meshwright.specs.runtime import Runtime
from meshwright.text_files import packaged_table


class Behaviour(Spec):
    """Changes of a runtime, as `with_behaviours` takes them, and when a file makes them."""

    tables: tuple[str, ...]
    """Launch tables whose settings it looks at, by their names and those that they are `switched_as`."""
    runtimes: tuple[str, ...] = ()
    """Those that have these settings, where a table is priced as several ones; none: all."""
    present: tuple[str, ...] = ()
    """Settings that are all there, with their value where it matters."""
    absent: tuple[str, ...] = ()
    """Settings of which none is there."""
    off: tuple[str, ...] = ()
    """Settings that all say no."""
    changes: tuple[str, ...]
    """`{precision}`: that of the job; `{value}`: of the first setting that is there."""
    note: str = ""
    """What is told where that changes the runtime."""


def runtime_as_set(runtime: Runtime, table: str, settings: Settings, precision: str, notes: list[str]) -> Runtime:
    """The runtime as the settings switch it; what they say as it is anyway changes nothing. notes: those of behaviours
    that change it are added.
    """
    changes = [
        (change.format(precision=precision, value=_value(settings, each)), each.note)
        for each in _behaviours()
        for change in each.changes
        if (not each.runtimes or runtime.framework in each.runtimes) and _switched(each, table, settings)
    ]
    new: list[str] = []
    for change, note in changes:
        before, after = (with_behaviours(runtime, each).replace(replaced=()) for each in (new, [*new, change]))
        if after != before:
            new.append(change)
            notes += [note] if note and note not in notes else []
    return with_behaviours(runtime, new) if new else runtime


def switches(table: str) -> set[str]:
    """Settings of a launch table that switch how its runtime works."""
    names = {
        name.partition(" ")[0]
        for each in _behaviours()
        if _looks_at(each, table)
        for name in (*each.present, *each.absent, *each.off)
    }
    return names | {f"--{name}" for name in names}


def without_switches(understood: Understood, table: str, settings: Settings) -> Understood:
    """What was understood, without the table's switches among what is unknown, and without settings that switch
    something among what is not priced.
    """
    known = switches(table)
    switched = [(*each.present, *each.off) for each in _behaviours() if _switched(each, table, settings)]
    priced = {name.partition(" ")[0] for names in switched for name in names}
    return replace(
        understood,
        unknown={key: value for key, value in understood.unknown.items() if key not in known},
        unpriced={key: what for key, what in understood.unpriced.items() if key not in priced},
    )


def _switched(behaviour: Behaviour, table: str, settings: Settings) -> bool:
    """Whether the settings of a file make the changes."""
    return (
        _looks_at(behaviour, table)
        and all(_says(settings, name) for name in behaviour.present)
        and not any(_says(settings, name) for name in behaviour.absent)
        and all(_given(settings, name) is False for name in behaviour.off)
    )


def _looks_at(behaviour: Behaviour, table: str) -> bool:
    return not {table, *import_table(table).switched_as}.isdisjoint(behaviour.tables)


def left_out(plan: Plan, inputs: Inputs, table: LaunchTable, settings: Settings) -> list[str]:
    """What the price rests on and the file leaves out or says otherwise: switches, variables of the environment, and
    settings whose other values are not priced.
    """
    facts, notes = facts_of(plan, inputs), []
    for each in table.settings:
        if not each.asks(facts):
            continue
        missing = [
            line
            for key, value in each.values(facts).items()
            if table.recipe.get(key) != () and _differs(each, key, facts, settings)
            for line in _lines(key, filled(value, facts), table)
        ]
        if missing:
            notes.append(f"priced as if the file set {' and '.join(missing)}: {each.why.format_map(facts)}")
    return notes


def _lines(key: str, value: Value, table: LaunchTable) -> list[str]:
    """What a file would say: lines of a recipe, a flag, or a key with its value."""
    if table.recipe and key.startswith("--"):
        return table.assignments(key, value)
    return [key if value is True else f"{key}={value}"]


def _differs(setting: Setting, key: str, facts: Facts, settings: Settings) -> bool:
    """Whether a file does not say what a setting is priced as; what a recipe spells in other fields is on or off."""
    wanted, given = setting.values(facts)[key], settings.get(key)
    if key in setting.left_out and (isinstance(wanted, bool) or given is not True):
        return not _same(settings.get(key, setting.left_out[key]), filled(wanted, facts))
    return (wanted is True or key.isupper() or given is True) and not _is_set(settings, key)


def _value(settings: Settings, behaviour: Behaviour) -> Value | None:
    """The value of the first setting that a behaviour looks at, as a whole number where it is one."""
    given = _given(settings, next(iter(behaviour.present), ""))
    return int(given) if isinstance(given, float) and given.is_integer() else given


def _given(settings: Settings, name: str) -> Value | None:
    """The value of a setting, or of the argument of that name."""
    return settings.get(name, settings.get(f"--{name}"))


def _says(settings: Settings, name: str) -> bool:
    """The same as `_is_set`, of a setting or of the argument of that name."""
    return _is_set(settings, name) or _is_set(settings, f"--{name}")


def _same(one: Value, other: Value) -> bool:
    """Whether two values are equal, as numbers where both are."""
    try:
        return float(str(one)) == float(str(other))
    except ValueError:
        return str(one).lower() == str(other).lower()


def _is_set(settings: Settings, name: str) -> bool:
    key, _, wanted = name.partition(" ")
    given = settings.get(key, False)
    spelled = str(given), " ".join(map(str, given)) if isinstance(given, list) else ""
    return given is not False and (not wanted or wanted.lower() in map(str.lower, spelled))


@cache
def _behaviours() -> tuple[Behaviour, ...]:
    entries = packaged_table("meshwright.launch.imports", "behaviours.toml")["behaviours"]
    return tuple(Behaviour(**entry) for entry in entries)
