"""Table: how one framework, at one release, spells the fields of a plan and its question, for writing and for reading.

The `fields.toml` of a folder of `launch/frameworks/` is read forwards by `spelling.settings_of` and backwards by
`spelling.understand`. With it goes what is set beside the fields, see `framework`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, Literal

from pydantic import model_validator

from meshwright.errors import UnknownName
from meshwright.launch.framework import Setting, Value, framework_files, framework_text, launch_file, shell_words
from meshwright.launch.unplanned import Carried, MockData
from meshwright.schedules.records import SCHEDULE_NAMES
from meshwright.specs.base import Spec
from meshwright.specs.like import over_like

Conditions = tuple[str, ...]
"""Names of facts that all hold."""
WITHOUT_ROW: dict[str, Value] = {
    "job.mtp_layers": 0,
    "runtime.offloaded_layers": 0,
    "runtime.offloaded_modules": [],
    "runtime.least_offloaded_elements": 2**20,
}
"""What few frameworks have a setting for: the fields that all others have at these values alone."""


class Row(Spec):
    """One field that one setting holds."""

    key: str
    """A flag, or the path of a setting with dots."""
    form: Literal[
        "count",
        "number",
        "switch",
        "text",
        "literal",
        "layout",
        "words",
        "bridge_modules",
        "module_names",
        "layer_marks",
        "window",
    ] = "count"
    """How the value is written; see `forms`."""
    values: dict[str, Value] = {}
    """The framework's values by those of the field, where they are not the same."""
    schedules_of: str = ""
    """The framework whose names of pipeline schedules are the values, as the records of `schedules` have them."""
    default: Value | None = None
    """The field's value where the setting is left out; with fields in braces, their product or quotient. None: unknown
    without it."""
    when: tuple[str, ...] = ()
    """Conditions, by their names in `facts`, under which it is written; it is always read."""
    aliases: tuple[str, ...] = ()
    """Other keys that are read like it, of older releases or shorter."""

    @model_validator(mode="before")
    @classmethod
    def _with_schedules(cls, entry: dict[str, Any]) -> dict[str, Any]:
        whose = entry.get("schedules_of")
        return entry | {"values": schedules_of(whose)} if whose else entry


def schedules_of(framework: str) -> dict[str, Value]:
    """What a framework calls the pipeline schedules that it has, by their own names.

    >>> schedules_of("nanotron")
    {'1f1b': '1f1b', 'gpipe': 'afab'}
    """
    theirs = {name: each.record.framework_names.get(framework) for each, name in SCHEDULE_NAMES.items()}
    return {name: called for name, called in theirs.items() if called}


class Case(Spec):
    """Values of some fields that several settings spell together."""

    fields: dict[str, Value] = {}
    settings: dict[str, Value] = {}
    """What says so; false: it must be left out. A field in braces stands for its value."""
    also: dict[str, Value] = {}
    """What is written besides and tells nothing about the fields."""
    when: tuple[str, ...] = ()
    """Conditions under which it is written."""
    read_only: bool = False
    """Another spelling of the same, which is never written."""


class Choice(Spec):
    """Cases of which the first that holds is written, and the first whose settings are there is read."""

    about: str
    cases: tuple[Case, ...]

    @property
    def part(self) -> str:
        """What its fields are of: `model`, `plan`, `job` or `runtime`; empty where it says none."""
        names = [name for case in self.cases for name in case.fields]
        filled = [str(value) for case in self.cases for value in case.settings.values() if "{" in str(value)]
        return (names or [each.strip("{") for each in filled] or [""])[0].partition(".")[0]


