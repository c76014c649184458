"""Precision: what a recipe of Megatron-Bridge computes in, by the preset that it names and what it changes of it."""

from __future__ import annotations

from functools import cache

from meshwright.launch.framework import Value
from meshwright.launch.imports.spellings.bridge_recipe import PRECISION
from meshwright.launch.spelling import Settings
from meshwright.specs.base import Spec
from meshwright.text_files import packaged_table

_MADE_BY_FIELDS = "MixedPrecisionConfig"
_IN_FP32 = "grad_reduce_in_fp32"


class Preset(Spec):
    """A precision that has a name."""

    names: tuple[str, ...]
    settings: dict[str, Value] = {}


class Presets(Spec):
    """What the names of precisions mean."""

    source: str
    half_gradients: tuple[str, ...]
    """Names of what reduces gradients in 2 bytes."""
    presets: tuple[Preset, ...]


def precision_of(known: Settings, notes: list[str]) -> Settings:
    """The formats of operands, weights and gradients as Megatron's arguments; notes: what is taken for granted.

    A precision writes its format of gradients over that of `ddp`, whatever that says.

    Source: NVIDIA-NeMo/Megatron-Bridge@067f987df03b training/mixed_precision.py, MixedPrecisionConfig and its setup.
    """
    name = _name(known)
    if not name:
        notes.append("the file does not say mixed_precision: taken as bf16_mixed, which recipes start from")
    preset = next((each for each in presets().presets if any(part in name for part in each.names)), None)
    half = "--fp16" if "fp16" in name or known.get(f"{PRECISION}.fp16") is True else "--bf16"
    settings: Settings = {half: True} | (preset.settings if preset else {})
    if known.get(f"{PRECISION}.first_last_layers_bf16") is False:
        settings.pop("--first-last-layers-bf16", None)
    wide = known.get(f"{PRECISION}.{_IN_FP32}")
    if wide is None:
        wide = not any(part in name for part in presets().half_gradients)
        if wide and known.get(f"ddp.{_IN_FP32}") is False:
            notes.append(
                f"{name or 'bf16_mixed'} reduces gradients in fp32, whatever ddp.{_IN_FP32} says: "
                f"{PRECISION}.{_IN_FP32} = False has them reduced in 2 bytes"
            )
    return settings | {"--accumulate-allreduce-grads-in-fp32" if wide else "--grad-reduce-in-bf16": True}


def says_precision(known: Settings) -> bool:
    """Whether a recipe names its precision."""
    return bool(_name(known))


def unknown_precision(known: Settings) -> bool:
    """Whether a recipe names a precision that is not known."""
    name = _name(known)
    parts = [part for each in presets().presets for part in each.names]
    return bool(name) and _MADE_BY_FIELDS not in name and not any(part in name for part in parts)


@cache
def presets() -> Presets:
    """The presets of the file."""
    return Presets(**packaged_table("meshwright.launch.imports.spellings", "bridge_precisions.toml"))


def _name(known: Settings) -> str:
    return str(known.get(f"{PRECISION}.preset") or known.get(PRECISION) or "").replace("-", "_")
