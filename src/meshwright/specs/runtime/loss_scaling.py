"""Section [loss_scaling]: how a runtime keeps gradients in the range of fp16."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from meshwright.specs.base import Spec


class LossScaling(Spec):
    """How a runtime scales the loss in fp16 unless told; in fp16 alone."""

    initial: Annotated[float, Field(gt=0, le=2**48)]
    window: Annotated[int, Field(gt=0, le=10**6)]
    """Steps without an overflow after which the scale doubles."""
    hysteresis: Annotated[int, Field(gt=0, le=1000)]
    """Overflows before the scale halves."""
    least: Annotated[float, Field(ge=0, le=2**32)]
    """The scale falls no further; 0: no limit."""