class LaunchTable(Spec):
    """The settings of one framework at one release."""

    called: ClassVar[str] = "the launch table"

    framework: str
    release: str
    """What the settings were read from, and what its own parser was tried with."""
    installed: str = ""
    """What to install for its files, where that is not what `release` says by itself."""
    read_in_release: tuple[str, ...] = ()
    """Runtimes whose rules and prices were read in this very release."""
    runtimes: tuple[str, ...]
    """Runtimes whose plans it writes; what is read is priced as of the first."""
    file: Literal["arguments", "toml", "python", "json", "yaml"]
    """What the settings are written into."""
    source: str
    writer: Literal["arguments", "filled", "python", "recipe", "trained"] | None = None
    """The module of `writers` that writes its files; those that are only read need none."""
    configuration: str = ""
    """The file that holds the plan, where that is not the start script."""
    start: str = ""
    """What torchrun starts, with its arguments."""
    launcher: Literal["torchrun", "accelerate"] = "torchrun"
    """What starts the ranks of a node."""
    made_in: Literal["half", "fp32"] = "half"
    """Of a training script of ours: the format in which a process makes the whole model on its host."""
    made_sharded: bool = False
    """It makes a model that ZeRO 3 shards piece by piece instead."""
    beside: tuple[str, str] | None = None
    """Of arguments that a JSON file stands beside: the flag that names it, and its name."""
    numa_binding: bool = False
    """Its PyTorch is 2.9 or newer, whose torchrun can bind ranks to the cores beside their accelerator."""
    masks_documents: str = ""
    """The setting with which its loader tells attention where documents end; empty: it has none."""
    rows: dict[str, Row]
    """By the name of the field."""
    choices: tuple[Choice, ...] = ()
    models: dict[str, str] = {}
    """Of a framework that has a registry of models and spells none: its names by those of the catalogue."""
    registered_positions: dict[str, int] = {}
    """Of a registry that has a length beyond which it refuses sequences: the tokens, by the first word of its names."""
    registered_rotary: dict[str, dict[str, Value]] = {}
    """Rotary positions of its models, in its own words, by the first word of their names or by the name of one."""
    registered_otherwise: dict[str, str] = {}
    """Models of the catalogue that its registry has otherwise: what differs."""
    own_models: dict[str, str] = {}
    """What a framework with recipes builds models with that its settings here do not say, by their `model_type`s; empty
    where it has nothing for one."""
    spread_experts: tuple[str, ...] = ()
    """Of a framework that puts experts of some models alone on ranks of their own: their `model_type`s."""
    split_weights: tuple[str, ...] = ()
    """Of a framework that splits weights of some models alone over tensor-parallel ranks: their `model_type`s."""
    fixed: dict[str, Value] = {}
    """Fields that it has at one value alone, `WITHOUT_ROW` among them."""
    settings: tuple[Setting, ...] = ()
    """What is set beside the fields."""
    carried: tuple[Carried, ...] = ()
    recipe: dict[str, tuple[str, ...]] = {}
    """Of settings that a recipe in Python has elsewhere than at `model`: the fields, some with a value of their own."""
    kernels: dict[str, dict[str, Conditions]] = {}
    """Implementations that its files run, by the field of a runtime: what must hold of each in `facts`."""
    context_attention: dict[Literal["plain", "windows", "sinks"], tuple[str, ...]] = {}
    """Of a training script that makes its models with transformers: the attention kernels that context parallelism
    takes, of models without anything special and of those with windows or sinks."""
    script: dict[str, str] = {}
    """Of a framework with a training script beside its configuration: the fields that constants of the script hold."""
    to_fill: dict[str, str] = {}
    """Settings that nobody but the user knows, with what belongs there."""
    whole_numbers: tuple[str, ...] = ()
    """Of those, the numbers that the framework takes without a point, as a config.json may not spell them."""
    mock_data: MockData | None = None
    """Of a framework that makes data up itself."""
    asked_when: dict[str, tuple[str, ...]] = {}
    """Of those that not every plan asks for: the conditions, by their names in `facts`, under which it does."""
    answered_by: dict[str, tuple[str, ...]] = {}
    """Of those, the settings of which each says it too."""
    unpriced: dict[str, str] = {}
    """Settings that change memory or time and are not priced, with what they change."""
    as_priced: dict[str, Value] = {}
    """Values of unpriced settings with which they change nothing."""
    refused: dict[str, str] = {}
    """Settings of models that are not modelled, with what they are; a `*` at the end stands for the rest of a name."""
    asked_as: dict[str, str] = {}
    """Where what is left open stands in the words of its files, and what --set takes; by the name of the field, or by
    what a choice is about."""
    switched_as: tuple[str, ...] = ()
    """Names by which behaviours of `imports` look at its settings as at those of other tables."""
    ignored: tuple[str, ...] = ()
    """Settings that change neither; a `*` at the end stands for the rest of a name."""

    @property
    def keys(self) -> set[str]:
        """Every setting that it can write or read as a field."""
        own = {key for row in self.rows.values() for key in (row.key, *row.aliases)}
        cases = [case for choice in self.choices for case in choice.cases]
        return own | {key for case in cases for key in (*case.settings, *case.also)}

    @property
    def copies(self) -> set[str]:
        """Settings that are written as copies of fields which others tell, as positions are of a sequence's length."""
        beside = [pair for choice in self.choices for case in choice.cases for pair in case.also.items()]
        return {key for key, value in beside if isinstance(value, str) and value.strip("{}") in self.rows}

    def recipe_targets(self, key: str, value: Value | None) -> tuple[str, ...]:
        """Fields of a recipe that say a setting, some with a value of their own: those that the table names, else the
        one of `model` that is called as the setting.
        """
        own = f"model.{key.removeprefix('--').replace('-', '_')}"
        return self.recipe.get(f"{key} {value}") or self.recipe.get(key, (own,))

    def assignments(self, key: str, value: Value) -> list[str]:
        """The lines of a recipe that say a flag, or a key with lines of its own for this value; itself else."""
        if not self.recipe or not (key.startswith("--") or f"{key} {value}" in self.recipe):
            if self.file != "arguments":
                return [f"{key} {value}"]
            return [key if value is True else f"{key} {shell_words(value)}"]
        targets = self.recipe_targets(key, value)
        return [target if " = " in target else f"{target} = {value!r}" for target in targets]

    def as_recipe(self, settings: Mapping[str, Value]) -> dict[str, Value]:
        """Settings as the fields of a recipe that say them, where the framework has recipes; as they are else."""
        fields: dict[str, Value] = {}
        for key, value in settings.items():
            for target in self.recipe_targets(key, value) if self.recipe and key.startswith("--") else (key,):
                name, _, words = target.partition(" = ")
                fields[name] = {"True": True, "False": False}.get(words, words or value)
        return fields

    @property
    def fields_of_recipes(self) -> frozenset[str]:
        """Where a recipe may say what the table has as flags; nothing where the framework has no recipes."""
        flags = {key for key in self.keys if key.startswith("--")} if self.recipe else set()
        targets = [target for key in flags for target in self.recipe_targets(key, None)]
        return frozenset(target for target in targets if " = " not in target)

    def key_in_file(self, key: str) -> str:
        """A flag as people write it: the first field of a recipe that says it, where the framework has recipes."""
        targets = self.recipe_targets(key, None) if self.recipe and key.startswith("--") else ()
        return targets[0].partition(" = ")[0] if targets else key


