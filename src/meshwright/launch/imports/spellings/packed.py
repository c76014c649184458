"""Packed weights: what launch files of fine-tuning say of frozen weights in 4 bits (QLoRA), as the runtime has it."""

from __future__ import annotations

from dataclasses import dataclass

from meshwright.errors import InvalidInput
from meshwright.launch.spelling import Settings

PACKED: Settings = {"runtime.packs_weights": True}
STORED = "bfloat16"


@dataclass(frozen=True, kw_only=True)
class PackedOptions:
    """The options of a framework for weights that bitsandbytes packs."""

    asked: dict[str, tuple[str, ...]]
    """Those that ask for it, with their values; an empty one where they can be left out."""
    form: str
    """Of the format, nf4 where it is left out."""
    nested: tuple[str, bool]
    """Of double quantisation, with its value where it is left out."""
    stored: str = ""
    """Of the format that four weights are stored as, one byte where it is left out; empty: 2 bytes of the framework."""


def packed_settings(settings: Settings, options: PackedOptions, notes: list[str]) -> Settings:
    """The settings with packed weights as the runtime has them, where all options ask for it; notes: what is priced
    otherwise is added.

    Raises `InvalidInput` for another format of 4 bits.
    """
    said = {key: str(value).lower() for key, value in settings.items()}
    if any(said.get(key, "") not in values for key, values in options.asked.items()):
        return settings
    if said.get(options.form, "nf4") != "nf4":
        raise InvalidInput(f"{options.form} {settings[options.form]}: weights of 4 bits are priced as nf4 has them")
    nested, usual = options.nested
    if said.get(nested, str(usual).lower()) != "true":
        notes.append(f"priced with double quantisation; without {nested} weights take 9 % more")
    if options.stored and said.get(options.stored, "").removeprefix("torch.") != STORED:
        notes.append(
            f"where FSDP 2 shards: it divides packed weights, as is priced, only with {options.stored} {STORED}"
        )
    own = {*options.asked, options.form, nested, options.stored}
    return {key: value for key, value in settings.items() if key not in own} | PACKED
