"""File rules: what a framework refuses of a launch file itself, each with the lines that break it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from meshwright.launch.facts import Facts
from meshwright.launch.imports.dialects import deepspeed
from meshwright.launch.imports.rules.conditions import Said
from meshwright.launch.imports.rules.demands import FileRule, demanded
from meshwright.launch.imports.rules.known_fields import field_rules
from meshwright.launch.imports.rules.misspelt import misspelt_rules
from meshwright.launch.imports.rules.options import option_rules
from meshwright.launch.imports.spellings.deepspeed_json import deepspeed_file, engine_settings
from meshwright.launch.readers.limits import line_of, named_lines
from meshwright.launch.readers.settings import LaunchSettings
from meshwright.launch.readers.shell.expansion import UNKNOWN
from meshwright.launch.spelling import Settings, understand
from meshwright.launch.table import launch_table

_DEEPSPEED = "deepspeed"


def file_rules(
    name: str, read: LaunchSettings, known: Settings, facts: Facts, given: Collection[str] = ()
) -> tuple[FileRule, ...]:
    """Every rule about the settings of a file, and of the DeepSpeed file that it names, kept or broken.

    name: of its dialect; known: its settings as they are spelled, with variables of the environment; facts: of
    the plan and its question, none where they are not known; given: settings that are said beside the file.
    """
    engine = deepspeed_file(read)
    named = engine_settings(engine)
    said = _said(read, named | {f"{_DEEPSPEED}.{key}": value for key, value in named.items()} | known)
    rules = [*option_rules(name, read, said, given), *field_rules(name, read), *demanded(name, said, facts)]
    if read.form != "shell" or read.absent or not said.whole:
        rules = [rule._replace(warning="") for rule in rules]
    of_engine = _rules_of_deepspeed(engine, known, facts) if engine else ()
    return (*(with_line(rule, read) for rule in rules), *of_engine)


def _rules_of_deepspeed(file: LaunchSettings, changed: Settings, facts: Facts) -> Iterator[FileRule]:
    """The rules about the DeepSpeed file that another one names, each with that name; changed: values that go before
    those in it.
    """
    said = {each.key: changed.get(each.key, each.value) for each in file.settings if each.value is not None}
    table = launch_table(_DEEPSPEED)
    rules = [*demanded(_DEEPSPEED, _said(file, said), facts)]
    rules += misspelt_rules(deepspeed.DIALECT, understand(said, table).unknown, said, table)
    for rule in rules:
        told = with_line(rule, file)
        reason = f"{file.path}, {told.reason}" if told.reason else ""
        yield told._replace(name=f"{_DEEPSPEED}_{rule.name}", reason=reason)


def broken_lines(rules: Collection[FileRule]) -> Iterator[str]:
    """What is wrong by those rules that are broken."""
    return (rule.reason for rule in rules if not rule.kept)


def _said(read: LaunchSettings, known: Settings) -> Said:
    """The settings with what is open in them; a file is not whole where conditions or words of it are undecided."""
    opened = {each.key for each in read.settings if each.key and each.key not in known}
    opened |= {key for key, value in known.items() if value == "auto" or UNKNOWN.search(str(value))}
    whole = not read.undecided and all(each.key for each in read.settings)
    return Said(known, frozenset(opened), whole)


def with_line(rule: FileRule, read: LaunchSettings) -> FileRule:
    """A broken rule with the lines of the settings that break it."""
    lines = {each.key: each.line for each in read.settings} | {
        name: line_of(read.text, places[-1].start())
        for name in read.environment
        if (places := [*re.finditer(rf"\b{re.escape(name)}\s*[=:]", read.text)])
    }
    found = sorted({lines[key] for key in rule.keys if lines.get(key)})
    return rule._replace(reason=f"{named_lines(found)}: {rule.reason}") if found else rule
