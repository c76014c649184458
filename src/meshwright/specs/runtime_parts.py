"""Parts of a runtime: what it overlaps, what its cross-entropies cost, what a device holds, whom its rules quote."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from meshwright.specs.base import Spec

Share = Annotated[float, Field(ge=0, le=1)]
NonNegative = Annotated[float, Field(ge=0, le=1e12)]


class Overlap(Spec):
    """Share of each communication's window that hides it; 0: fully exposed."""

    data_parallel: Share
    """Gradient reduce-scatter beside the last backward, parameter all-gather beside the first forward."""
    tensor_parallel: Share
    """Forward and output-gradient collectives beside their own matrix product (userbuffers, async TP)."""
    tensor_parallel_backward: Share
    """Input re-gather beside the input-gradient product, and its reduction beside the weight-gradient product."""
    expert: Share
    """Exchanges of experts beside the opposite pass of another micro-batch."""
    context: Share
    """Messages of ring attention beside the attention of the piece that has arrived."""
    pipeline: Share
    """Stage-to-stage messages of 1F1B."""
    interleaved_pipeline: Share
    """Stage-to-stage messages of interleaved 1F1B."""
    split_pipeline: Share
    """Stage-to-stage messages of schedules that split the backward pass."""


class CrossEntropy(Spec):
    """What one implementation of the cross-entropy costs, in bytes per logit of the rank's vocabulary shard."""

    alive_bytes: NonNegative
    """Alive at the peak, logits included."""
    split_alive_bytes: NonNegative | None = None
    """The same where tp splits the vocabulary; none: no different."""
    unjoined_bytes: NonNegative = 0
    """Freed before the peak, in pieces that the allocator cannot join for what is alive then."""
    forward_bytes: NonNegative
    """Moved in forward."""
    backward_bytes: NonNegative
    """Moved in backward."""


class DeviceMemory(Spec):
    """What the device holds beside live tensors, and how much of it a verdict reserves."""

    context_bytes: NonNegative
    """CUDA context and loaded kernels of one process."""
    workspace_bytes: NonNegative
    """Library workspaces inside the allocator."""
    communicator_bytes: NonNegative
    """Of one communicator of an axis."""
    pair_communicator_bytes: NonNegative
    """Of one stage-to-stage communicator."""
    communicator_uncertainty: NonNegative
    """How far communicators may exceed that, as a share; a safe verdict allows for it."""
    fragmentation: NonNegative
    """Reserved over allocated memory, less one: expected."""
    fragmentation_likely: NonNegative
    """The same when a run is lucky: beyond it nothing fits."""
    fragmentation_safe: NonNegative
    """The same on the worst rank: below it everything fits."""


class RuleReference(Spec):
    """A named legality rule that the framework enforces, or a demand that it makes on the launch."""

    name: str
    source: str
    """Where the framework enforces it."""
    enforced: Literal["at start", "late", "silently"] = "at start"
    """With its arguments; only once it has started; or by doing something else without a word."""


class LossScaling(Spec):
    """How a runtime scales the loss in fp16 unless told."""

    initial: Annotated[float, Field(gt=0, le=2**48)]
    window: Annotated[int, Field(gt=0, le=10**6)]
    """Steps without an overflow after which the scale doubles."""
    hysteresis: Annotated[int, Field(gt=0, le=1000)]
    """Overflows before the scale halves."""
    least: Annotated[float, Field(ge=0, le=2**32)]
    """The scale falls no further; 0: no limit."""
