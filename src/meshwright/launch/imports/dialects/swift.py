"""Swift: the options of `swift sft` and `swift pt` of ms-swift without Megatron, as arguments of a Trainer."""

from __future__ import annotations

import re
from functools import cache

from meshwright.errors import InvalidInput, any_of
from meshwright.launch.imports.dialects.dialect import Dialect, Spelled
from meshwright.launch.imports.dialects.engines import STAGE, WEIGHTS, with_engine
from meshwright.launch.imports.dialects.trainer import plain_switches
from meshwright.launch.imports.spellings.adapters import LoraOptions, lora_settings, priced
from meshwright.launch.imports.spellings.deepspeed_json import deepspeed_json
from meshwright.launch.imports.spellings.liger import require_one_loss
from meshwright.launch.imports.spellings.numbers import whole_number
from meshwright.launch.imports.spellings.opened import opened
from meshwright.launch.imports.spellings.optimizers import with_optimizer
from meshwright.launch.imports.spellings.packed import PackedOptions, packed_settings
from meshwright.launch.readers.settings import LaunchSettings
from meshwright.launch.spelling import Settings
from meshwright.text_files import packaged_table

_LORA = LoraOptions(
    rank=("--lora_rank",),
    modules=("--target_modules",),
    dropout="--lora_dropout",
    own=("--lora_", "--target_modules", "--use_dora"),
    usual={"--lora_rank": 8, "--target_modules": "all-linear", "--lora_dropout": 0.05},
)
_PACKED = PackedOptions(
    asked={"--quant_method": ("bnb",), "--quant_bits": ("4",)},
    form="--bnb_4bit_quant_type",
    nested=("--bnb_4bit_use_double_quant", True),
    stored="--bnb_4bit_quant_storage",
)
_TUNERS = ("--tuner_type", "--train_type", "--sft_type")
"""Names of one option, of this and of earlier releases."""
_CHECKPOINTS, _SPLIT = "--gradient_checkpointing", "--sequence_parallel_size"
_COUNT, _USUAL_BATCH = "--gradient_accumulation_steps", 16
_PROGRAM = re.compile(r"(^|/)(swift|swift/cli/(sft|pt|rlhf)\.py)$")
_USUAL: Settings = {"--per_device_train_batch_size": 1, _CHECKPOINTS: True}
"""Where the Trainer has others."""


def starts(read: LaunchSettings) -> bool:
    """Whether a script starts ms-swift."""
    return bool(_PROGRAM.search(read.program))


def swift_arguments(spelled: Spelled) -> Settings:
    """The options as a Trainer has them, with those that are left out.

    Raises `InvalidInput` for tuners other than LoRA and for sequences that ranks share.

    Source: modelscope/ms-swift@3602360a5 swift/arguments/sft_args.py (_init_deepspeed, _init_fsdp),
    base_args/base_args.py (adapters unless it is said) and base_args/model_args.py L130-142 (mixed precision follows
    torch_dtype); swift/pipelines/train/tuner.py L393-409 (weights that are all trained stay as they are loaded);
    base_args/quant_args.py L33-67 (packed weights).
    """
    known = plain_switches(opened(spelled.known, spelled.read.path))
    require_one_loss(known, "--liger_kernel_config")
    tuner = next((str(known[name]) for name in _TUNERS if name in known), "lora")
    if tuner not in ("full", "lora"):
        raise InvalidInput(f"--tuner_type {tuner}: {priced()}; full and lora are modelled")
    if str(known.get(_SPLIT, 1)) != "1":
        raise InvalidInput(f"{_SPLIT} {known[_SPLIT]}: ms-swift's own split of sequences over ranks is not modelled")
    wide = known.get("--torch_dtype") in ("float16", "float32")
    half = "--fp16" if str(known.get("--fp16", wide)) in ("True", "true") else "--bf16"
    left_out = (*_TUNERS, _SPLIT, "--deepspeed_autotp_size")
    settings = _USUAL | {key: value for key, value in known.items() if key not in left_out}
    settings = packed_settings(settings, _PACKED, spelled.notes)
    settings = lora_settings(settings, _LORA, trained=tuner == "lora") | {half: True} | ({} if wide else WEIGHTS)
    settings = _accumulated(settings, spelled.ranks)
    if tp := known.get("--deepspeed_autotp_size"):
        settings["tensor_parallel.autotp_size"] = tp
    return with_optimizer(settings, "--optim", spelled.notes)


def _accumulated(settings: Settings, ranks: int | None) -> Settings:
    """The settings with the micro-batches of a step that are left out: as many as make 16 sequences.

    Source: modelscope/ms-swift@3602360a5 swift/trainers/arguments.py L283.
    """
    size = whole_number(settings["--per_device_train_batch_size"])
    if settings.get(_COUNT) is not None or not size or not ranks:
        return settings
    return settings | {_COUNT: max(1, -(-_USUAL_BATCH // (size * ranks)))}


def _translated(spelled: Spelled) -> Settings:
    """The options with what they name of DeepSpeed or FSDP; raises `InvalidInput` for files that are not there."""
    settings = swift_arguments(spelled)
    named, fsdp = settings.get("--deepspeed", False), settings.get("--fsdp", False)
    preset = _presets().get(str(named), {})
    if named is not False and STAGE not in preset | deepspeed_json(spelled.read) | settings:
        raise InvalidInput(
            f"--deepspeed {named}: neither beside the file nor a name of ms-swift, {any_of(_presets())}; say its "
            f"stage with --set {STAGE}=..."
        )
    if preset.get(STAGE) == 3:
        spelled.notes.append(
            f"--deepspeed {named} has overlap_comm off: reductions of gradients wait, and are priced beside compute"
        )
    if named is False and fsdp is not False:
        if fsdp != "fsdp2":
            raise InvalidInput(f"--fsdp {fsdp}: fsdp2 is modelled, ms-swift's own file of that name")
        settings = settings | {"--fsdp": False, "runtime.id": "accelerate", STAGE: 3, _CHECKPOINTS: True}
    return with_engine(preset | settings, spelled, "--")


@cache
def _presets() -> dict[str, Settings]:
    presets: dict[str, Settings] = packaged_table("meshwright.launch.imports.dialects", "swift_presets.toml")["presets"]
    return presets


def _holds(settings: LaunchSettings, keys: set[str]) -> bool:
    return settings.form == "shell" and "--model" in keys and starts(settings)


DIALECT = Dialect(
    name="swift",
    framework="ms-swift with transformers",
    holds=_holds,
    translate=_translated,
)
