"""Configured: the file of settings that a command gives to its program."""

from __future__ import annotations

from meshwright.launch.readers.traced import Traced
from meshwright.specs import catalog

_NAMES = ("--config", "--config-file", "--config_file", "--job.config_file", "--job.config-file")
_ENDS = (".yaml", ".yml", ".toml")


def configuration_in(words: list[Traced], program: int) -> Traced | None:
    """The file that is named, by an option that says so or by itself; None where none is.

    program: which of the words is the program; 0: the command itself.
    """
    told = [word.text.rpartition("/")[2] for word in words[:2]]
    if program == 0 and not (len(told) == 2 and _trains(*told)):
        return None
    before = ""
    for word in words[program + 1 :]:
        name, equals, _ = word.text.partition("=")
        named = name in _NAMES and bool(equals)
        alone = not equals and (not before.startswith("-") or before in _NAMES)
        if word.text.endswith(_ENDS) and (named or alone):
            return word.part(len(name) + 1) if named else word
        before = word.text
    return None


def _trains(command: str, word: str) -> bool:
    """Whether a command has a library train, told that word."""
    frontends = catalog.table("frontends")
    commands = [name for each in frontends["libraries"] for name in each["commands"]]
    return command in commands and word in frontends["trains"]
