"""Swift: the options of `megatron sft` and `megatron pt` of ms-swift, also in YAML, as Megatron-LM's arguments."""

from __future__ import annotations

from meshwright.errors import InvalidInput
from meshwright.launch.imports.dialects.dialect import Dialect
from meshwright.launch.imports.spellings.adapters import priced
from meshwright.launch.imports.spellings.arguments import modern_arguments
from meshwright.launch.readers.settings import LaunchSettings
from meshwright.launch.spelling import Settings

_DEFAULTS: Settings = {
    "CUDA_DEVICE_MAX_CONNECTIONS": "1",
    "--no-create-attention-mask-in-dataloader": True,
    "--micro-batch-size": 1,
    "--global-batch-size": 16,
    "--recompute-granularity": "selective",
    "--cross-entropy-loss-fusion": True,
    "--use-distributed-optimizer": True,
    "--expert-tensor-parallel-size": 1,
    "--moe-token-dispatcher-type": "alltoall",
    "--moe-grouped-gemm": True,
    "--bf16": True,
    "--attention-dropout": 0.0,
    "--hidden-dropout": 0.0,
}
"""Where Megatron-LM has others; of dropout and of masks it has no option, and the variable it sets itself (L796)."""
_RENAMED = {
    "--max-length": "--seq-length",
    "--packing-length": "--seq-length",
    "--virtual-pipeline-model-parallel-size": "--num-virtual-stages-per-pipeline-rank",
}
_TUNERS = ("--tuner_type", "--train_type")
_ADAPTERS: Settings = {"--lora-rank": 8, "--target-modules": "all-linear", "--lora-dropout": 0.05}
"""Of adapters, where they are trained."""
_OF_ADAPTERS = ("--lora-", "--target-modules", "--modules-to-save", "--target-regex", "--use-rslora")
"""How the names of options begin that mean nothing where all weights are."""


def _swift_arguments(known: Settings) -> Settings:
    """The options with hyphens and without those that are off.

    Raises `InvalidInput` for tuners other than LoRA, and where other models run beside the one that is trained.

    Source: modelscope/ms-swift@3602360a5 swift/megatron/arguments/megatron_args.py.
    """
    name = next((name for name in _TUNERS if name in known), _TUNERS[0])
    tuner = str(known.get(name, "full"))
    if tuner not in ("full", "lora"):
        raise InvalidInput(f"{name} {tuner}: {priced()}; full and lora are modelled")
    if "--rlhf_type" in known:
        raise InvalidInput(
            f"--rlhf_type {known['--rlhf_type']}: models beside the one that is trained are not modelled"
        )
    settings = dict(_DEFAULTS)
    packed = {key: value for key, value in known.items() if key.replace("_", "-") == "--packing-length"}
    for key, value in (*known.items(), *packed.items()):
        hyphens = key.replace("_", "-") if key.startswith("--") else key
        name, text = _RENAMED.get(hyphens, hyphens), str(value).lower()
        if text in ("false", "none", "null"):
            settings.pop(name, None)
        else:
            settings[name] = True if text == "true" else value
    settings = _adapted(settings) if tuner == "lora" else _without(settings, _OF_ADAPTERS)
    if settings.get("--torch-dtype") == "float16" or "--fp16" in settings:
        settings.pop("--bf16")
        settings["--fp16"] = True
    return settings


def _adapted(settings: Settings) -> Settings:
    """The options of adapters with those that are left out, and without a dropout of 0."""
    settings = _ADAPTERS | settings
    return _without(settings, ("--lora-dropout",)) if float(str(settings["--lora-dropout"])) == 0 else settings


def _without(settings: Settings, names: tuple[str, ...]) -> Settings:
    return {key: value for key, value in settings.items() if not key.startswith(names)}


def _holds(settings: LaunchSettings, keys: set[str]) -> bool:
    """Megatron's arguments with underscores, and a model that is named."""
    own = {"--tensor_model_parallel_size", "--expert_model_parallel_size", "--micro_batch_size", "--global_batch_size"}
    return settings.form in ("shell", "yaml") and "--model" in keys and bool(own & keys)


DIALECT = Dialect(
    name="ms-swift",
    framework="ms-swift",
    holds=_holds,
    translate=lambda spelled: modern_arguments(_swift_arguments(spelled.known), spelled.notes),
)
