"""Handed: the command lines and scripts that a command hands on, to a shell or to other machines."""

from __future__ import annotations

import re

from meshwright.launch.readers.traced import Traced

SHELLS = ("bash", "sh", "/bin/bash", "/bin/sh", "/usr/bin/bash")
TAKES_A_SCRIPT = ("sbatch", "srun", "ssh", "qsub", *SHELLS)
STARTS_A_PROGRAM = re.compile(r"(?:^|[\s;&|/])(?:python[\d.]{0,6}|torchrun|deepspeed|accelerate)\s")
"""In a command line that is one word, as `ssh`, `pdsh` and the launchers of clouds take it."""


_SCHEDULERS = ("srun", "sbatch")
EXPORTED_BY_SLURM = "SLURM_EXPORT_ENV"
"""The variable in which sbatch hands its own `--export` to srun."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


def environment_of(words: list[Traced], exported: dict[str, Traced], usual: Traced | None) -> dict[str, Traced]:
    """The variables that a command starts its program with: of srun those that `--export` names, all of them with
    `ALL` among the names, and what `env` sets.

    exported: what the script has exported; usual: of `SLURM_EXPORT_ENV`, which holds where srun says nothing.

    Source: Slurm 24.05, srun(1) and sbatch(1), `--export`.
    """
    command, environment = words[0].text.rpartition("/")[2], dict(exported)
    named = _option(words, "--export") if command in _SCHEDULERS else None
    if named is None and command == "srun":
        named = usual
    if named is not None:
        pairs = [each.text.partition("=") for each in _listed(named)]
        kept = exported if "ALL" in (name for name, _, _ in pairs) else {}
        for each, (name, equals, _) in zip(_listed(named), pairs, strict=True):
            if equals:
                kept = kept | {name: each.part(len(name) + 1)}
            elif name in exported:
                kept = kept | {name: exported[name]}
        environment = dict(kept)
    at = next((place for place, word in enumerate(words) if word.text.rpartition("/")[2] == "env"), len(words))
    for word in words[at + 1 :]:
        if not _ASSIGNMENT.match(word.text):
            break
        name = word.text.partition("=")[0]
        environment[name] = word.part(len(name) + 1)
    return environment


def _option(words: list[Traced], name: str) -> Traced | None:
    """The value of an option of a command, behind `=` or as the next word."""
    for word, following in zip(words, [*words[1:], None], strict=True):
        if word.text.startswith(f"{name}="):
            return word.part(len(name) + 1)
        if word.text == name:
            return following
    return None


def _listed(value: Traced) -> list[Traced]:
    """The parts between commas."""
    parts, start = list[Traced](), 0
    for part in value.text.split(","):
        parts.append(value.part(start, start + len(part)))
        start += len(part) + 1
    return parts


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
