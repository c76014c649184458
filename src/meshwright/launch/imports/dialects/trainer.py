"""Trainer: scripts that give the arguments of transformers' Trainer, with the DeepSpeed file that they name."""

from __future__ import annotations

import re

from meshwright.errors import InvalidInput
from meshwright.launch.imports.dialects import llama_factory
from meshwright.launch.imports.dialects.dialect import OF_A_TRAINER, Dialect, Spelled
from meshwright.launch.imports.dialects.engines import WEIGHTS, with_engine
from meshwright.launch.imports.spellings.adapters import LoraOptions, lora_settings
from meshwright.launch.imports.spellings.liger import require_one_loss
from meshwright.launch.imports.spellings.opened import opened
from meshwright.launch.imports.spellings.optimizers import with_optimizer
from meshwright.launch.imports.spellings.packed import PackedOptions, packed_settings
from meshwright.launch.readers.settings import LaunchSettings
from meshwright.launch.spelling import Settings

_OFF = ("false", "none", "null", "", '""', "''")
_OTHERS = re.compile(r"(^|[_.])(dpo|ppo|grpo|kto|orpo|rloo|rlhf|rm|reward\w*|qlora|mlm|glue|classif\w*)([_.]|$)")
"""Programs that take the same arguments and train something else, or a part of it."""
_OF_LORA = re.compile(r"(^|[_.])lora([_.]|$)")
_LORA = LoraOptions(
    rank=("--lora_r", "--lora_rank"),
    modules=("--lora_target_modules", "--lora_target"),
    dropout="--lora_dropout",
    own=("--lora_", "--use_dora"),
)
_PACKED = PackedOptions(
    asked={"--load_in_4bit": ("true",)},
    form="--bnb_4bit_quant_type",
    nested=("--use_bnb_nested_quant", False),
    stored="--bnb_4bit_quant_storage",
)
_DTYPES, _HALF = ("--dtype", "--torch_dtype"), ("bfloat16", "auto")
_SWITCHES = ("--use_peft", "--use_lora", "--lora_enable")
"""Options of programs that train adapters where they are on: of TRL, of Qwen and LMFlow, of LLaVA."""


def _translated(spelled: Spelled) -> Settings:
    """The arguments with what shards their states; raises `InvalidInput` as `plain_arguments` and `with_engine` do."""
    return with_engine(plain_arguments(spelled.read, spelled.known, spelled.notes), spelled, "--")


def plain_arguments(read: LaunchSettings, known: Settings, notes: list[str]) -> Settings:
    """The arguments with underscores, with the optimizer as it is priced, and with switches that are off as false.

    Raises `InvalidInput` for programs that train from preferences or beside quantised weights, for adapters whose rank
    or modules only the program knows, and for both losses of Liger.
    """
    name = read.program.rpartition("/")[2]
    if _OTHERS.search(name):
        raise InvalidInput(f"{read.path!r} starts {name}: rewards, preferences and quantised weights are not modelled")
    settings = {f"--{key[2:].replace('-', '_')}" if key.startswith("--") else key: each for key, each in known.items()}
    settings = opened(with_optimizer(settings, "--optim", notes), read.path)
    if settings.get("--gradient_checkpointing") == "1":
        settings["--gradient_checkpointing"] = True
    settings = packed_settings(plain_switches(settings), _PACKED, notes)
    require_one_loss(settings, "--liger_kernel_config")
    half = any(settings.get(dtype) in _HALF for dtype in _DTYPES)
    return _adapted(settings, name) | (WEIGHTS if half else {})


def plain_switches(settings: Settings) -> Settings:
    """The arguments with switches that are off as false."""
    off = {key for key, each in settings.items() if key.startswith("--") and str(each).lower() in _OFF}
    return settings | dict.fromkeys(off, False)


def _adapted(settings: Settings, program: str) -> Settings:
    """The arguments with the adapters that are trained: where an option says so, or without one the program's name or
    a rank. Raises `InvalidInput` for biases that are trained beside them, and for frozen weights in fp32.
    """
    said = [str(settings[name]).lower() in ("true", "1") for name in _SWITCHES if name in settings]
    trained = any(said) if said else bool(_OF_LORA.search(program) or any(settings.get(name) for name in _LORA.rank))
    settings = lora_settings(settings, _LORA, trained=trained)
    if trained and settings.get("--lora_bias"):
        raise InvalidInput(
            f"--lora_bias {settings['--lora_bias']}: biases that are trained beside adapters are not priced"
        )
    if trained and (dtype := next((settings[name] for name in _DTYPES if settings.get(name)), "bfloat16")) not in _HALF:
        raise InvalidInput(f"--dtype {dtype}: adapters are priced beside weights in bf16")
    return settings


def _holds(settings: LaunchSettings, keys: set[str]) -> bool:
    """Scripts that give a Trainer's arguments, with either sign between their words."""
    named = {key.lstrip("-").replace("-", "_") for key in keys if key.startswith("--")}
    return settings.form == "shell" and named >= {*OF_A_TRAINER} and not llama_factory.DIALECT.holds(settings, keys)


DIALECT = Dialect(
    name="trainer",
    framework="the Trainer of transformers",
    holds=_holds,
    translate=_translated,
)
