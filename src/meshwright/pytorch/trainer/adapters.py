"""Adapters: peft's own, in a model of transformers."""

from __future__ import annotations

from typing import Any

from torch import nn

from meshwright.specs.adapters import adapted_modules
from meshwright.specs.job import Job


def add_adapters(model: Any, job: Job) -> None:
    """Freeze the weights of a model and put the job's adapters beside them, in fp32, as peft does by default.

    What peft moves to the device and format of the weights is there already, and a fake tensor cannot be moved.
    """
    from peft import LoraConfig, inject_adapter_in_model

    moves = nn.Module.to
    setattr(nn.Module, "to", lambda module, *_, **__: module)  # noqa: B010
    try:
        inject_adapter_in_model(
            LoraConfig(r=job.lora_rank, target_modules=list(adapted_modules(job.lora_modules))), model
        )
    finally:
        setattr(nn.Module, "to", moves)  # noqa: B010
