"""Runtime: how one training framework behaves, as data: what it keeps, sends, overlaps and refuses."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, PositiveInt

from meshwright.specs.base import Spec

Share = Annotated[float, Field(ge=0, le=1)]
NonNegative = Annotated[float, Field(ge=0)]


class Overlap(Spec):
    """Share of each communication's window that hides it; 0: fully exposed."""

    data_parallel: Share
    """Gradient reduce-scatter beside the last backward, parameter all-gather beside the first forward."""
    tensor_parallel: Share
    """Forward and output-gradient collectives beside their own matrix product (userbuffers, async TP)."""
    tensor_parallel_backward: Share
    """Input re-gather beside the input-gradient product, and its reduction beside the weight-gradient product."""
    pipeline: Share
    """Stage-to-stage messages of 1F1B."""
    interleaved_pipeline: Share
    """Stage-to-stage messages of interleaved 1F1B."""


class RuleReference(Spec):
    """A named legality rule that the framework enforces."""

    name: str
    parameters: dict[str, Any] = {}
    source: str
    """Where the framework enforces it."""


class Runtime(Spec):
    """One framework at one version."""

    id: str
    aliases: tuple[str, ...] = ()
    version: str
    """Release or commit that the behaviours below were read from."""
    rank_order: tuple[Literal["tp", "cp", "ep", "dp", "pp"], ...]
    """Axes, fastest first."""
    gradient_bytes: Literal[2, 4]
    """Bytes per parameter of the gradient buffer, and of its reduction."""
    attention_kernel: Literal["flash", "eager"]
    """Fused attention, or score matrices in memory."""
    dropout: bool
    """Keeps one-byte dropout masks."""
    fused_activation: bool
    """A gated activation's inner product is recomputed in backward instead of kept."""
    regathers_inputs: bool
    """With sequence parallel, keeps the sharded input and gathers it again in backward."""
    logits_bytes: PositiveInt
    """Bytes alive per logit at the peak of the cross-entropy."""
    vocabulary_multiple: PositiveInt
    """The vocabulary is padded to a multiple of this times tp."""
    gradient_bucket: PositiveInt
    """Parameters in one gradient bucket, at least."""
    gradient_bucket_per_rank: PositiveInt
    """Parameters in one gradient bucket per data-parallel rank, at least."""
    overlap: Overlap
    host_s_per_layer: NonNegative
    """Seconds that the host needs to issue one layer's forward; backward takes as long."""
    host_s_per_step: NonNegative
    """Seconds per step outside of the pipeline: data, logging, learning-rate schedule."""
    schedules: tuple[Literal["1f1b", "interleaved"], ...]
    zero_stages: tuple[int, ...]
    recompute: tuple[Literal["none", "selective", "full"], ...]
    rules: tuple[RuleReference, ...]
    assumed: tuple[str, ...] = ()
    """Behaviours without a published number, for the user's eyes."""
    sources: dict[str, str]
