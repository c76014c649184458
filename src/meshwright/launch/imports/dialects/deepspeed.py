"""DeepSpeed: its JSON, with the sequences of a step as they are counted without AutoTP."""

from __future__ import annotations

from meshwright.launch.imports.dialects.dialect import Dialect, is_below
from meshwright.launch.imports.spellings.numbers import whole_number
from meshwright.launch.readers.settings import LaunchSettings
from meshwright.launch.spelling import Settings

_PIPELINE = "pipeline"
"""The section of DeepSpeed's own pipelines."""


def _of_replicas(known: Settings, notes: list[str]) -> Settings:
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


def _of_a_pipeline(known: Settings, notes: list[str]) -> Settings:
    """The settings with what the section of a pipeline says of recomputation; its stages stand in the script alone.

    Source: DeepSpeed 0.19.8 runtime/pipe/engine.py L217-220 and runtime/pipe/module.py (num_stages); nothing reads the
    section's stages and partition.
    """
    section = {key: value for key, value in known.items() if is_below(key, _PIPELINE)}
    if not section:
        return known
    notes.append(
        "the section `pipeline` is of a script with a PipelineModule, whose num_stages no JSON says: priced as pp 1, "
        "--pp says otherwise"
    )
    interval = whole_number(section.get(f"{_PIPELINE}.activation_checkpoint_interval", 0))
    if interval and interval > 1:
        notes.append(f"a pipeline keeps the input of every {interval} layers; priced: of every layer")
    said: Settings = {"plan.recompute": "full"} if interval else {}
    return {key: value for key, value in known.items() if key not in section} | said


def _holds(settings: LaunchSettings, keys: set[str]) -> bool:
    own = ("train_batch_size", "train_micro_batch_size_per_gpu", "zero_optimization")
    found = sum(any(is_below(key, name) for key in keys) for name in own)
    return settings.form in ("json", "yaml") and found > 0 and not {"num_layers", "num-layers"} & keys


DIALECT = Dialect(
    name="deepspeed",
    framework="DeepSpeed",
    holds=_holds,
    translate=lambda spelled: _of_a_pipeline(_of_replicas(spelled.known, spelled.notes), spelled.notes),
    strict="deepspeed/runtime/config_utils.py L110 forbids other keys in its sections",
)
