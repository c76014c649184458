"""Adapters of recipes of Megatron-Bridge: what makes them, and what its classes take where a recipe says nothing."""

from __future__ import annotations

from dataclasses import replace

from meshwright.errors import InvalidInput
from meshwright.launch.imports.spellings.unsaid import maker_of
from meshwright.launch.readers.settings import OBJECT, FileSetting, LaunchSettings
from meshwright.launch.spelling import Settings

SECTION = "peft"
_CLASS, _RANK, _MODULES, _CANONICAL = (f"{SECTION}.{name}" for name in ("class", "dim", "target_modules", "canonical"))
_COMMON = "_peft_common"
"""What recipes that train adapters start from: LoRA as its class has it."""
_BY_NAME = "default_peft_config"
_CLASSES = {"LoRA": False, "lora": False, "CanonicalLoRA": True}
"""Names of the classes, and of what `default_peft_config` takes for one: whether each part of a fused product has an
adapter of its own."""
_RANK_UNLESS_SAID = 32
_NOTHING = (None, "None", "none", "")


def with_adapters(read: LaunchSettings) -> LaunchSettings:
    """The settings with the class of a recipe's adapters, and with their rank and modules as open where a recipe of
    another file has them.

    Source: NVIDIA-NeMo/Megatron-Bridge@067f987df03b recipes/common.py (_peft_common) and recipes/utils/dataset_utils.py
    (default_peft_config).
    """
    keys = {each.key for each in read.settings}
    made = [each for each in read.settings if each.key == f"{SECTION}.{OBJECT}"]
    elsewhere = [each for each in read.elsewhere if SECTION in maker_of(each)]
    if made:
        return _with(read, replace(made[-1], key=_CLASS, value=_class(made[-1])))
    if SECTION in keys or not elsewhere:
        return read
    maker = elsewhere[0]
    named = replace(maker, key=_CLASS, value="LoRA", open=())
    left = [] if maker_of(maker) == _COMMON else [key for key in (_RANK, _MODULES) if key not in keys]
    unread = (f"{maker_of(maker)}, which is not read",)
    return _with(read, named, *(FileSetting(key, None, maker.line, None, unread) for key in left))


def _with(read: LaunchSettings, *settings: FileSetting) -> LaunchSettings:
    return replace(read, settings=(*read.settings, *settings))


def _class(made: FileSetting) -> str:
    """The class of an object, or what a function that makes one by name is given."""
    called, _, first = str(made.value).partition(" ")
    called = called.rpartition(".")[2]
    return (first or called) if called == _BY_NAME else called


def adapter_settings(known: Settings) -> Settings:
    """The settings of adapters, with what their class has where a recipe says nothing; none where all weights are
    trained.

    Raises `InvalidInput` for adapters of a class that is not priced. Source: NVIDIA-NeMo/Megatron-Bridge@067f987df03b
    peft/lora.py and canonical_lora.py: rank 32, beside all linear layers.
    """
    said = {key: value for key, value in known.items() if key.startswith(f"{SECTION}.") and key != _CLASS}
    name = known.get(_CLASS, known.get(SECTION, "LoRA" if said else None))
    if name in _NOTHING:
        return {}
    if name not in _CLASSES:
        raise InvalidInput(f"{SECTION} {name}: adapters of LoRA and CanonicalLoRA are priced, no others")
    usual: Settings = {_RANK: _RANK_UNLESS_SAID, _MODULES: ["all-linear"], _CANONICAL: _CLASSES[str(name)]}
    return usual | {key: value for key, value in said.items() if value not in _NOTHING}
