"""LLaMA-Factory: its YAML of a Trainer's arguments, with DeepSpeed's JSON."""

from __future__ import annotations

from meshwright.launch.imports.adapters import RANK, adapter_settings
from meshwright.launch.imports.deepspeed_json import deepspeed_json
from meshwright.launch.imports.dialects.dialect import OF_A_TRAINER, Dialect, Spelled, has
from meshwright.launch.readers.settings import LaunchSettings
from meshwright.launch.spelling import Settings

_OWN = {"stage", "finetuning_type", "cutoff_len", "template", "dataset_dir"}
_STAGE = "zero_optimization.stage"
_OF_ADAPTERS = ("lora_rank", "lora_target", "lora_alpha")


def _holds(settings: LaunchSettings, keys: set[str]) -> bool:
    return has(*OF_A_TRAINER)(settings, keys) and bool(_OWN & keys)


def _translated(spelled: Spelled) -> Settings:
    known = _adapted(spelled.known)
    if {"deepspeed", "fsdp", _STAGE} & known.keys():
        return deepspeed_json(spelled.read) | known
    if RANK in known:
        spelled.notes.append("no `deepspeed` file: the Trainer trains adapters in replicas, as DDP does")
        replicas: Settings = {_STAGE: 0, "runtime.id": "pytorch-ddp"}
        return replicas | known
    spelled.notes.append(
        "no `deepspeed` file: the Trainer keeps whole states on every rank, ZeRO 0; where accelerate's FSDP starts it, "
        "--set zero_optimization.stage=3"
    )
    return {_STAGE: 0} | known


def _adapted(known: Settings) -> Settings:
    """The settings with adapters as this package names them; those of adapters without them where none are trained.

    Source: LLaMA-Factory 0.9.5 src/llamafactory/hparams/finetuning_args.py (lora_rank 8, lora_target all);
    model/adapter.py (_setup_lora_tuning).
    """
    own: Settings = {key: value for key, value in known.items() if key not in _OF_ADAPTERS}
    if known.get("finetuning_type") != "lora":
        return own
    return own | adapter_settings(known.get("lora_rank", 8), known.get("lora_target", "all"))


DIALECT = Dialect(
    name="llama-factory",
    framework="LLaMA-Factory",
    holds=_holds,
    translate=_translated,
)
