"""Kernels: the fitted constants of one accelerator's matrix products, attention, copies and collectives."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from meshwright.errors import Fault, InvalidSpec, quoted
from meshwright.specs.assumed import Assumed
from meshwright.specs.base import Spec
from meshwright.specs.collectives import CollectiveConstants, MeasuredCollectives
from meshwright.specs.fitted import fitted_constants
from meshwright.specs.quantities import Bandwidth, NonNegative, Seconds

Fraction = Annotated[float, Field(gt=0, le=1)]
Operation = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]
NumberFormat = Literal["half", "fp8", "fp4"]
"""Of a product's operands; half: bf16 or fp16."""


class TileConstants(Spec):
    """What the tile form of the GEMM time adds to the simple one."""

    prologue_k: NonNegative
    """Contraction length that one tile's prologue costs (k0)."""
    tile_size: NonNegative
    """Efficiency lost on small tiles (c_tile)."""
    wave_quantisation: Annotated[float, Field(ge=0, le=1)]
    """How hard the last, partly filled wave counts (theta)."""
    power_derate: NonNegative
    """Slow-down of long products under the power limit (delta)."""


class GemmConstants(Spec):
    """Constants of the GEMM time; without the tile part the simple form is used."""

    efficiency: Fraction
    """Share of the dense peak that a large product reaches (eta)."""
    memory_efficiency: Fraction
    """Share of the memory bandwidth that a memory-bound product reaches (eta_mem)."""
    launch_s: Seconds
    """Fixed time of one product (t0), seconds."""
    tile: TileConstants | None = None


class SustainedProducts(Spec):
    """How much slower large products are when they run without end, as the power limit lowers the clock."""

    slowdown: Annotated[float, Field(ge=1, le=10)]
    """Time over that of a short benchmark, whose `power_derate` it stands for."""
    watts: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    """The power limit at which it was measured."""


class PassRatio(Spec):
    """What each pass takes over another kernel's."""

    forward: Annotated[float, Field(gt=0, le=100)]
    backward: Annotated[float, Field(gt=0, le=100)]


class QuantisedAttention(Spec):
    """Time of fused attention with 8-bit operands over that of 2-byte ones, without what quantises them."""

    narrow: PassRatio
    """Of heads up to 128."""
    wide: PassRatio


class OrderedAttention(Spec):
    """What the backward pass of fused attention costs more where it adds up in a fixed order."""

    slowdown: Annotated[float, Field(ge=1, le=100)] = 1.0
    """Its time over that of sums in any order."""
    score_bytes: NonNegative = 0.0
    """Of each query-key pair in a workspace, which is written and read."""


OlderAttention = Literal["flash-1", "flash-2", "flex"]
AttentionLibrary = Literal["newest", "cudnn-9.13"]
"""Where kernels of the newest generation come from: today's release, or cuDNN up to the version that is named."""


class AttentionConstants(Spec):
    """Constants of the fused attention time."""

    efficiency: Fraction
    """Share of the dense peak at infinite sequence length (eta)."""
    half_sequence: NonNegative
    """Sequence length at which half of that is reached (s0), tokens."""
    row_width: NonNegative
    """Least width of a head, d_qk + d_v, at which forward counts what a row takes beside its keys (w_row), elements."""
    occupancy: NonNegative
    """Cost of filling the multiprocessors with too few tiles (c)."""
    launch_s: Seconds
    """Fixed time of one call (t0), seconds."""
    backward_ratio: Annotated[float, Field(gt=0, le=100)]
    """Backward over forward time."""
    wide_backward: Annotated[float, Field(ge=1, le=100)]
    """Backward of heads wider than 128 over what their FLOPs take."""
    softmax_width: NonNegative
    """Elements of d_qk + d_v whose products take as long as the exponentials (s), which no head size changes."""
    softmax_backward: Annotated[float, Field(ge=0, le=100)]
    """The same of backward over that of forward."""
    older_softmax_width: NonNegative
    """`softmax_width` of older generations of kernels."""
    older_softmax_backward: Annotated[float, Field(ge=0, le=100)]
    """`softmax_backward` of older generations of kernels."""
    head_multiple: PositiveInt
    """Heads take as long as those of the next multiple of this many elements."""
    older_head_multiple: PositiveInt
    """The same of older generations of kernels."""
    head_alignment: PositiveInt
    """Heads that are no multiple of this many elements are padded first."""
    widest_head: NonNegativeInt
    """Elements of the widest head that fused kernels take in training; 0: they take none."""
    padding_bytes: NonNegative
    """Moved forward, and again backward, per element of queries, keys, values and output of heads that are padded."""
    older: dict[OlderAttention, Annotated[float, Field(ge=1, le=100)]]
    """Time of an older generation of kernels, or of FlexAttention's in Triton, over these."""
    earlier: dict[AttentionLibrary, Annotated[float, Field(ge=1, le=100)]] = {}
    """Time of this generation's as an earlier release has them, with 2-byte operands, over these; one that is not there
    takes no longer."""
    ordered: OrderedAttention
    """In a fixed order."""
    older_ordered: OrderedAttention
    """The same of older generations of kernels."""
    in_pytorch: Literal["newest", "flash-2"]
    """The generation that PyTorch itself attends with at the newest."""
    quantised: dict[str, QuantisedAttention] = {}
    """By precision; one that is not there was not measured and is taken to gain nothing."""


