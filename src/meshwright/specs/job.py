"""Job: what is to be trained, apart from the model and the cluster."""

from __future__ import annotations

from typing import Literal

from pydantic import PositiveInt

from meshwright.specs.base import Spec


class Job(Spec):
    """One training job."""

    sequence_length: PositiveInt
    """Tokens in one sequence."""
    global_batch: PositiveInt
    """Sequences in one optimizer step."""
    precision: Literal["bf16", "fp16"] = "bf16"
    """Of weights, activations and matrix products; gradients and optimizer states follow the runtime."""
    optimizer: Literal["adam"] = "adam"
    """Adam with fp32 master weights and two fp32 moments: 12 bytes per parameter."""
    tokens: PositiveInt | None = None
    """Tokens to train on in all; None: not given."""

    @property
    def tokens_per_step(self) -> int:
        """Tokens in one optimizer step."""
        return self.sequence_length * self.global_batch