def launch_tables() -> list[str]:
    """Names of the tables."""
    return framework_files("fields")


@cache
def launch_table(name: str) -> LaunchTable:
    """The table of that name; raises `UnknownName` with the nearest ones."""
    if name not in launch_tables():
        raise UnknownName("framework with a launch table", name, launch_tables())
    return LaunchTable(**table_entry(name))


def table_entry(name: str) -> dict[str, Any]:
    """The table of that name as its files say it; one that is like another adds its rows."""
    entry = over_like(tomllib.loads(framework_text(name, "fields")), table_entry, _with_rows)
    without = {field: value for field, value in WITHOUT_ROW.items() if field not in entry["rows"]}
    return entry | {"fixed": without | entry.get("fixed", {}), "settings": launch_file(name).settings}


def _with_rows(like: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    return like | own | {"rows": like["rows"] | own.get("rows", {})}


def table_of(runtime: str) -> str | None:
    """The name of the table of a runtime's own framework and release; None where there is none."""
    naming = (name for name in launch_tables() if _may_name(name, runtime))
    return next((name for name in naming if runtime in launch_table(name).runtimes), None)


def _may_name(name: str, runtime: str) -> bool:
    """Whether the file of a table names a runtime among its own, as its text tells before it is parsed."""
    lines = framework_text(name, "fields").splitlines()
    return any(line.startswith("runtimes") and f'"{runtime}"' in line for line in lines)


def table_named(name: str) -> str:
    """A table by its own name or by that of its runtime, as megatron-lm by megatron-core; other names as they are.

    >>> table_named("megatron-core"), table_named("torchtitan"), table_named("warp-drive")
    ('megatron-lm', 'torchtitan', 'warp-drive')
    """
    return name if name in launch_tables() else table_of(name) or name
