"""Zero bubble: the flags of the fork of Megatron-LM with pipelines of split backward passes, as one schedule."""

from __future__ import annotations

from meshwright.errors import InvalidInput
from meshwright.launch.imports.dialects.dialect import Dialect, of_megatron
from meshwright.launch.imports.spellings.arguments import modern_arguments
from meshwright.launch.imports.spellings.numbers import whole_number
from meshwright.launch.readers.settings import LaunchSettings
from meshwright.launch.spelling import Settings

_BY_MEMORY = {"zb": "zb-v", "half": "v-half", "min": "v-min"}
_COUNTS = {"--num-seq-splits": 1, "--interleave-group-size": 0}
"""Counts that change the schedule, which is refused, with the number that changes nothing."""
_FLAGS = ("--zero-bubble-v-schedule", "--zero-bubble-v-schedule-mem-setup", "--zero-bubble-max-pending-backward")


def _with_schedule(settings: Settings, notes: list[str]) -> Settings:
    """The settings with the schedule under --enable-zero-bubble; notes: what was taken to mean something is added.

    Source: sail-sg/zero-bubble-pipeline-parallelism@064369d6a5c6 megatron/core/zbpp_utils.py. Raises `InvalidInput` for
    a schedule that is not modelled.
    """
    if "--enable-1f1b-v" in settings:
        raise InvalidInput("--enable-1f1b-v: the 1F1B schedule in a V is not modelled; modelled: zb-v, v-half, v-min")
    if settings.get("--recompute-method") == "chunk":
        raise InvalidInput(
            "--recompute-method chunk recomputes whole chunks of a rank, which is not modelled; uniform and block are"
        )
    idle = {name for name, plain in _COUNTS.items() if (whole_number(settings.get(name, plain)) or 0) <= plain}
    settings = {key: value for key, value in settings.items() if key not in idle}
    named = {key: value for key, value in settings.items() if key not in _FLAGS and key != "--enable-zero-bubble"}
    if "--zero-bubble-v-schedule" in settings:
        memory = str(settings.get("--zero-bubble-v-schedule-mem-setup", "zb"))
        if memory not in _BY_MEMORY:
            raise InvalidInput(f"--zero-bubble-v-schedule-mem-setup {memory!r} is none of {', '.join(_BY_MEMORY)}")
        return named | {"--enable-zero-bubble": _BY_MEMORY[memory]}
    if "--enable-zero-bubble" not in settings:
        return named
    pending = whole_number(settings.get("--zero-bubble-max-pending-backward", "auto"))
    stages = whole_number(settings.get("--pipeline-model-parallel-size", 1))
    if pending is None:
        notes.append("--zero-bubble-max-pending-backward auto fills the memory that is there; priced as ZB-2p")
    bounded = pending is not None and stages is not None and pending < 2 * stages
    return named | {"--enable-zero-bubble": "zb-1p" if bounded else "zb-2p"}


def _holds(settings: LaunchSettings, keys: set[str]) -> bool:
    del settings
    own = {"--enable-zb-runtime", "--enable-zero-bubble", "--zero-bubble-v-schedule", "--enable-1f1b-v", *_COUNTS}
    own |= {"--offload-chunk-num", "--offload-continuous-buffers", "--recompute-lgd", "--allow-padding-num-layers"}
    return of_megatron(keys) and bool(own & keys)


DIALECT = Dialect(
    name="zero-bubble",
    framework="zero-bubble",
    holds=_holds,
    translate=lambda spelled: modern_arguments(_with_schedule(spelled.known, spelled.notes), spelled.notes),
)
