"""Megatron-DeepSpeed: the command line of its releases and forks, with DeepSpeed's JSON."""

from __future__ import annotations

from meshwright.errors import InvalidInput
from meshwright.launch.imports.dialects.dialect import Dialect, Spelled, of_megatron
from meshwright.launch.imports.spellings.arguments import modern_arguments
from meshwright.launch.imports.spellings.deepspeed_json import deepspeed_json
from meshwright.launch.imports.spellings.numbers import whole_number
from meshwright.launch.readers.settings import LaunchSettings
from meshwright.launch.spelling import Settings
from meshwright.launch.table import launch_table

_BATCHES = {"train_batch_size": "--global-batch-size", "train_micro_batch_size_per_gpu": "--micro-batch-size"}
_STAGE = "zero_optimization.stage"


def _deepspeed_arguments(known: Settings, configuration: Settings, notes: list[str]) -> Settings:
    """The arguments of Megatron-DeepSpeed, of older releases and forks too, as its table has them, with the JSON's.

    Raises `InvalidInput` where the JSON counts other batches than the command line.
    """
    for key, flag in _BATCHES.items():
        one, other = whole_number(configuration.get(key)), whole_number(known.get(flag))
        if None not in (one, other) and one != other:
            raise InvalidInput(
                f"DeepSpeed's JSON says {key} {one}, and the command line {flag} {other}: the engine takes the first "
                f"and the schedule of the learning rate the second; --set {flag}={one} where the JSON is right"
            )
    keys = launch_table("megatron-deepspeed").keys
    settings = {key: value for key, value in configuration.items() if key in keys} | known
    if configuration:
        settings.setdefault(_STAGE, 0)
    if _STAGE not in settings and "--zero-stage" in known:
        settings[_STAGE] = known["--zero-stage"]
    if str(settings.get(_STAGE)) == "0" and "--bf16" in known:
        notes.append("stage 0 with bf16: DeepSpeed's BF16_Optimizer shards optimizer states, priced as ZeRO 1")
    if "--cpu-optimizer" in known or configuration.get("zero_optimization.offload_optimizer.device") in ("cpu", "nvme"):
        settings["--cpu-optimizer"] = True
    _model(settings)
    return settings


def _model(settings: Settings) -> None:
    """Positions and layers with experts, where releases say them otherwise.

    Source: deepspeedai/Megatron-DeepSpeed@4efb479d5317 megatron/model/transformer.py, get_num_experts_per_layer.
    """
    kind = settings.pop("--position-embedding-type", None)
    if kind in ("rope", "rotary"):
        settings["--use-rotary-position-embeddings"] = True
    if kind in ("alibi", "none"):
        settings["--no-position-embedding"] = True
    experts = settings.get("--num-experts")
    count = str(experts[0] if isinstance(experts, list) else experts)
    if count in ("None", "1"):
        for name in ("--num-experts", "--expert-interval", "--topk", "--moe-expert-parallel-size"):
            settings.pop(name, None)
        return
    settings["--num-experts"] = count
    distance, layers = whole_number(settings.get("--expert-interval", 2)), whole_number(settings.get("--num-layers"))
    if distance and distance > 1 and layers is not None and layers % distance == 0:
        settings["--moe-layer-freq"] = f"([0]*{distance - 1}+[1])*{layers // distance}"


def _holds(settings: LaunchSettings, keys: set[str]) -> bool:
    del settings
    return of_megatron(keys) and bool({"--deepspeed", "--deepspeed_config", "--deepspeed-config"} & keys)


def _translated(spelled: Spelled) -> Settings:
    configuration = deepspeed_json(spelled.read)
    return modern_arguments(_deepspeed_arguments(spelled.known, configuration, spelled.notes), spelled.notes)


DIALECT = Dialect(
    name="megatron-deepspeed",
    framework="Megatron-DeepSpeed",
    holds=_holds,
    translate=_translated,
)
