"""Attention: the kernel that a file of fine-tuning names, or that its program takes where it names none."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import ClassVar

from meshwright.launch.attention import KERNEL, WORDS, transformers
from meshwright.launch.forms import Fields
from meshwright.launch.spelling import Settings, Understood
from meshwright.specs.base import Spec
from meshwright.specs.model import Model
from meshwright.text_files import packaged_table


class Program(Spec):
    """How one program is told which attention it runs."""

    option: str
    words: dict[str, str] = {}
    """Names of transformers by its own."""
    unsaid: dict[str, str] = {}
    """What it takes without the option, by the `model_type`, where that is not what transformers takes."""


class Programs(Spec):
    """All programs, and the kernels that are priced."""

    called: ClassVar[str] = "the table of attention in launch files"

    source: str
    kernels: dict[str, str]
    """Ours, by the names of transformers."""
    programs: dict[str, Program]


def with_attention(
    fields: Fields, settings: Settings, understood: Understood, table: str, model: Model | None, notes: list[str]
) -> tuple[Fields, Understood]:
    """The fields with the attention kernel that settings name, and what was understood without its option; both as they
    are where that kernel is not priced for the model. Where they name none, notes: what the program takes is added.
    """
    program = _programs().programs.get(table)
    if program is None or model is None or KERNEL in fields:
        return fields, understood
    given = settings.get(program.option)
    name = program.words.get(str(given), str(given)) if given else _unsaid(program, model)
    kernel = _programs().kernels.get(name) if name in _known(model) else None
    if not given and name != "sdpa":
        notes.append(_note(program, name, model, priced=kernel is not None))
    if kernel is None:
        return fields, understood
    left = {key: value for key, value in understood.unpriced.items() if key != program.option}
    unknown = {key: value for key, value in understood.unknown.items() if key != program.option}
    return fields | {KERNEL: kernel}, replace(understood, unpriced=left, unknown=unknown)


def _unsaid(program: Program, model: Model) -> str:
    """What a program takes for a model where nothing is said."""
    return program.unsaid.get(model.family) or ("eager" if model.modifies_scores else "sdpa")


def _known(model: Model) -> tuple[str, ...]:
    """The implementations that transformers has for a model, the fastest first."""
    return transformers().attention.get(model.family, tuple(_programs().kernels))


def _note(program: Program, name: str, model: Model, *, priced: bool) -> str:
    """What a program takes where its option is left out, with the fastest that the option can name."""
    left_out = f"{program.option} is left out, so that {model.name} runs"
    if not priced:
        return f"{left_out} {name}, which is not priced: the runtime's own attention is"
    spelled = {theirs: word for word, theirs in program.words.items()}
    fastest = _known(model)[0]
    faster = "" if fastest == name else f"; {program.option} {spelled.get(fastest, fastest)} is faster"
    return f"{left_out} {WORDS[name]}, and is priced so{faster}"


@cache
def _programs() -> Programs:
    return Programs(**packaged_table("meshwright.launch.imports.spellings", "attention.toml"))
