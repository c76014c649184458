"""Sections [storage] and [loss_scaling]: in which form a rank holds weights, gradients and optimizer states."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from meshwright.specs.base import Spec
from meshwright.specs.job import PrecisionName


class Storage(Spec):
    """The form of weights, gradients and optimizer states, whichever ranks hold them."""

    weights: Literal["half", "full"]
    """What a rank stores: 2-byte weights beside fp32 copies in the optimizer, or fp32 weights that are cast for use."""
    vocabulary_multiple: Annotated[int, Field(gt=0, le=2**20)]
    """The vocabulary is padded to a multiple of this times tp."""
    gradient_bytes: Literal[2, 4]
    """Bytes per parameter that are summed over the data-parallel ranks, and of a gradient buffer of half weights."""
    fp16_gradient_bytes: Literal[2, 4]
    """The same in fp16."""
    half_gradient_bytes: Literal[0, 2]
    """Half weights: bytes per parameter of the 2-byte gradients that stay allocated beside fp32 ones."""
    keeps_gradient_copy: bool
    """Half weights, 2-byte gradients: their fp32 copies stay from step to step; else only while the optimizer works."""
    dummy_gradients: bool
    """Half weights: products add to whole gradients themselves, and keep one tensor of every weight's shape for
    autograd."""
    gradient_copies: bool
    """Communication buckets hold every gradient a second time (DDP without gradient_as_bucket_view)."""
    moment_bytes: Literal[2, 4]
    """Of each of Adam's two moments."""
    quantised_weights: tuple[PrecisionName, ...]
    """Half weights: recipes under which a rank stores the weights of quantised products in quantised form alone, and
    gathers them so. Under others quantised copies stand beside 2-byte weights."""
    remainder_weights: tuple[PrecisionName, ...]
    """Half weights: recipes under which the optimizer keeps of an fp32 weight the 2 bytes that the stored one lacks,
    and takes gradients as they are."""
    autocast: bool
    """Full weights: torch.autocast casts weights and inputs of every matrix product on its own; activations between
    layers are fp32."""


class LossScaling(Spec):
    """How a runtime scales the loss in fp16 unless told; in fp16 alone."""

    initial: Annotated[float, Field(gt=0, le=2**48)]
    window: Annotated[int, Field(gt=0, le=10**6)]
    """Steps without an overflow after which the scale doubles."""
    hysteresis: Annotated[int, Field(gt=0, le=1000)]
    """Overflows before the scale halves."""
    least: Annotated[float, Field(ge=0, le=2**32)]
    """The scale falls no further; 0: no limit."""
