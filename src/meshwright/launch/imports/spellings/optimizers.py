"""Optimizers: what the Trainer's name of one means for its states and its step."""

from __future__ import annotations

from meshwright.launch.spelling import Settings

KEPT, UPDATE = "runtime.optimizer", "runtime.update"
"""Settings of the states that are kept, and of how many kernels a step has; see `behaviours`."""
_FUSED = ("adamw_torch_fused", "adam", "adamw", "adamw_hf")
_EIGHT_BITS = ("adamw_torch_8bit", "adamw_bnb_8bit", "adamw_8bit", "paged_adamw_8bit")
_PAGED = ("paged_adamw", "paged_adamw_32bit")
_BY_OPERATORS = ("adamw_torch", "adam_torch")


def with_optimizer(settings: Settings, key: str, notes: list[str]) -> Settings:
    """The settings with the states and the step of AdamW that an option names; without the option where that is priced.

    key: of the option; notes: what is priced otherwise is added. PyTorch's AdamW goes operator by operator unless it is
    fused; 8-bit moments have a scale for each 256 elements, of torchao and of bitsandbytes alike.

    Source: transformers 5.23.0 trainer_optimizer.py (names; embeddings keep 32 bits beside bitsandbytes);
    bitsandbytes@95f9af309 optim/optimizer.py L524 (blocks of 256; of 2048 before 0.44), L414 (tensors below 4096
    elements keep 32 bits).
    """
    name = str(settings.get(key, ""))
    known = {**dict.fromkeys(_FUSED, ""), **dict.fromkeys(_EIGHT_BITS, KEPT), **dict.fromkeys(_BY_OPERATORS, UPDATE)}
    known |= dict.fromkeys(_PAGED, "")
    if name not in known:
        return settings
    settings = {each: value for each, value in settings.items() if each != key}
    if name in _EIGHT_BITS and name != "adamw_torch_8bit":
        notes.append(f"{key} {name}: priced with 8-bit moments of all weights; those of embeddings keep 4 bytes each")
    if name.startswith("paged_"):
        notes.append(f"{key} {name}: moments are priced on the device, which pages them out where it runs short")
    if known[name] == KEPT:
        settings[KEPT] = "AdamW8bit"
    elif known[name] == UPDATE:
        settings[UPDATE] = "foreach"
    return settings
