"""LLaMA-Factory: its YAML of a Trainer's arguments, or the same as options, with DeepSpeed's JSON."""

from __future__ import annotations

from dataclasses import replace

from meshwright.launch.imports.dialects.dialect import OF_A_TRAINER, Dialect, Spelled, has
from meshwright.launch.imports.dialects.engines import WEIGHTS, with_engine
from meshwright.launch.imports.spellings.adapters import LoraOptions, lora_settings
from meshwright.launch.imports.spellings.liger import require_one_loss
from meshwright.launch.imports.spellings.opened import opened
from meshwright.launch.imports.spellings.optimizers import with_optimizer
from meshwright.launch.imports.spellings.packed import PackedOptions, packed_settings
from meshwright.launch.readers.settings import LaunchSettings, Value
from meshwright.launch.spelling import Settings

_COMMANDS = ("llamafactory-cli", "lmf")
_OWN = {"stage", "finetuning_type", "cutoff_len", "template", "dataset_dir"}
_LORA = LoraOptions(
    rank=("lora_rank",),
    modules=("lora_target",),
    dropout="lora_dropout",
    own=("lora_", "loraplus_", "pissa_", "use_rslora", "use_dora", "create_new_adapter", "additional_target"),
    usual={"lora_rank": 8, "lora_target": "all-linear"},
)
_PACKED = PackedOptions(
    asked={"quantization_bit": ("4",), "quantization_method": ("", "bnb", "bitsandbytes")},
    form="quantization_type",
    nested=("double_quantization", True),
)


def _holds(settings: LaunchSettings, keys: set[str]) -> bool:
    if settings.form != "shell":
        return has(*OF_A_TRAINER)(settings, keys) and bool(_OWN & keys)
    named = {key.lstrip("-") for key in keys}
    own = settings.program.rpartition("/")[2] in _COMMANDS or "finetuning_type" in named
    return own and named >= {*OF_A_TRAINER}


def _as_keys(read: LaunchSettings) -> LaunchSettings:
    """The settings as YAML has them: options without dashes, and words that say yes or no."""
    if read.form != "shell":
        return read
    plain = (replace(each, key=each.key.lstrip("-"), value=_yes_or_no(each.value)) for each in read.settings)
    return replace(read, settings=tuple(plain))


def _yes_or_no(value: Value) -> Value:
    return {"true": True, "false": False}.get(str(value).lower(), value)


def _translated(spelled: Spelled) -> Settings:
    """The settings with the adapters that are trained and what shards states.

    Source: hiyouga/LLaMA-Factory@ff6d4d12eeb0 src/llamafactory/model/adapter.py L337-350 (trained weights are cast to
    fp32 but with pure_bf16); @13e7388708d7 model/model_utils/quantization.py (bnb_4bit_quant_storage in 2 bytes) and
    hparams/model_args.py.
    """
    known = opened(spelled.known, spelled.read.path)
    require_one_loss(known, "liger_kernel_config")
    known = packed_settings(known, _PACKED, spelled.notes)
    known = _adapted(with_optimizer(known, "optim", spelled.notes))
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
    objects=_as_keys,
    translate=_translated,
)