class ExpertExchangeConstants(Spec):
    """Constants of a fused exchange of tokens (DeepEP, HybridEP), which sends a token once to each rank it visits."""

    latency_s: Seconds
    """Fixed time of one exchange inside one scale-up domain (t0), seconds."""
    token_s: Seconds
    """Time that each token of the sender takes beside its bytes, seconds."""
    link_efficiency: Fraction
    """Share of the scale-up bandwidth that one domain alone reaches."""
    forward_efficiency: Fraction
    """The same where the domain also forwards what arrives from others."""
    network_efficiency: Fraction
    """Share of a rank's network bandwidth between domains."""
    network_latency_s: Seconds
    """Fixed time of one exchange over several domains, with the notification ahead of it, seconds."""
    combined_token_s: Seconds = 0.0
    """Time that one multiprocessor takes in a combine of chunks of 64 tokens for a token of one rank, however few its
    bytes, seconds."""
    assumed: Assumed = ()
    """What in here is an assumption rather than a fit, for users of models with experts."""


class AllToAllConstants(Spec):
    """What an all-to-all between domains takes beyond any collective."""

    root_s: Seconds
    """For each rank of other domains, seconds per square root of kB sent to it: the ramp of its message."""
    assumed: Assumed = ()
    """What in here is an assumption rather than a fit, for users of models with experts."""


class CollectiveLibrary(Spec):
    """How a library of collectives (NCCL, RCCL) uses links, where no table of the accelerator's own says it."""

    id: str
    base_latency_s: Seconds
    """Fixed time of one collective, seconds."""
    hop_latency_s: Seconds
    """One hop over a network, seconds."""
    network_efficiency: Fraction
    """Bus bandwidth of large messages over the network's bandwidth, around a ring."""
    tree_efficiency: Fraction
    """The same of all-reduces along a tree."""
    network_root_s: Seconds
    """Seconds per square root of kB sent between domains: the ramp of middling messages."""
    link_efficiency: Fraction
    """Bus bandwidth over the bandwidth of links inside a domain."""
    message_link_efficiency: Fraction
    """Share of the link that a message between two ranks of a domain reaches."""
    message_network_efficiency: Fraction
    """Share of the network that a message between two domains reaches."""
    all_to_all: AllToAllConstants
    fused_dispatch: bool = True
    """Whether DeepEP and HybridEP, as released, run between nodes."""
    assumed: Assumed = ()
    """What in here is an assumption rather than a fit, for the user's eyes."""
    sources: dict[str, str]


class ProductCosts(Spec):
    """Time of the three products of a linear layer over that of plain, aligned ones."""

    forward: Annotated[float, Field(ge=1, le=100)]
    input_gradient: Annotated[float, Field(ge=1, le=100)]
    weight_gradient: Annotated[float, Field(ge=1, le=100)]


