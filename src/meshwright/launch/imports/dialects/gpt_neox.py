"""GPT-NeoX: its YAML."""

from __future__ import annotations

import re

from meshwright.launch.imports.dialects.dialect import Dialect, has
from meshwright.launch.imports.spellings.arguments import USUAL_TOKENIZER
from meshwright.launch.imports.spellings.vocabulary import vocabulary_of
from meshwright.launch.readers.settings import LaunchSettings
from meshwright.launch.spelling import Settings


def _translated(known: Settings, notes: list[str]) -> Settings:
    """Keys with underscores, whatever the file has between their words, and the width of a gated block: two thirds of
    what the file says, in both matrices.

    Source: EleutherAI/gpt-neox@ea7aefd8f8e1 megatron/model/transformer.py, ParallelMLP.
    """
    settings = {key.replace("-", "_"): value for key, value in known.items()}
    for name in ("pipe_parallel_size", "model_parallel_size"):
        if settings.get(name) == 0:
            settings[name] = 1
    kinds = set(re.findall(r"[a-z_]+", str(settings.get("attention_config", ""))))
    if kinds <= {"flash", "global", "all"}:
        settings.pop("attention_config", None)
    for name in ("zero_optimization.cpu_offload", "use_bnb_optimizer", "fp32_allreduce"):
        if settings.get(name) is False:
            del settings[name]
    if settings.get("activation") in ("swiglu", "geglu"):
        width, multiple = _width(settings), settings.get("mlp_multiple_of", 1)
        if width and isinstance(multiple, int) and multiple > 0:
            settings["intermediate_size"] = multiple * -(-(2 * width // 3 // 2) // multiple)
    named = [str(settings[key]) for key in ("vocab_file", "tokenizer_type") if key in settings]
    found = vocabulary_of(named or [USUAL_TOKENIZER])
    if found and "padded_vocab_size" not in settings:
        settings["padded_vocab_size"] = found[0]
        named_by = "which the file names" if named else "the default of GPT-NeoX"
        notes.append(f"vocabulary: {found[0]} entries, of {found[1]}, {named_by}")
    return settings


def _width(settings: Settings) -> int | None:
    """The width that GPT-NeoX starts from: what the file says, else a multiple of the hidden size."""
    given, hidden = settings.get("intermediate_size"), settings.get("hidden_size")
    if given is not None:
        return given if isinstance(given, int) else None
    factor = settings.get("expansion_factor", 4)
    if isinstance(hidden, int) and isinstance(factor, int | float) and 0 < factor < 1000:
        return int(factor * hidden)
    return None


def _holds(settings: LaunchSettings, keys: set[str]) -> bool:
    """GPT-NeoX takes keys with either sign between their words."""
    return has("num_layers", "pipe_parallel_size")(settings, {key.replace("-", "_") for key in keys})


DIALECT = Dialect(
    name="gpt-neox",
    framework="GPT-NeoX",
    holds=_holds,
    translate=lambda spelled: _translated(spelled.known, spelled.notes),
)
