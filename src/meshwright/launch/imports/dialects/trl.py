"""TRL: its YAML of a Trainer's arguments, as that of its kin."""

from __future__ import annotations

from meshwright.launch.imports.dialects import llama_factory
from meshwright.launch.imports.dialects.dialect import OF_A_TRAINER, Dialect, has
from meshwright.launch.readers.settings import LaunchSettings
from meshwright.launch.spelling import Settings


def _translated(known: Settings, notes: list[str]) -> Settings:
    """The settings without switches that are off."""
    if not {"bf16", "fp16"} & known.keys():
        notes.append("neither bf16 nor fp16 stands in it: priced in bf16")
    return {key: value for key, value in known.items() if value is not False or key == "gradient_checkpointing"}


def _holds(settings: LaunchSettings, keys: set[str]) -> bool:
    """Configurations of the Trainer's arguments alone, as TRL's scripts and those of its kin take them."""
    return has(*OF_A_TRAINER)(settings, keys) and not llama_factory.DIALECT.holds(settings, keys)


DIALECT = Dialect(
    name="trl",
    framework="TRL",
    holds=_holds,
    translate=lambda spelled: _translated(spelled.known, spelled.notes),
)
