"""Swift: the options of `megatron sft` and `megatron pt` of ms-swift as Megatron-LM's arguments, with its defaults."""

from __future__ import annotations

from meshwright.errors import InvalidInput
from meshwright.launch.spelling import Settings

DEFAULTS: Settings = {
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
"""Where Megatron-LM has others; of dropout it has no option."""
_RENAMED = {
    "--max-length": "--seq-length",
    "--virtual-pipeline-model-parallel-size": "--num-virtual-stages-per-pipeline-rank",
}
_TUNERS = ("--tuner_type", "--train_type")


def swift_arguments(known: Settings) -> Settings:
    """The options with hyphens and without those that are off.

    Raises `InvalidInput` where adapters are trained, or other models run beside the one that is.

    Source: modelscope/ms-swift@3602360a5 swift/megatron/arguments/megatron_args.py.
    """
    for name in _TUNERS:
        if str(known.get(name, "full")) != "full":
            raise InvalidInput(f"{name} {known[name]}: the training of adapters is not modelled")
    if "--rlhf_type" in known:
        raise InvalidInput(
            f"--rlhf_type {known['--rlhf_type']}: models beside the one that is trained are not modelled"
        )
    settings = dict(DEFAULTS)
    for key, value in known.items():
        hyphens = key.replace("_", "-") if key.startswith("--") else key
        name, text = _RENAMED.get(hyphens, hyphens), str(value).lower()
        if text in ("false", "none", "null"):
            settings.pop(name, None)
        else:
            settings[name] = True if text == "true" else value
    if settings.get("--torch-dtype") == "float16" or "--fp16" in settings:
        settings.pop("--bf16")
        settings["--fp16"] = True
    return settings
