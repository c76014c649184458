"""Configured: the file of settings that a command gives to its program."""

from __future__ import annotations

from meshwright.launch.readers.traced import Traced

_PROGRAMS = ("megatron", "swift", "llamafactory-cli", "axolotl", "trl")
"""Commands that are programs themselves: of ms-swift, LLaMA-Factory, axolotl and TRL."""
_TRAINS = ("sft", "pt", "train", "rlhf")
"""What those are told to do."""
_NAMES = ("--config", "--config-file", "--config_file", "--job.config_file", "--job.config-file")
_ENDS = (".yaml", ".yml", ".toml")


def configuration_in(words: list[Traced], program: int) -> Traced | None:
    """The file that is named, by an option that says so or by itself; None where none is.

    program: which of the words is the program; 0: the command itself.
    """
    told = [word.text.rpartition("/")[2] for word in words[:2]]
    if program == 0 and (len(told) < 2 or told[0] not in _PROGRAMS or told[1] not in _TRAINS):
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
