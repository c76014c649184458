"""Traffic: bytes that the element-wise kernels of one implementation move."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from meshwright.specs.base import Spec

Bytes = Annotated[float, Field(ge=0, le=1000)]


class Passes(Spec):
    """Bytes read and written for every 2-byte element."""

    forward: Bytes
    backward: Bytes


class ElementwiseTraffic(Spec):
    """What norms, sums, rotary positions and activations of one implementation move."""

    rms_norm: Passes
    """Per element of its input; query-key norms likewise."""
    rms_norm_kept: Bytes
    """Kept from forward to backward beyond the 2-byte input, per element."""
    layer_norm: Passes
    residual: Passes
    """A residual sum, per element."""
    rotary: Passes
    """Per element of the queries and keys."""
    gated_activation: Passes
    """Per element of the FFN."""
    plain_activation: Passes
    expert_bias: Passes
    """Per element that the first products of experts with biases put out."""
    expert_output_bias: Passes
    """Per element that their second products put out."""
    bias_gradient: Bytes
    """Backward, per element of a biased product's output."""
    split_gradient: Bytes
    """Backward, per element of the output of a fused product whose gradient is put together from its parts."""
    summed_gradient: Bytes
    """Backward, per hidden element, for every product beyond the first that reads the same input."""