class UnalignedCosts(Spec):
    """Time of linear layers over aligned ones where a row of outputs or features is no multiple of some bytes."""

    bytes: Annotated[int, Field(ge=2, le=4096)]
    """The fewest that a row misses count; a power of two."""
    outputs: ProductCosts
    features: ProductCosts

    @model_validator(mode="after")
    def _power_of_two(self) -> Self:
        if self.bytes & (self.bytes - 1):
            raise InvalidSpec("UnalignedCosts", [Fault("bytes", f"is {self.bytes}; it must be a power of two")])
        return self


class Kernels(Spec):
    """The kernel and collective constants of one accelerator."""

    id: str
    gemm: GemmConstants
    """Of products of bf16 or fp16 operands."""
    low_precision: dict[Literal["fp8", "fp4"], GemmConstants] = {}
    """Of products of 8- and 4-bit operands that give bf16 or fp16, quantisation apart."""
    sustained: dict[NumberFormat, SustainedProducts] = {}
    """By the format of the operands; none: not measured, products take what they take in the benchmark."""
    attention: AttentionConstants
    grouped: dict[NumberFormat, ProductCosts]
    """Of PyTorch's grouped products (one kernel for many experts), by the format of the operands, over those of the
    same tiles in a short benchmark; `half` at least, which stands for formats that were not measured."""
    older_grouped: dict[NumberFormat, ProductCosts] = {}
    """The same of PyTorch before 2.12, by format; one that is not there: as `grouped`."""
    skewed: ProductCosts
    """The same where experts get unequal numbers of tokens, over equal ones."""
    unaligned: tuple[UnalignedCosts, ...]
    """From the most bytes to the fewest; none: alignment changes nothing."""
    elementwise_efficiency: Fraction
    """Share of the memory bandwidth that element-wise and norm kernels reach."""
    collectives: dict[Operation, Annotated[tuple[CollectiveConstants, ...], Field(min_length=1)]] = {}
    """Per operation, by growing group size; empty: alpha-beta from the link, assumed."""
    expert_exchange: ExpertExchangeConstants
    """Of DeepEP; where a domain spans nodes, of HybridEP."""
    hybrid_exchange: ExpertExchangeConstants | None = None
    """Of HybridEP; none: as `expert_exchange`."""
    library: CollectiveLibrary
    """The library of collectives, by its name in the catalogue."""
    communication_multiprocessors: PositiveInt
    """Multiprocessors that a running collective occupies."""
    host_copy_bandwidth: Bandwidth
    """To and from pinned memory of the host, one direction, bytes/s."""
    speed_deviation: Annotated[float, Field(ge=0, lt=0.2)]
    """Standard deviation of the speed of accelerators of this kind over its mean."""
    slowdown: str = ""
    """The fitted constant by which these kernels take longer in a training step than alone; none: as long."""
    measures_experts: bool = True
    """Kernels of routed experts are measured as well as others; else no constant rests on runs with experts."""
    assumed: Assumed = ()
    """What in here is an assumption rather than a fit, for the user's eyes."""
    sources: dict[str, str]

    @model_validator(mode="after")
    def _slowdown_known(self) -> Self:
        known = fitted_constants()
        if self.slowdown and self.slowdown not in known:
            fault = Fault("slowdown", f"{quoted(self.slowdown)} is not among {', '.join(known)}")
            raise InvalidSpec("Kernels", [fault])
        return self

    @model_validator(mode="after")
    def _groups_grow(self) -> Self:
        """The measured groups of a collective stand by size, each once."""
        faults = [
            Fault(f"collectives.{operation}", f"measures {after.ranks} ranks after {before.ranks}; sizes must grow")
            for operation, rows in self.collectives.items()
            for before, after in pairwise(rows)
            if after.ranks <= before.ranks
        ]
        if faults:
            raise InvalidSpec("Kernels", faults)
        return self

    @cached_property
    def measured_collectives(self) -> dict[Operation, MeasuredCollectives]:
        """`collectives` as columns."""
        return {operation: MeasuredCollectives.of(rows) for operation, rows in self.collectives.items()}

    def products(self, number_format: NumberFormat) -> GemmConstants:
        """The constants of products whose operands have that format; `low_precision` must hold it."""
        return self.gemm if number_format == "half" else self.low_precision[number_format]
