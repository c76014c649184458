"""Runtime: how one training framework behaves, as data: what it keeps, sends, overlaps and refuses."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from meshwright.errors import Fault, InvalidSpec, quoted
from meshwright.specs import catalog
from meshwright.specs.base import Spec
from meshwright.specs.fitted import fitted_constants
from meshwright.specs.job import PrecisionName
from meshwright.specs.runtime_parts import CrossEntropy, DeviceMemory, LossScaling, NonNegative, Overlap, RuleReference
from meshwright.specs.traffic import ElementwiseTraffic

AXES = ("tp", "cp", "ep", "dp", "pp")


class Runtime(Spec):
    """One framework at one version."""

    id: str
    aliases: tuple[str, ...] = ()
    version: str
    """Release or commit that the behaviours below were read from."""
    precisions: Annotated[tuple[PrecisionName, ...], Field(min_length=1)]
    """The recipes that it runs."""
    experts: bool
    """Has models with experts, be every expert whole on every rank."""
    multi_token_prediction: bool
    """Trains layers of multi-token prediction, on the stage of the head."""
    rank_order: tuple[Literal["tp", "cp", "ep", "dp", "pp"], ...]
    """Axes, fastest first."""
    weights: Literal["half", "full"]
    """What a rank stores: 2-byte weights beside fp32 copies in the optimizer, or fp32 weights that are cast for use."""
    gradient_bytes: Literal[2, 4]
    """Bytes per parameter that are summed over the data-parallel ranks, and of a gradient buffer of half weights."""
    fp16_gradient_bytes: Literal[2, 4]
    """The same in fp16."""
    keeps_gradient_copy: bool
    """Half weights, 2-byte gradients: their fp32 copies stay from step to step; else only while the optimizer works."""
    quantised_weights: tuple[PrecisionName, ...]
    """Half weights: recipes under which a rank stores the weights of quantised products in quantised form alone, and
    gathers them so. Under others quantised copies stand beside 2-byte weights."""
    remainder_weights: tuple[PrecisionName, ...]
    """Half weights: recipes under which the optimizer keeps of an fp32 weight the 2 bytes that the stored one lacks,
    and takes gradients as they are."""
    loss_scaling: LossScaling
    """In fp16 alone."""
    moment_bytes: Literal[2, 4]
    """Of each of Adam's two moments."""
    gather_copy_bytes: NonNegative
    """Moved per parameter after every gathering of weights."""
    scatter_copy_bytes: NonNegative
    """Moved per parameter before every scattering of gradients."""
    autocast: bool
    """Full weights: torch.autocast casts weights and inputs of every matrix product on its own; activations between
    layers are fp32."""
    gradient_copies: bool
    """Communication buckets hold every gradient a second time (DDP without gradient_as_bucket_view)."""
    half_gradient_bytes: Literal[0, 2]
    """Half weights: bytes per parameter of the 2-byte gradients that stay allocated beside fp32 ones."""
    placeholder_gradients: bool
    """Half weights: products add to whole gradients themselves, and keep one tensor of every weight's shape for
    autograd."""
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
    receives_ahead: bool
    """Buffers for the messages of all micro-batches are allocated before the first one arrives, and a stage keeps what
    it has sent (torch.distributed.pipelining)."""
    exchange_pools: bool
    """Exchanges allocate on streams of their own, whose memory no other stream uses again (FSDP2)."""
    hybrid_sharding: bool
    """ZeRO can divide over a part of the data-parallel ranks, of which there are dp_replicate."""
    attention_kernel: Literal["newest", "flash-2", "flash-1", "eager"]
    """Fused attention by the kernels of the accelerator's table or an older generation; or score matrices in memory."""
    attention_constant: str | None = None
    """Name of the fitted constant that its fused attention takes over kernels of that generation."""
    score_bytes: NonNegative
    """Kept for every attention score where attention is eager."""
    elementwise: str
    """The element-wise kernels in use, a key of `elementwise_kernels`."""
    elementwise_kernels: dict[str, ElementwiseTraffic]
    fused_projections: bool
    """q, k, v are one matrix product, and gate and up another: one gradient of their input is summed, not one each."""
    dropout: bool
    """Keeps one-byte dropout masks."""
    offloaded_layers: Annotated[int, Field(ge=0, le=10_000)]
    """Layers of a stage whose saved activations wait in the host's memory; their way there and back is priced as
    hidden."""
    fused_activation: bool
    """A gated activation's inner product is recomputed in backward instead of kept."""
    regathers_inputs: bool
    """With sequence parallel, keeps the sharded input and gathers it again in backward; else keeps the gathered one."""
    keeps_statistics: bool
    """Every layer keeps its norms' statistics and its rotary tables."""
    selective_recompute: Literal["attention_core", "every_second_product"]
    """What selective recomputation computes again."""
    keeps_unread_products: bool
    """Selective recomputation by products also keeps the last one, which backward does not read (no compiler)."""
    checkpoint_stops_early: bool
    """Full recomputation leaves out the last reduction of a layer, which backward does not need."""
    cross_entropy: str
    """The implementation in use, a key of `cross_entropies`."""
    cross_entropies: dict[str, CrossEntropy]
    quantises_apart: bool
    """Where a recipe quantises rows and columns on their own, two kernels do, and of weights in every micro-batch; else
    one does, of weights once a step."""
    weight_gradient_slowdown: Annotated[float, Field(ge=1, le=100)]
    """Time of a weight-gradient product that accumulates in fp32, over a plain one."""
    scatters_messages: bool
    """Each tensor-parallel rank sends its part of a stage-to-stage message, and the receivers gather it."""
    dispatcher: Literal["all_to_all", "all_gather", "fused"]
    """How tokens reach their experts: a permuted all-to-all; a gathering of every token of the group; or one kernel
    that sends a token once to every node and rank (DeepEP, HybridEP)."""
    weighs_expert_outputs: bool
    """Routing works in fp32 and weighs the experts' outputs in it, which are kept; else scores act inside of them."""
    quantised_dispatch: Literal["none", "forward", "both"]
    """Which dispatches carry the operands of an 8-bit recipe: none, so that all are bf16; that of tokens in forward; or
    that of gradients in backward too. Combines never do."""
    vocabulary_multiple: Annotated[int, Field(gt=0, le=2**20)]
    """The vocabulary is padded to a multiple of this times tp."""
    gradient_bucket: Annotated[int, Field(gt=0, le=2**40)]
    """Parameters in one gradient bucket, at least."""
    gradient_bucket_per_rank: Annotated[int, Field(gt=0, le=2**30)]
    """Parameters in one gradient bucket per data-parallel rank, at least."""
    overlap: Overlap
    host_s_per_layer: NonNegative
    """Seconds that the host needs to issue one layer's forward; backward takes as long."""
    host_s_per_exchange: NonNegative
    """Seconds beyond the wire that every stage-to-stage exchange takes where the runtime waits for it."""
    host_s_per_step: NonNegative
    """Seconds per step outside of the pipeline: data, logging, learning-rate schedule."""
    memory: DeviceMemory
    stage_split: Literal[
        "even", "outer_fewer", "front", "back", "matrix_products", "balanced_layers", "balanced_parameters"
    ]
    """How it gives layers to pipeline chunks: alike alone; or, where they do not divide, one fewer for the outermost
    chunks, one more for the first ones or for the last ones of each round; greedily by matrix products; or balanced by
    layers or parameters. See `layout.splits`."""
    ends_as_layers: tuple[bool, ...]
    """Whether its split can count the embedding and the head as layers: the values that a plan may choose, what it
    takes unless told first."""
    sequence_parallel: bool
    """Can split norms and residuals over tp."""
    context_exchanges: tuple[Literal["ring", "all_gather", "all_to_all", "hierarchical"], ...]
    """How it can split a sequence over cp; none: it cannot."""
    context_gradient_bytes: Literal[2, 4]
    """Bytes per element in which a ring passes on the gradients of keys and values."""
    copies_context_output: bool
    """Under context parallelism attention leaves its output in an order of its own: the projection keeps a copy."""
    copies_batched_output: bool
    """Attention has sequences first and the layer tokens first: of several sequences a micro-batch the projection keeps
    a copy of the output."""
    schedules: tuple[
        Literal[
            "1f1b",
            "interleaved",
            "gpipe",
            "interleaved-zb",
            "zb-1p",
            "zb-2p",
            "zb-v",
            "v-half",
            "v-min",
            "dualpipe",
            "dualpipe-v",
        ],
        ...,
    ]
    overlaps_steps: bool
    """A pipeline rank begins its next step without waiting for the others (validation after the optimizer's step)."""
    limits_waiting_bytes: bool
    """The order of split backward passes is searched under a limit in bytes; else it is fixed by counts of chunks."""
    tensor_parallel: bool
    """Can split matrices over ranks."""
    replicates_kv_heads: bool
    """Where tp exceeds the key-value heads, several ranks hold a copy of the same one; else tp divides them."""
    pipeline_parallel: bool
    """Can split layers over ranks."""
    takes_chunk_layers: bool
    """A plan can name the layers of every chunk."""
    takes_end_stage_layers: bool
    """A plan can name the layers of the first and of the last stage."""
    microbatch_grouping: Literal["chosen", "stages", "rounds"]
    """How many micro-batches a chunk of an interleaved schedule works on before the next chunk does: what the plan
    chooses, pp unless told; pp; or all of them in m // pp equal rounds."""
    compiles_split_backward: bool
    """Runs schedules that split the backward pass beside compiled layers."""
    expert_parallel: bool
    """Can place the experts of a layer on different ranks."""
    expert_tensor_parallel: Literal["none", "whole", "free"]
    """How it splits each expert: not at all; by 1 or by the tp of the rest; or by a degree of its own."""
    experts_need_sequence_parallel: bool
    """Under tp, models with experts train with sequence parallelism alone."""
    takes_recompute_layers: bool
    """Full recomputation can take a part of the layers of a chunk."""
    zero_stages: tuple[Literal[0, 1, 2, 3], ...]
    """Of half weights 0 to 3; of full ones 0 (replicas), 2 (weights stay gathered) and 3 (resharded after use)."""
    recompute: tuple[Literal["none", "selective", "full"], ...]
    recompute_modules: tuple[
        Literal["core_attn", "layernorm", "moe_act", "mla_up_proj", "mlp", "moe", "shared_experts"], ...
    ]
    """Parts of a layer that a plan can choose for selective recomputation; none: the runtime chooses for itself."""
    rules: tuple[RuleReference, ...]
    demands: tuple[RuleReference, ...] = ()
    """What a launch must set beside the plan; no part of legality."""
    assumed: tuple[str, ...] = ()
    """Behaviours without a published number, for the user's eyes."""
    replaced: tuple[str, ...] = ()
    """Behaviours that a question replaced, for the user's eyes."""
    sources: dict[str, str]

    @property
    def traffic(self) -> ElementwiseTraffic:
        """Of the element-wise kernels in use."""
        return self.elementwise_kernels[self.elementwise]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        faults = []
        if self.cross_entropy not in self.cross_entropies:
            known = ", ".join(self.cross_entropies) or "none"
            faults.append(Fault("cross_entropy", f"{quoted(self.cross_entropy)} is not among cross_entropies: {known}"))
        if self.attention_constant and self.attention_constant not in fitted_constants():
            known = ", ".join(fitted_constants())
            faults.append(Fault("attention_constant", f"{quoted(self.attention_constant)} is not among {known}"))
        if self.elementwise not in self.elementwise_kernels:
            known = ", ".join(self.elementwise_kernels) or "none"
            faults.append(Fault("elementwise", f"{quoted(self.elementwise)} is not among elementwise_kernels: {known}"))
        priced = {"half": {0, 1, 2, 3}, "full": {0, 2, 3}}[self.weights]
        if not self.zero_stages or not set(self.zero_stages) <= priced:
            what = f"{list(self.zero_stages)} must be of {sorted(priced)} where weights is {self.weights}"
            faults.append(Fault("zero_stages", what))
        if sorted(self.rank_order) != sorted(AXES):
            faults.append(Fault("rank_order", f"{list(self.rank_order)} must hold each of {', '.join(AXES)} once"))
        if faults:
            raise InvalidSpec("Runtime", faults)
        return self


def read_runtime(name: str) -> Runtime:
    """The catalogue's runtime of that id or alias; raises `UnknownName` with the nearest ones.

    An entry with `like` starts from the runtime it names and replaces what it says itself.
    """
    entry = dict(catalog.load("runtimes", name))
    like = entry.pop("like", None)
    parent = read_runtime(like) if like else None
    base = {field: getattr(parent, field) for field in Runtime.model_fields} if parent else {}
    return Runtime(**base | {"aliases": ()} | entry | {"id": catalog.resolve("runtimes", name)})
