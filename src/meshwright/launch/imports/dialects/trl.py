"""TRL: its YAML of a Trainer's arguments, as that of its kin."""

from __future__ import annotations

from meshwright.errors import InvalidInput
from meshwright.launch.imports.adapters import LoraOptions, lora_settings
from meshwright.launch.imports.deepspeed_json import deepspeed_json
from meshwright.launch.imports.dialects import llama_factory
from meshwright.launch.imports.dialects.dialect import AS_REPLICAS, OF_A_TRAINER, REPLICAS, Dialect, Spelled, has
from meshwright.launch.imports.dialects.trainer import stage_of_fsdp
from meshwright.launch.imports.liger import require_one_loss
from meshwright.launch.imports.optimizers import with_optimizer
from meshwright.launch.readers.settings import LaunchSettings
from meshwright.launch.spelling import Settings

_LORA = LoraOptions(
    rank=("lora_r",),
    modules=("lora_target_modules",),
    dropout="lora_dropout",
    own=("lora_", "use_rslora", "use_dora"),
    usual={"lora_r": 16, "lora_dropout": 0.05},
    left_to_peft=True,
)
_STAGE = "zero_optimization.stage"
_TORCHRUN = {"--nproc_per_node", "--nproc-per-node", "--nnodes"}
_HALF = ("bfloat16", "auto")


def _require_half(known: Settings) -> None:
    """Raises `InvalidInput` where frozen weights are not in bf16."""
    dtype = known.get("dtype", known.get("torch_dtype", "float32"))
    if str(dtype) not in _HALF:
        said = next((name for name in ("dtype", "torch_dtype") if name in known), "")
        what = f"{said} {dtype}" if said else "dtype is left out, which is float32 in TRL"
        raise InvalidInput(f"{what}: adapters are priced beside weights in bf16, which dtype: bfloat16 says")


def _sharded(spelled: Spelled) -> Settings:
    """The settings with the stage of ZeRO as the Trainer has it, where `deepspeed` or `fsdp` says it, or torchrun
    starts the program without either.

    Source: transformers 5.23.0 training_args.py, of which TRL's SFTConfig is one.
    """
    settings = deepspeed_json(spelled.read) | with_optimizer(spelled.known, "optim", spelled.notes)
    named, fsdp = settings.pop("deepspeed", None), settings.pop("fsdp", None)
    if _STAGE in settings:
        return settings | {"runtime.id": "deepspeed"}
    if fsdp:
        words = " ".join(map(str, fsdp)) if isinstance(fsdp, list) else str(fsdp)
        return settings | {"runtime.id": "accelerate", _STAGE: stage_of_fsdp(words, spelled.notes)}
    started = {each.key for each in spelled.read.launcher}
    if not named and spelled.read.program and started & _TORCHRUN and "plan.zero" not in settings:
        spelled.notes.append(f"torchrun, and neither `deepspeed` nor `fsdp`: {REPLICAS}")
        settings |= AS_REPLICAS
    return settings | ({"deepspeed": named} if named else {})


def _translated(known: Settings, notes: list[str]) -> Settings:
    """The settings with the adapters that are trained, and without switches that are off."""
    require_one_loss(known, "liger_kernel_config")
    trained = known.get("use_peft") is True
    known = lora_settings(known, _LORA, trained=trained)
    if trained:
        _require_half(known)
    if not {"bf16", "fp16"} & known.keys():
        notes.append("neither bf16 nor fp16 stands in it: priced in bf16")
    return {
        key: value
        for key, value in known.items()
        if value is not False or key == "gradient_checkpointing" or "." in key
    }


def _holds(settings: LaunchSettings, keys: set[str]) -> bool:
    """Configurations of the Trainer's arguments alone, as TRL's scripts and those of its kin take them."""
    return has(*OF_A_TRAINER)(settings, keys) and not llama_factory.DIALECT.holds(settings, keys)


DIALECT = Dialect(
    name="trl",
    framework="TRL",
    holds=_holds,
    translate=lambda spelled: _translated(_sharded(spelled), spelled.notes),
)
