"""Launch file: what of an existing one was understood, and what is not priced; JSON and screen."""

from __future__ import annotations

from typing import Any

from meshwright.answers.document.blocks import Block, Bullets, Heading, Lines
from meshwright.answers.words import plural
from meshwright.errors import Fault
from meshwright.launch.imports.question import LaunchQuestion
from meshwright.launch.readers.limits import named_lines

SHOWN = 12
"""Names of settings that a line lists."""


def launch_file_entry(question: LaunchQuestion | None) -> dict[str, Any]:
    """What was read, as JSON: the framework, what changes memory or time and is not priced, and what is unknown;
    nothing where the question came otherwise.
    """
    if question is None:
        return {}
    understood = question.understood
    entry = {
        "path": question.settings.path,
        "framework": question.table.framework,
        "release": question.table.release,
        "settings": len(question.settings.settings),
        "not_priced": understood.unpriced,
        "ignored": sorted(understood.ignored),
        "unknown": sorted(understood.unknown),
        "absent_scripts": sorted(set(question.settings.absent.values())),
        "undecided_lines": sorted(question.settings.undecided),
        "notes": list(question.notes),
        "warnings": launch_file_warnings(question),
        "broken": [{"rule": fault.where, "reason": fault.what} for fault in launch_file_faults(question)],
    }
    return {"launch_file": entry}


def launch_file_faults(question: LaunchQuestion | None) -> list[Fault]:
    """The rules about its settings that a file breaks; nothing without a file."""
    return [Fault(rule.name, rule.reason) for rule in question.rules if not rule.kept] if question else []


def launch_file_warnings(question: LaunchQuestion) -> list[str]:
    """What its framework needs that the file leaves to the environment, without which it refuses the file."""
    return [rule.warning for rule in question.rules if rule.warning]


def launch_file_screen(question: LaunchQuestion | None) -> tuple[Block, ...]:
    """The file, its framework, and where it and the answer differ; nothing without a file."""
    if question is None:
        return ()
    read, table, understood = question.settings, question.table, question.understood
    lines = {each.key: each.line for each in read.settings}
    places = {key: f"line {line}: " for key, line in lines.items() if line}
    unpriced = [f"{places.get(key, '')}{key} is not priced ({what})" for key, what in understood.unpriced.items()]
    items = [*unpriced, *question.notes]
    if unknown := {*understood.unknown} - {key for rule in question.rules for key in rule.keys}:
        items.append(f"unknown settings, ignored: {_listed(sorted(unknown))}")
    if read.absent:
        listed = ", ".join(f"{name} (line {line})" for line, name in read.absent.items())
        items.append(f"files not found next to it, so their settings were not read: {listed}")
    if read.undecided:
        where = named_lines(read.undecided, len(read.undecided))
        items.append(f"the conditions on {where} depend on the machine; neither branch was read")
    head = Lines((f"Launch file: **{read.path}**", f"{table.framework} ({table.release}): {_counts(question)}"))
    broken = tuple(fault.what for fault in launch_file_faults(question))
    refused = (Heading(f"{table.framework} refuses this file", 3), Bullets(broken)) if broken else ()
    warnings = tuple(launch_file_warnings(question))
    needed = (Heading(f"{table.framework} refuses this file unless", 3), Bullets(warnings)) if warnings else ()
    differing = (Heading("Where the file and the prediction differ", 3), Bullets(tuple(items))) if items else ()
    return head, *refused, *needed, *differing


def _counts(question: LaunchQuestion) -> str:
    """How many settings the file has, and how many of them, if any, change neither memory nor time."""
    read, idle = question.settings, len(question.understood.ignored)
    program = f" for {read.program.rpartition('/')[2]}" if read.form == "shell" else ""
    change = f", of which {idle} {'changes' if idle == 1 else 'change'} neither memory nor time" if idle else ""
    return f"{plural(len(read.settings), 'setting')}{program}{change}"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{', '.join(names[:SHOWN])}{more}"
