"""Engines: whether DeepSpeed, FSDP or replicas run what a program with a Trainer's arguments trains."""

from __future__ import annotations

from meshwright.errors import InvalidInput
from meshwright.launch.framework import Value
from meshwright.launch.imports.dialects.dialect import Spelled
from meshwright.launch.imports.spellings.deepspeed_json import deepspeed_json
from meshwright.launch.readers.settings import LaunchSettings
from meshwright.launch.spelling import Settings

WEIGHTS: Settings = {"runtime.weights": "bf16"}
"""Of programs that load weights in bf16 and leave them so; see `behaviours`."""
STAGE = "zero_optimization.stage"
REPLICAS = "replicas with whole states on every rank, as DDP has them"
_STAGES = {"full_shard": 3, "shard_grad_op": 2, "true": 3}


def with_engine(settings: Settings, spelled: Spelled, prefix: str = "", *, replicated: bool = True) -> Settings:
    """The settings with the runtime that `deepspeed` or `fsdp` names and its stage of ZeRO; of replicas where neither
    is there and accelerate, which may shard as well, does not start the program. What is named and lies nowhere is
    asked for later.

    prefix: of the names of options; replicated: whether a program that nothing is known to start keeps whole states.
    Raises `InvalidInput` for FSDP that is neither whole nor of gradients and optimizer states.

    Source: transformers 5.23.0 training_args.py (`fsdp`, `deepspeed`; neither: whole states on every rank).
    """
    engine = deepspeed_json(spelled.read)
    settings = engine | settings
    named, fsdp = (settings.pop(f"{prefix}{name}", None) for name in ("deepspeed", "fsdp"))
    if named or engine:
        return settings | {"runtime.id": "deepspeed"}
    if fsdp:
        return {STAGE: _stage_of_fsdp(fsdp, spelled.notes)} | settings | {"runtime.id": "accelerate"}
    whole = replicated and not _by_accelerate(spelled.read) if spelled.stage is None else spelled.stage == 0
    if STAGE in settings or not whole:
        return settings
    if spelled.stage is None:
        elsewhere = (
            ""
            if spelled.read.program
            else "; where accelerate's FSDP starts it, --runtime accelerate --set plan.zero=3"
        )
        spelled.notes.append(f"neither `{prefix}deepspeed` nor `{prefix}fsdp`: {REPLICAS}{elsewhere}")
    return settings | {STAGE: 0, "runtime.id": "pytorch-ddp"}


def under_deepspeed(settings: Settings) -> Settings:
    """The settings with the runtime of DeepSpeed, where they have its stage of ZeRO."""
    return settings | {"runtime.id": "deepspeed"} if STAGE in settings else settings


def _by_accelerate(read: LaunchSettings) -> bool:
    """Whether accelerate starts the program, as the command of TRL has it do (huggingface/trl@f2cd57710 trl/cli)."""
    return read.starter == "accelerate" or read.program.rpartition("/")[2] == "trl"


def _stage_of_fsdp(fsdp: Value, notes: list[str]) -> int:
    """The stage of ZeRO that FSDP's words mean."""
    said = " ".join(map(str, fsdp)) if isinstance(fsdp, list) else str(fsdp)
    words = said.lower().replace(",", " ").split()
    stage = next((_STAGES[word] for word in words if word in _STAGES), None)
    if stage is None or "offload" in words:
        raise InvalidInput(f"fsdp {said}: only full_shard and shard_grad_op, without offload, are modelled")
    notes.append("FSDP of a Trainer is priced as FSDP 2")
    return stage
