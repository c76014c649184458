"""LLaMA-Factory: its YAML of a Trainer's arguments, with DeepSpeed's JSON."""

from __future__ import annotations

from meshwright.launch.imports.deepspeed_json import deepspeed_json
from meshwright.launch.imports.dialects.dialect import OF_A_TRAINER, Dialect, Spelled, has
from meshwright.launch.readers.settings import LaunchSettings
from meshwright.launch.spelling import Settings

_OWN = {"stage", "finetuning_type", "cutoff_len", "template", "dataset_dir"}
_STAGE = "zero_optimization.stage"


def _holds(settings: LaunchSettings, keys: set[str]) -> bool:
    return has(*OF_A_TRAINER)(settings, keys) and bool(_OWN & keys)


def _translated(spelled: Spelled) -> Settings:
    if {"deepspeed", "fsdp", _STAGE} & spelled.known.keys():
        return deepspeed_json(spelled.read) | spelled.known
    spelled.notes.append(
        "no `deepspeed` file: the Trainer keeps whole states on every rank, ZeRO 0; where accelerate's FSDP starts it, "
        "--set zero_optimization.stage=3"
    )
    return {_STAGE: 0} | spelled.known


DIALECT = Dialect(
    name="llama-factory",
    framework="LLaMA-Factory",
    holds=_holds,
    translate=_translated,
)
