"""Section [activations]: what layers keep from forward to backward, and what is computed again."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from meshwright.specs.base import Spec
from meshwright.specs.quantities import NonNegative


class Activations(Spec):
    """What is saved for backward, and what backward makes anew."""

    dropout: bool
    """Keeps one-byte dropout masks."""
    score_bytes: NonNegative
    """Kept for every attention score where attention is eager."""
    fused_activation: bool
    """A gated activation's inner product is recomputed in backward instead of kept."""
    keeps_statistics: bool
    """Every layer keeps its norms' statistics and its rotary tables."""
    regathers_inputs: bool
    """With sequence parallel, keeps the sharded input and gathers it again in backward; else keeps the gathered one."""
    copies_context_output: bool
    """Under context parallelism attention leaves its output in an order of its own: the projection keeps a copy."""
    copies_batched_output: bool
    """Attention has sequences first and the layer tokens first: of several sequences a micro-batch the projection keeps
    a copy of the output."""
    weighs_expert_outputs: bool
    """Routing works in fp32 and weighs the experts' outputs in it, which are kept; else scores act inside of them."""
    selective_recompute: Literal["attention_core", "every_second_product"]
    """What selective recomputation computes again."""
    keeps_unread_products: bool
    """Selective recomputation by products also keeps the last one, which backward does not read (no compiler)."""
    checkpoint_stops_early: bool
    """Full recomputation leaves out the last reduction of a layer, which backward does not need."""
    offloaded_layers: Annotated[int, Field(ge=0, le=10_000)]
    """Layers of a stage whose saved activations wait in the host's memory; their way there and back is priced as
    hidden."""
