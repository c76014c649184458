"""Arguments: a command line of flags, in a start script for bash, and what a framework reads beside it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from meshwright.launch.export import Launch
from meshwright.launch.framework import Value
from meshwright.launch.table import LaunchTable
from meshwright.launch.writers.blanks import blanks, is_flag, words_of
from meshwright.launch.writers.comments import commented
from meshwright.launch.writers.start import batch_file, torchrun
from meshwright.launch.writers.trees import json_text

PARTS = {"model": "MODEL", "plan": "PLAN", "job": "JOB"}
"""The array of a script that a field's settings stand in, by the first word of its name."""
OTHERS = "RUNTIME"
"""The array of what says no field: how the framework works, as it is priced."""


def argument_files(launch: Launch, notes: Sequence[str]) -> dict[str, str]:
    """The start script, the file that it names and the Slurm batch file, by name. notes: what all say first."""
    own = {key: value for key, value in launch.settings.items() if not is_flag(key) and not key.isupper()}
    beside = {launch.table.beside[1]: json_text(own, notes)} if launch.table.beside else {}
    return {"train.sh": _script(launch, notes), **beside, "job.slurm": batch_file(launch, notes)}


def _script(launch: Launch, notes: Sequence[str]) -> str:
    table, settings, homes = launch.table, launch.settings, _homes(launch.table)
    arrays: dict[str, dict[str, Value]] = {name: {} for name in (*PARTS.values(), OTHERS)}
    for key, value in settings.items():
        arrays[homes.get(key, OTHERS)][key] = value
    exports = [f"export {key}={shlex.quote(str(value))}" for key, value in settings.items() if key.isupper()]
    lines = ["#!/bin/bash", *commented(notes), "", "set -euo pipefail", *exports, ""]
    flag, name = table.beside or ("", "")
    lines += ['HERE="$(cd "$(dirname "$0")" && pwd)"', ""] if name else []
    for array, part in arrays.items():
        lines += [f"{array}=("]
        lines += [f"    {' '.join(map(shlex.quote, words))}" for words in words_of(part)]
        lines += [")"]
    asked, holding = blanks(launch)
    lines += ["", *asked]
    lines += [f"# Anything else that {table.framework} takes can follow on the command line of this script.", ""]
    every = " ".join(f'"${{{array}[@]}}"' for array in (*arrays, *holding)) + (
        f' {flag} "$HERE/{name}"' if name else ""
    )
    lines += [torchrun(launch) + f'    {table.start} {every} "$@"', ""]
    return "\n".join(lines)


def _homes(table: LaunchTable) -> dict[str, str]:
    """The array of every setting that says a field."""
    homes = {row.key: PARTS.get(field.partition(".")[0], OTHERS) for field, row in table.rows.items()}
    homes |= {key: PARTS["model"] for each in table.carried for key in each.settings}
    for choice in table.choices:
        part = PARTS.get(choice.part, OTHERS)
        homes |= {key: part for case in choice.cases for key in (*case.settings, *case.also) if key not in homes}
    return homes
