"""Training: whether a launch file trains a whole model of a kind that is modelled."""

from __future__ import annotations

import re

from meshwright.errors import InvalidInput
from meshwright.launch.readers.settings import LaunchSettings

_OTHER_MODELS = re.compile(r"pretrain_(bert|t5|ict|retro|vision|vlm|mamba|hybrid|mimo|biencoder)\w*\.py$")
"""Programs of Megatron-LM that train models of other kinds with the same arguments."""
_NO_TRAINING = re.compile(
    r"[^/]*(ptq|quantiz|inference|generation|generate|server|convert|evaluate|preprocess)\w*\.py$"
)
"""Programs that take the same arguments and train nothing."""
_OTHER_COMMANDS = frozenset(
    (
        "api",
        "app",
        "chat",
        "deploy",
        "eval",
        "export",
        "infer",
        "merge-lora",
        "rollout",
        "sample",
        "web-ui",
        "webchat",
        "webui",
    )
)
"""Of ms-swift, LLaMA-Factory and their like. Source: modelscope/ms-swift@3602360a5 swift/cli/main.py, ROUTE_MAPPING."""
_TASKS = re.compile(r"(?:^|/)(tasks/(?:\w+/)*main\.py)$")
"""Programs of Megatron-LM that evaluate a model, or tune it for a task."""


_OF_ENCODERS = re.compile(r"(^|\.)(bert_binary_head|encoder\.num_layers)$")
"""Keys of NeMo 1 that its BERT and T5 have, whatever they say (NVIDIA/NeMo-Framework-Launcher@467d0a83359e
launcher_scripts/conf/training/bert/110m.yaml)."""


def require_training(read: LaunchSettings) -> None:
    """Raises `InvalidInput` where a script, or flags in YAML, name a program that trains other models, or none, and
    where settings are of an encoder.
    """
    if encoder := next((each for each in read.settings if _OF_ENCODERS.search(each.key)), None):
        raise InvalidInput(
            f"{read.path!r}, line {encoder.line}: {encoder.key} is of an encoder, which is not modelled: decoders "
            "alone are"
        )
    program = read.program if read.form in ("shell", "yaml") else ""
    if match := _NO_TRAINING.search(program):
        raise InvalidInput(f"{read.path!r} starts {match[0]}, which trains nothing")
    if program and read.command in _OTHER_COMMANDS:
        raise InvalidInput(f"{read.path!r} starts {program} {read.command}, which trains nothing")
    if match := _TASKS.search(program):
        raise InvalidInput(f"{read.path!r} starts {match[1]}, which evaluates a model or tunes it for a task")
    if match := _OTHER_MODELS.search(program):
        raise InvalidInput(f"{read.path!r} starts {match[0]}: its models are not modelled, decoders alone are")


def require_whole(read: LaunchSettings) -> None:
    """Raises `InvalidInput` where a recipe trains adapters."""
    for each in read.settings:
        adapters = "peft" in each.key.split(".")[:-1] or each.key.rpartition(".")[2] in ("peft", "peft_scheme")
        if adapters and each.value not in (None, "None", "none", ""):
            raise InvalidInput(
                f"{read.path!r}, line {each.line}: {each.key} is of the training of adapters, which is read in recipes "
                "of Megatron-Bridge and not of NeMo; --runtime megatron-bridge --lora-rank 16 prices it"
            )
