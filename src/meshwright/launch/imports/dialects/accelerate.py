"""accelerate: its YAML, with the arguments of the script that it starts."""

from __future__ import annotations

from meshwright.launch.imports.dialects.dialect import Dialect, Spelled, has
from meshwright.launch.imports.dialects.engines import STAGE, under_deepspeed
from meshwright.launch.imports.dialects.swift import starts, swift_arguments
from meshwright.launch.imports.dialects.trainer import plain_arguments
from meshwright.launch.imports.spellings.deepspeed_json import deepspeed_json
from meshwright.launch.spelling import Settings


def _accelerate(known: Settings) -> Settings:
    """The settings with what accelerate's own section says of DeepSpeed, in DeepSpeed's words.

    Source: accelerate 1.15.0 utils/dataclasses.py, DeepSpeedPlugin.__post_init__ (stage 2 unless it is said) and
    FullyShardedDataParallelPlugin.__post_init__ (FSDP 2 reshards unless it is said).
    """
    settings = dict(known)
    if settings.pop("--gradient_checkpointing", False) is not False:
        settings["fsdp_config.fsdp_activation_checkpointing"] = True
    if known.get("fsdp_config.fsdp_version") == 2 and "fsdp_config.fsdp_sharding_strategy" not in known:
        settings.setdefault("fsdp_config.fsdp_reshard_after_forward", True)
    if known.get("distributed_type") != "DEEPSPEED" or STAGE in known:
        return settings
    settings[STAGE] = known.get("deepspeed_config.zero_stage", 2)
    for what in ("optimizer", "param"):
        device = known.get(f"deepspeed_config.offload_{what}_device", "none")
        settings |= {} if device == "none" else {f"zero_optimization.offload_{what}.device": device}
    return settings


def _translated(spelled: Spelled) -> Settings:
    """The settings with the arguments of the program beside them: ms-swift's, or those of a Trainer."""
    if starts(spelled.read):
        arguments = swift_arguments(spelled)
    else:
        arguments = plain_arguments(spelled.read, spelled.known, spelled.notes)
    return under_deepspeed(_accelerate(deepspeed_json(spelled.read) | arguments))


DIALECT = Dialect(
    name="accelerate",
    framework="accelerate",
    holds=has("distributed_type"),
    translate=_translated,
    strict="accelerate commands/config/config_args.py; what stands in fsdp_config is passed over",
)
