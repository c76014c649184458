"""Handed: the command lines and scripts that a command hands on, to a shell or to other machines."""

from __future__ import annotations

import re

from meshwright.launch.readers.traced import Traced

SHELLS = ("bash", "sh", "/bin/bash", "/bin/sh", "/usr/bin/bash")
TAKES_A_SCRIPT = ("sbatch", "srun", "ssh", "qsub", *SHELLS)
STARTS_A_PROGRAM = re.compile(r"(?:^|[\s;&|/])(?:python[\d.]{0,6}|torchrun|deepspeed|accelerate)\s")
"""In a command line that is one word, as `ssh`, `pdsh` and the launchers of clouds take it."""


def takes_a_script(command: str) -> bool:
    """Whether a command runs the script that it is given, by its name or path."""
    return command.rpartition("/")[2] in TAKES_A_SCRIPT


def line_for_a_shell(words: list[Traced]) -> Traced | None:
    """What follows `bash -c` in a command; None where nothing does."""
    texts = [word.text for word in words]
    at = next((place for place, text in enumerate(texts[:-1]) if text in SHELLS), len(texts)) + 1
    while at < len(texts) - 1 and texts[at].startswith("-") and "c" not in texts[at]:
        at += 1
    if at + 1 < len(texts) and texts[at].startswith("-") and "c" in texts[at]:
        return words[at + 1]
    return None


def line_in_a_word(words: list[Traced]) -> Traced | None:
    """The argument of a command that is itself a line that starts a program with options; None where none is."""
    lines = (word for word in words[1:] if "--" in word.text and STARTS_A_PROGRAM.search(word.text))
    return next(lines, None)
