"""LLaMA-Factory: its YAML of a Trainer's arguments, with DeepSpeed's JSON."""

from __future__ import annotations

from meshwright.launch.imports.adapters import LoraOptions, lora_settings
from meshwright.launch.imports.dialects.dialect import OF_A_TRAINER, Dialect, Spelled, has
from meshwright.launch.imports.dialects.engines import WEIGHTS, with_engine
from meshwright.launch.imports.liger import require_one_loss
from meshwright.launch.imports.optimizers import with_optimizer
from meshwright.launch.readers.settings import LaunchSettings
from meshwright.launch.spelling import Settings

_OWN = {"stage", "finetuning_type", "cutoff_len", "template", "dataset_dir"}
_LORA = LoraOptions(
    rank=("lora_rank",),
    modules=("lora_target",),
    dropout="lora_dropout",
    own=("lora_", "loraplus_", "pissa_", "use_rslora", "use_dora", "create_new_adapter", "additional_target"),
    usual={"lora_rank": 8, "lora_target": "all-linear"},
)


def _holds(settings: LaunchSettings, keys: set[str]) -> bool:
    return has(*OF_A_TRAINER)(settings, keys) and bool(_OWN & keys)


def _translated(spelled: Spelled) -> Settings:
    """The settings with the adapters that are trained and what shards states.

    Source: hiyouga/LLaMA-Factory@ff6d4d12eeb0 src/llamafactory/model/adapter.py L337-350 (trained weights are cast to
    fp32 but with pure_bf16).
    """
    require_one_loss(spelled.known, "liger_kernel_config")
    known = _adapted(with_optimizer(spelled.known, "optim", spelled.notes))
    return with_engine(known | (WEIGHTS if known.get("pure_bf16") is True else {}), spelled)


def _adapted(known: Settings) -> Settings:
    """The settings with the adapters that are trained, which they are unless a file says otherwise."""
    settings = {"finetuning_type": "lora"} | known
    if settings.get("lora_target") == "all":
        settings["lora_target"] = "all-linear"
    return lora_settings(settings, _LORA, trained=settings["finetuning_type"] == "lora")


DIALECT = Dialect(
    name="llama-factory",
    framework="LLaMA-Factory",
    holds=_holds,
    translate=_translated,
)
