"""Section [sharding]: how data-parallel ranks divide, gather and sum weights and gradients."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from meshwright.specs.base import Spec
from meshwright.specs.quantities import NonNegative


class Sharding(Spec):
    """What data parallelism divides, when it gathers and sums it, and what it copies."""

    sums_whole_gradients: bool
    """ZeRO 1 and 2 sum every gradient on every rank, not each on the rank that updates it."""
    defers_reduction: bool
    """Full weights under a pipeline: gradients stay whole in fp32 and are reduced after the last micro-batch alone."""
    keeps_ends_gathered: bool
    """ZeRO 3: embedding, final norm and head stay gathered from forward to backward (the root unit of FSDP)."""
    keeps_last_layer_gathered: bool
    """ZeRO 3: the last layer is not resharded between forward and backward."""
    ends_apart: bool
    """ZeRO 3: embedding and head are gathered one after the other, as units of their own."""
    shards_rows: bool
    """Full weights: each is divided along its first dimension, the first ranks hold the part that is rounded up; else
    the weights of a unit are laid flat and divided evenly."""
    exchange_pools: bool
    """Exchanges allocate on streams of their own, whose memory no other stream uses again (FSDP2)."""
    gather_copy_bytes: NonNegative
    """Moved per parameter after every gathering of weights."""
    scatter_copy_bytes: NonNegative
    """Moved per parameter before every scattering of gradients."""
    gradient_bucket: Annotated[int, Field(gt=0, le=2**40)]
    """Parameters in one gradient bucket, at least."""
    gradient_bucket_per_rank: Annotated[int, Field(gt=0, le=2**30)]
    """Parameters in one gradient bucket per data-parallel rank, at least."""
