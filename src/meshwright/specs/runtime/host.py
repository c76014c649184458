"""Section [host]: seconds of the processor that issues the work of one accelerator."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from meshwright.specs.base import Spec
from meshwright.specs.quantities import NonNegative


class PassSeconds(Spec):
    """Seconds of each pass."""

    forward: NonNegative
    backward: NonNegative

    @property
    def total(self) -> float:
        """Of both."""
        return self.forward + self.backward


class Host(Spec):
    """Seconds that the host takes."""

    host_s_per_layer: PassSeconds
    """Seconds that the host needs to issue one dense layer."""
    host_s_per_expert_layer: PassSeconds
    """The same of a layer of experts, without what each expert of the rank adds."""
    host_s_per_tensor_parallel_layer: PassSeconds = PassSeconds(forward=0, backward=0)
    """On top, of a dense layer that tensor parallelism splits, where DTensor places the result of every operator."""
    host_s_per_recomputed_layer: PassSeconds = PassSeconds(forward=0, backward=0)
    """On top, of a layer that is recomputed whole, where hooks stand in for each tensor that it would keep."""
    host_s_per_partly_recomputed_layer: PassSeconds = PassSeconds(forward=0, backward=0)
    """On top, of a layer of which parts are recomputed, where Python decides of each operator whether it is."""
    host_s_per_frozen_layer: PassSeconds = PassSeconds(forward=0, backward=0)
    """Of one dense layer whose weights are frozen, under torch.autocast, in place of `host_s_per_layer`."""
    host_s_per_adapter: PassSeconds = PassSeconds(forward=0, backward=0)
    """On top, for each adapter of a layer."""
    host_s_per_unpacked_weight: PassSeconds = PassSeconds(forward=0, backward=0)
    """On top, for each linear layer whose weight is stored in 4 bits."""
    host_s_per_rotated_document: PassSeconds = PassSeconds(forward=0, backward=0)
    """On top, for each document that is packed into a micro-batch, where queries and keys of one after the other get
    their rotary positions."""
    host_s_per_updated_adapter: NonNegative = 0
    """Seconds per step to clip and update both weights of one adapter."""
    host_s_per_sharded_layer: PassSeconds = PassSeconds(forward=0, backward=0)
    """On top, of a layer under ZeRO 2 or 3, where hooks gather its weights and reduce its gradients."""
    host_s_per_gathered_layer: PassSeconds = PassSeconds(forward=0, backward=0)
    """On top, of a layer under ZeRO 3, where hooks let weights go after forward and gather them again."""
    host_s_per_gathered_expert: PassSeconds = PassSeconds(forward=0, backward=0)
    """The same for each expert of the rank, where its products are kernels of their own and so have weights of their
    own, each of which is gathered, let go and reduced by itself."""
    host_s_per_looped_expert: PassSeconds = PassSeconds(forward=0, backward=0)
    """Of each expert of the rank, where they run one after the other in Python, with its kernels; 0: they do not."""
    host_s_per_kernel: NonNegative
    """For each kernel of each expert of the rank, where its products are kernels of their own."""
    host_s_per_all_to_all: PassSeconds
    """Of a layer of experts, what HybridEP does not issue of permuting and exchanging."""
    host_s_per_router: PassSeconds
    """Of a layer of experts, what chooses experts and prepares the dispatch."""
    host_s_per_attention: PassSeconds
    """Of any layer, attention, norms and residual sums."""
    host_s_per_latent_attention: PassSeconds = PassSeconds(forward=0, backward=0)
    """On top, where attention is latent; 0: not known."""
    host_s_per_shared_expert: PassSeconds = PassSeconds(forward=0, backward=0)
    """On top, of a layer of experts with a shared one, whose router scores by sigmoid within groups; 0: not known."""
    host_s_per_overlapped_layer: PassSeconds
    """On top, of a layer of experts whose exchanges run beside another micro-batch, as its passes are cut in pieces."""
    graphs: Literal["none", "router", "parts", "iteration"]
    """CUDA graphs that issue work instead: none; those of the router and of what prepares the dispatch; these and
    attention; or one for the whole step."""
    binds_ranks: bool = True
    """Every rank runs on the processor cores beside its accelerator; else the host is slower, by its accelerator's
    `unbound_host_slowdown`."""
    runs_ahead: bool = True
    """It issues what follows while the device works; else, as with CUDA_LAUNCH_BLOCKING=1, it waits for each kernel."""
    host_s_per_exchange: NonNegative
    """Seconds beyond the wire that every stage-to-stage exchange takes where the runtime waits for it."""
    host_s_per_step: NonNegative
    """Seconds per step outside of the pipeline: data, logging, learning-rate schedule."""
    updated_parameters_per_s: NonNegative
    """Parameters that the processors of one node update in a second, where optimizer states are in its memory; 0: not
    known."""
    unpinned_copy_slowdown: Annotated[float, Field(ge=1, le=100)] = 1.0
    """How much longer a copy to or from memory of the host takes that is not pinned."""

    @property
    def hooks_from(self) -> int:
        """The stage of ZeRO from which on hooks run around each layer."""
        return 2 if self.host_s_per_sharded_layer.total else 3

    @property
    def hooks_s(self) -> float:
        """Seconds of one layer that depend on the stage of ZeRO."""
        return self.host_s_per_sharded_layer.total + self.host_s_per_gathered_layer.total
