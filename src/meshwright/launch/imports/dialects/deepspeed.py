"""DeepSpeed: its JSON, with the sequences of a step as they are counted without AutoTP."""

from __future__ import annotations

from meshwright.launch.imports.dialects.dialect import Dialect, is_below
from meshwright.launch.imports.numbers import whole_number
from meshwright.launch.readers.settings import LaunchSettings
from meshwright.launch.spelling import Settings


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


def _holds(settings: LaunchSettings, keys: set[str]) -> bool:
    own = ("train_batch_size", "train_micro_batch_size_per_gpu", "zero_optimization")
    found = sum(any(is_below(key, name) for key in keys) for name in own)
    return settings.form in ("json", "yaml") and found > 0 and not {"num_layers", "num-layers"} & keys


DIALECT = Dialect(
    name="deepspeed",
    framework="DeepSpeed",
    holds=_holds,
    translate=lambda spelled: _of_replicas(spelled.known, spelled.notes),
)
