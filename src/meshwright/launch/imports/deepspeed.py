"""DeepSpeed: what its JSON says beside a script or a configuration, and the command line of Megatron-DeepSpeed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from meshwright.errors import InvalidInput
from meshwright.launch.imports.numbers import whole_number
from meshwright.launch.readers.limits import line_of, named_file, text_of
from meshwright.launch.readers.settings import LaunchSettings
from meshwright.launch.readers.traced import Unreadable
from meshwright.launch.readers.trees import read_tree
from meshwright.launch.spelling import Settings, Understood, understand
from meshwright.launch.table import launch_table

CONFIGURATIONS = (
    *("--deepspeed_config", "--deepspeed-config", "--deepspeed", "deepspeed"),
    "deepspeed_config.deepspeed_config_file",
)
_BATCHES = {"train_batch_size": "--global-batch-size", "train_micro_batch_size_per_gpu": "--micro-batch-size"}
_STAGE = "zero_optimization.stage"


def deepspeed_json(read: LaunchSettings) -> Settings:
    """The settings of the DeepSpeed file that is named: written by the script itself, beside it, or where its name says
    from the root of the repository that it lies in.

    Raises `InvalidInput` with the line where that file is malformed.
    """
    named = [each.value for each in read.settings if each.key in CONFIGURATIONS]
    name = next((value for value in named if isinstance(value, str)), "")
    if not name:
        return {}
    text = read.documents.get(name)
    try:
        beside = named_file(Path(read.path), name) if text is None else None
        text = text_of(beside) if beside else text
        tree = read_tree(name, text, "json") if text else None
    except Unreadable as error:
        where = f"line {line_of(text or '', error.origin)}: {error.what}"
        raise InvalidInput(f"{read.path!r} names DeepSpeed's {name!r}, which is malformed, {where}") from None
    except OSError:  # no name that a file may have
        return {}
    settings = tree.settings if tree else ()
    return {each.key: each.value for each in settings if each.value is not None and each.value != "auto"}


def known_to_deepspeed(understood: Understood, read: LaunchSettings) -> Understood:
    """What was understood of a script, with settings of its DeepSpeed file counted as DeepSpeed's own table counts
    them: those that are priced as they stand are not unknown, nor are those that change neither memory nor time.
    """
    keys, table = deepspeed_json(read).keys(), launch_table("deepspeed")
    left = {key: value for key, value in understood.unknown.items() if key in keys}
    ignored = understand(left, table).ignored
    constants = {key: value for constant in table.constants for key, value in constant.settings.items()}
    priced = {key for key, value in left.items() if key in constants and str(value) == str(constants[key])}
    unknown = {key: value for key, value in understood.unknown.items() if key not in ignored and key not in priced}
    return replace(understood, ignored=understood.ignored | ignored, unknown=unknown)


def of_replicas(known: Settings, notes: list[str]) -> Settings:
    """The settings with the sequences of a step, which AutoTP has counted once for each tensor-parallel rank.

    Source: DeepSpeed 0.19.8 runtime/config.py, DeepSpeedConfig: `world_size` is of all ranks where no `mpu` is given,
    and `_batch_assertion` holds the batch against it.
    """
    counted, tp = (whole_number(known.get(key)) for key in ("train_batch_size", "tensor_parallel.autotp_size"))
    if not counted or not tp or tp < 2 or counted % tp:
        return known
    notes.append(
        f"train_batch_size {counted} counts each sequence on all {tp} tensor-parallel ranks: {counted // tp} a step"
    )
    return known | {"train_batch_size": counted // tp}


def deepspeed_arguments(known: Settings, configuration: Settings, notes: list[str]) -> Settings:
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
