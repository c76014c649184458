"""Options: whether the parser of the script that a launch file starts takes what the file gives it."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Collection, Iterator
from functools import cache
from importlib import resources

from meshwright.launch.imports.rules.conditions import Said
from meshwright.launch.imports.rules.demands import FileRule
from meshwright.launch.imports.rules.nearest import near_option, nearest_word
from meshwright.launch.readers.settings import LaunchSettings
from meshwright.specs.base import Spec

FILES = resources.files("meshwright.launch.imports.rules") / "options"
SHOWN = 8
"""Options that a reason lists, those first that are nearly others."""
_OPTION = re.compile(r"--[A-Za-z][\w-]*")


class Options(Spec):
    """The options of one script whose parser refuses any other."""

    script: str
    release: str
    source: str
    switches: tuple[str, ...]
    """Those that take no value."""
    valued: tuple[str, ...]
    older: tuple[str, ...]
    """Those that earlier releases had besides."""
    forks: dict[str, tuple[str, ...]]
    """Those that copies of the script have besides, by the repository."""
    values: dict[str, tuple[str, ...]]
    """Words that an option takes, of this and of earlier releases, where it does not take any."""

    @property
    def known(self) -> set[str]:
        """Every option that some release has."""
        return {*self.switches, *self.valued, *self.older}


@cache
def options_of(name: str) -> Options | None:
    """The options of the script of a launch table; None where they are not known."""
    file = FILES / f"{name}.toml"
    return Options(**tomllib.loads(file.read_text("utf-8"))) if file.is_file() else None


def option_rules(name: str, read: LaunchSettings, said: Said, allowed: Collection[str]) -> Iterator[FileRule]:
    """Whether every option is one of the script's, with a value that it takes; nothing of a script with options of its
    own, as forks have.

    allowed: options that the user says the script has.
    """
    options = options_of(name)
    if options is None or read.form == "python" or read.program.rpartition("/")[2] != options.script:
        return
    given = [key for key in said.settings if _OPTION.fullmatch(key)]
    unknown = [key for key in given if key not in options.known and key not in allowed]
    if _of_a_fork(unknown, options):
        return
    where = f"{options.source}, of {options.release} and earlier ones"
    near = {key: near_option(key, options.known) for key in unknown}
    likely = sorted(unknown, key=lambda key: _likeness(key, near[key]), reverse=True)[:SHOWN]
    more = f"; and {len(unknown) - SHOWN} more" if len(unknown) > SHOWN else ""
    words = "; ".join(f"{key} (nearest: {near[key]})" if near[key] else key for key in likely) + more
    theirs = f"--set {unknown[0]}=... where your copy of it has one" if unknown else ""
    reason = f"{words}: no option of {options.script} in any release; its parser refuses it ({theirs})"
    yield FileRule(
        name="known_options",
        kept=not unknown,
        source=where,
        keys=tuple(unknown),
        reason=reason if unknown else "",
    )
    wrong = {key: each for key in given if (each := _wrong_value(key, said, options))}
    yield FileRule(
        name="option_values", kept=not wrong, source=where, keys=tuple(wrong), reason="; ".join(wrong.values())
    )


def _of_a_fork(unknown: list[str], options: Options) -> bool:
    """Whether an option is known to be one of a fork."""
    return not {key for keys in options.forks.values() for key in keys}.isdisjoint(unknown)


def _likeness(key: str, near: str) -> float:
    """Share of letters that two options have in common."""
    return difflib.SequenceMatcher(None, key, near).ratio()


def _wrong_value(key: str, said: Said, options: Options) -> str:
    """What is wrong with the value of an option; empty where nothing is."""
    value, words = said.settings[key], options.values.get(key)
    if key in options.switches:
        return "" if isinstance(value, bool) else f"{key} takes no value, not {value}; nearest: {key}"
    given = [str(each) for each in value] if isinstance(value, list) else [str(value)]
    wrong = [each for each in given if words and value is not True and each not in words]
    return (
        f"{key} {wrong[0]} is none of its values; nearest: {key} {nearest_word(wrong[0], words or ())}" if wrong else ""
    )
