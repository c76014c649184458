"""Printed name: the fields of a plan from the name that answers call it by."""

from __future__ import annotations

import re

from meshwright.answers.plans.legend import legend
from meshwright.errors import InvalidInput, quoted
from meshwright.schedules.records import SCHEDULE_NAMES
from meshwright.search.changes.sensitivity import SHORT
from meshwright.specs.model import MAX_LAYERS

FIELDS = {short: name for name, short in SHORT.items()}
FIELDS |= {"m": "num_microbatches", "first": "first_stage_layers", "last": "last_stage_layers"}
"""Of numbers, by the letters before them; others are called as they are printed."""
_NUMBERED = re.compile(r"([a-z]+)(\d+)(?: ([a-z-]+))?")
_RECOMPUTE = re.compile(r"recompute-(full|selective)(?:\((?:(\d+) a chunk|(.+))\))?")


def is_printed_name(text: str) -> bool:
    """Whether a text begins as the names of plans do.

    >>> is_printed_name("tp1 ep8 pp1"), is_printed_name("tp=1")
    (True, False)
    """
    return re.match(r"\s*tp\d+(\s|$)", text) is not None


def fields_of_name(name: str) -> list[tuple[str, str]]:
    """The fields that the name of a plan says, with those that it says by leaving them out.

    Raises `InvalidInput` at a word that no plan's name has.

    >>> fields_of_name("tp4 dp2 mbs1")[:3]
    [('tp', '4'), ('dp', '2'), ('micro_batch', '1')]
    """
    pairs = [pair for word, _ in legend(name) for pair in _fields(word)]
    said = {field for field, _ in pairs}
    switches = ("sp", "embedding_as_layer", "head_as_layer")
    return [*pairs, *((field, "off") for field in switches if field not in said)]


def _fields(word: str) -> list[tuple[str, str]]:
    if word in SCHEDULE_NAMES.values():
        return [("schedule", word)]
    if word == "ends-as-layers":
        return [("embedding_as_layer", "on"), ("head_as_layer", "on")]
    if word.startswith("chunks"):
        return [("chunk_layers", _layers(word))]
    if again := _RECOMPUTE.fullmatch(word):
        fields = ("recompute", "recompute_layers", "recompute_modules")
        return [(field, value) for field, value in zip(fields, again.groups(), strict=True) if value]
    if numbered := _NUMBERED.fullmatch(word):
        letters, number, exchange = numbered.groups()
        return [(FIELDS.get(letters, letters), number), *([("context_exchange", exchange)] if exchange else [])]
    return [(word.replace("-", "_"), "on")]


def _layers(word: str) -> str:
    """The layers of every chunk, from `chunks(5*2,4)`."""
    runs = [re.fullmatch(r"(\d{1,4})(?:\*(\d{1,4}))?", run) for run in word[len("chunks(") : -1].split(",")]
    sizes = [run[1] for run in runs if run for _ in range(int(run[2] or 1))]
    if None in runs or not 0 < len(sizes) <= MAX_LAYERS:
        raise InvalidInput(f"{quoted(word)} is no list of layers; it is written as chunks(5*2,4)")
    return ",".join(sizes)
