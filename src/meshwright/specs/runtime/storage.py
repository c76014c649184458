"""Sections [storage], [sharding] and [activations]: what a rank holds, and in which form."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from meshwright.specs.base import Spec
from meshwright.specs.job import PrecisionName
from meshwright.specs.model import Attention, Model
from meshwright.specs.offload_modules import OffloadModules
from meshwright.specs.precision import FP32_BYTES
from meshwright.specs.quantities import NonNegative


class Storage(Spec):
    """The form of weights, gradients and optimizer states, whichever ranks hold them."""

    weights: Literal["half", "full"]
    """What a rank stores: 2-byte weights beside fp32 copies in the optimizer, or weights that it updates themselves,
    cast for use."""
    weight_bytes: Literal[2, 4]
    """Of a weight that the optimizer updates, and full weights: of its gradient on the rank that owns it. 4: fp32; 2:
    full weights in 2 bytes alone, as their moments."""
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
    gradient_buckets: Literal["none", "views", "copies"]
    """Buckets of DDP, which stand for the whole step in fp32: gradients are views of them (gradient_as_bucket_view), or
    are copied into them."""
    zeroes_gradients: bool = False
    """Full weights: gradients are filled with zeros after a step and stay, as before torch 2.0; else they are released
    (`zero_grad(set_to_none=True)`)."""
    moment_bytes: Literal[1, 2, 4]
    """Of each of Adam's two moments."""
    moment_block: Annotated[int, Field(ge=0, le=2**20)]
    """Elements of a moment that share a 4-byte scale; 0: those of a whole tensor do, or there is none."""
    fused_update: bool
    """One kernel updates a parameter, as AdamW(fused=True) does; else the update goes operator by operator over all
    that a rank owns (foreach, PyTorch's default), which takes further moments meanwhile."""
    update_lists: Literal[0, 1, 2] = 1
    """An update that is not fused: tensors as large as a second moment that it has of every parameter at once: 1, the
    roots (foreach); 2, a second list beside them, to which epsilon is added (foreach before torch 2.1); 0, none, as
    weights are updated one after the other (before torch 2.0, and where `fused=False` is given)."""
    sub_group_size: Annotated[int, Field(ge=0, le=2**40)] = 0
    """Half weights, ZeRO 3: parameters that an update takes at once, at most; 0: all that a rank owns."""
    casts_moments: tuple[Literal[1, 2], ...]
    """Half weights: bytes of the moments of which the update takes fp32 copies, all at once."""
    offloaded: Literal["nothing", "states", "states_and_gradients", "everything"]
    """What stays in the host's memory, whose processors update it. Half weights: the optimizer's fp32 weights and
    moments; with these the gradients that ZeRO 2 and 3 divide, by way of one buffer of the largest weight on the
    device. Full weights: everything, of which shards are copied to the device to be gathered, and back once reduced."""
    quantised_weights: tuple[PrecisionName, ...]
    """Half weights: recipes under which a rank stores the weights of quantised products in quantised form alone, and
    gathers them so. Under others quantised copies stand beside 2-byte weights."""
    keeps_transposed_weights: bool = True
    """Weights stored so: transposed copies of them stay, where products need them (`disable_parameter_transpose_cache`
    off); else every product of the backward pass makes one anew."""
    remainder_weights: tuple[PrecisionName, ...]
    """Half weights: recipes under which the optimizer keeps of an fp32 weight the 2 bytes that the stored one lacks,
    and takes gradients as they are."""
    wide_adapters: bool = False
    """Half weights under ZeRO 3: adapters stay in fp32, as peft makes them, and work in it, as the engine casts no
    model whose weights are divided already."""
    frozen_weights: Literal["half", "nf4"] = "half"
    """Full weights: what weights are stored as beside adapters: 2 bytes, or 4 bits of bitsandbytes (QLoRA), which every
    product unpacks."""
    autocast: bool
    """Full weights: torch.autocast casts weights and inputs of every matrix product on its own; activations between
    layers are fp32."""

    @property
    def offloads_states(self) -> bool:
        """Whether optimizer states are in the host's memory."""
        return self.offloaded != "nothing"

    @property
    def offloads_weights(self) -> bool:
        """Whether weights and reduced gradients are there too."""
        return self.offloaded == "everything"

    @property
    def kept_gradient_bytes(self) -> int:
        """Full weights: of a reduced gradient that stays on the device: none where it goes to the host."""
        return 0 if self.offloads_weights else self.weight_bytes

    @property
    def cast_moment_bytes(self) -> int:
        """Bytes per parameter of fp32 copies of moments that are alive while the optimizer works."""
        return 2 * FP32_BYTES * (self.moment_bytes in self.casts_moments)

    @property
    def moments_bytes(self) -> float:
        """Bytes per parameter of both of Adam's moments, with their scales."""
        return 2 * (self.moment_bytes + (FP32_BYTES / self.moment_block if self.moment_block else 0))


class Sharding(Spec):
    """What data parallelism divides, when it gathers and sums it, and what it copies."""

    sums_whole_gradients: bool
    """ZeRO 1 and 2 sum every gradient on every rank, not each on the rank that updates it."""
    broadcasts_weights: bool
    """ZeRO 1: each rank broadcasts the weights that it has updated, one rank after the other; else all gather them at
    once."""
    defers_reduction: bool
    """Full weights under a pipeline: gradients stay whole in fp32 and are reduced after the last micro-batch alone."""
    accumulates_whole: bool = False
    """Full weights without a pipeline, ZeRO 2 and 3: gradients of all micro-batches are added up whole, and reduced
    after the last one alone (no_sync, set_requires_gradient_sync)."""
    limits_gathers: bool = True
    """ZeRO 3: the host waits for layers that have worked before it gathers further ones (`limit_all_gathers` of FSDP);
    else it gathers as far ahead as it issues, and what is gathered is free again once the device has come so far."""
    keeps_ends_gathered: bool
    """ZeRO 3: embedding, final norm and head stay gathered from forward to backward (the root unit of FSDP)."""
    keeps_pipelined_ends_gathered: bool
    """The same of the final norm and the head under a pipeline."""
    keeps_last_layer_gathered: bool
    """ZeRO 3 without a pipeline: the last layer is not resharded between forward and backward."""
    ends_apart: bool
    """ZeRO 3: embedding and head are gathered one after the other, as units of their own, unless they are tied."""
    gathers_whole_ends: bool
    """ZeRO 3: tensor ranks do not divide the vocabulary but share the tokens at the ends, as data-parallel ranks do:
    embedding and head are sharded over both and gathered whole. Counted in memory alone."""
    parts_tied_embedding: bool
    """Tensor parallelism parts a tied embedding from the head: one weight is stored, and gathered and summed twice."""
    whole_untied_embedding: bool
    """Tensor ranks do not divide an embedding that is not tied to the head."""
    gathers_logits: bool
    """Tensor ranks gather the logits of an untied head, which they divide, ahead of the loss."""
    whole_tied_ends: tuple[str, ...]
    """Models, by their `model_type`, whose tied embedding and head tensor ranks do not divide."""
    shards_rows: bool
    """Full weights: each is divided along its first dimension, the first ranks hold the part that is rounded up; else
    the weights of a unit are laid flat and divided evenly."""
    divides_few_experts: bool
    """Experts that are fewer than the ranks which hold the same ones are divided by rows; else they are dealt out whole
    along their first dimension, and some ranks hold none (fully_shard without a placement of its own)."""
    divides_gradients: bool
    """Sets a divisor of gradients, so that fully_shard divides them into a new tensor where one rank has no others."""
    loads_whole: bool = True
    """Packed weights: every rank loads all of them, which stand until its share of them is copied from each; else one
    layer after the other."""
    loss_within_forward: bool
    """The loss is computed in the forward that fully_shard wraps, while what the last unit was gathered in is there."""
    exchange_pools: bool
    """Exchanges allocate on streams of their own, whose memory no other stream uses again (FSDP2)."""
    gather_copy_bytes: NonNegative
    """Moved per parameter after every gathering of weights in 2 bytes."""
    quantised_weight_gathers: tuple[PrecisionName, ...] = ()
    """Full weights: recipes with one scale for a tensor under which the weights of quantised products are gathered in
    8 bits, as shards are quantised before (`enable_fsdp_float8_all_gather` of torchao)."""
    scatter_copy_bytes: NonNegative
    """Moved per parameter before every scattering of gradients."""
    gradient_bucket: Annotated[int, Field(gt=0, le=2**40)]
    """Parameters in one gradient bucket, at least."""
    gradient_bucket_per_rank: Annotated[int, Field(gt=0, le=2**30)]
    """Parameters in one gradient bucket per data-parallel rank, at least."""
    gradient_queue: Annotated[int, Field(ge=0, le=2**40)] = 0
    """Half weights, ZeRO 3: parameters whose whole gradients stay while and after they are reduced, until more than so
    many do when the next layer's are to be reduced, or more than two layers'. 0: those of one bucket."""
    double_buffered: bool = False
    """The same: weights and gradients of two layers have buffers that stand all along, in place of that queue."""
    whole_buckets: Annotated[int, Field(ge=0, le=8)]
    """Half weights, 2-byte gradients, ZeRO: buckets that are allocated at their full size, however few gradients there
    are: from the first gradient to the reduction, in ZeRO 3 one; under a pipeline one, after the last backward. 0: none
    is larger than what it holds."""
    reduces_half_copies: bool
    """Half weights, fp32 gradients: after the last backward all of them are cast to 2 bytes in one tensor, which is
    summed in their place; those that fit in one bucket are joined in fp32 before."""

    def keeps_ends_whole(self, model: Model) -> bool:
        """Whether tensor ranks divide neither the embedding nor the head, which are tied."""
        return model.tied_embeddings and model.family in self.whole_tied_ends

    def keeps_embedding_whole(self, model: Model) -> bool:
        """Whether tensor ranks do not divide the embedding."""
        return self.keeps_ends_whole(model) or (self.whole_untied_embedding and not model.tied_embeddings)

    def joins_logits(self, model: Model) -> bool:
        """Whether tensor ranks divide the head and gather its logits."""
        return self.gathers_logits and not model.tied_embeddings


class Activations(Spec):
    """What is saved for backward, and what backward makes anew."""

    dropout: bool
    """Keeps one-byte dropout masks."""
    score_bytes: NonNegative
    """Kept for every attention score where attention is eager."""
    capped_score_bytes: NonNegative = 0
    """More of those that are capped."""
    score_working_bytes: NonNegative = 0
    """Alive beyond these, of one layer, while its backward works on the scores."""
    fused_activation: bool
    """A gated activation's inner product is recomputed in backward instead of kept."""
    keeps_statistics: bool
    """Every layer keeps its norms' statistics and its rotary tables."""
    rotary_copies: Literal["none", "complex", "all"]
    """Every layer keeps a copy of its rotary table at the positions of a micro-batch's tokens: of no table, of complex
    ones, or of all."""
    wide_rotary_tables: tuple[Literal["qk_norm", "sinks"], ...]
    """Models whose tables are of cosines and sines over a whole head, 8 bytes a position and element, by what their
    attention has: norms of queries and keys (Qwen3), or sinks (GPT-OSS). Other tables are complex, 4 bytes."""
    regathers_inputs: bool
    """With sequence parallel, keeps the sharded input and gathers it again in backward; else keeps the gathered one."""
    copies_context_output: bool
    """Under context parallelism attention leaves its output in an order of its own: the projection keeps a copy."""
    keeps_context_pieces: bool = False
    """Where a piece of a sequence attends to one piece of keys and values after the other, all of them stay until
    backward, also where attention is computed again; else outputs do, of selective recomputation."""
    copies_batched_output: bool
    """Attention has sequences first and the layer tokens first: of several sequences a micro-batch the projection keeps
    a copy of the output."""
    keeps_packed_projections: bool
    """Where every query head has keys and values of its own, without biases and context parallelism, queries are a view
    of one copy of all three, which stays whole beside the keys and values that attention reads."""
    keeps_logits: bool = False
    """The training loop names the 2-byte logits that a micro-batch returns (`logits, loss = model(X, Y)`), so that they
    stay until those of the next one take their place."""
    weighed_output_bytes: Literal[0, 2, 4]
    """Of an element of the experts' outputs as they are weighed and kept: 4: routing works in fp32 and weighs them in
    it; 2: they are kept as they came; 0: scores act inside of experts."""
    graphed_expert_rows: Annotated[float, Field(ge=0, le=64)] = 0
    """Rows that buffers of experts are made for where one CUDA graph is the whole step, whose sizes do not change, over
    those of an even share; 0: as many as arrive."""
    stashed_expert_rows: Annotated[float, Field(ge=0, le=64)] = 0
    """Of these, the rows that are kept for backward, packed, over an even share."""
    selective_recompute: Literal["attention_core", "every_second_product", "every_second_product_and_attention"]
    """What selective recomputation computes again; by products, also everything element-wise."""
    keeps_unread_products: bool
    """Selective recomputation by products also keeps the last one, which backward does not read (no compiler)."""
    keeps_biased_products: bool
    """Selective recomputation by products keeps every one that adds a bias, which is an operator of its own; else it
    computes them all again. Either way they are not among those of which every second one is."""
    repeats_exchanges: tuple[Literal["qk_norm", "sinks"], ...] = ()
    """Models of which selective recomputation by products exchanges the rows of experts again, by what their attention
    has; of others it keeps what the exchanges bring."""
    hides_products_beside_experts: bool = False
    """The parts of a layer of experts are compiled one by one, so that selective recomputation by products sees none of
    its products and computes them all again."""
    checkpoint_stops_early: bool
    """Full recomputation leaves out the last product and reduction of a dense layer, which backward does not need."""
    checkpoints_modules: bool = False
    """Full recomputation of a dense layer is of attention, the block and their norms one by one: it keeps the input of
    each of the four, computes none of their sums again, and stops before the last product of both, as above."""
    recomputes_combine: Literal["all", "exchange", "none"]
    """What a recomputed layer of experts does again of bringing rows back, which backward does not read: all; the
    exchange alone, as a compiler leaves out what weighs and sums them; or nothing, as recomputation stops before it."""
    offloaded_layers: Annotated[int, Field(ge=0, le=10_000)]
    """Layers whose saved activations wait in the host's memory between their passes."""
    offloaded_modules: OffloadModules = ()
    """Parts of every layer of which what they save for backward waits there."""
    least_offloaded_elements: Annotated[int, Field(ge=0, le=10**15)] = 2**20
    """Of a tensor of these parts; a smaller one stays."""

    @property
    def recomputes_by_product(self) -> bool:
        """Whether selective recomputation goes product by product."""
        return self.selective_recompute != "attention_core"

    @property
    def keeps_attention_output(self) -> bool:
        """Whether recomputation product by product keeps what the attention core puts out."""
        return self.selective_recompute == "every_second_product"

    def has_wide_table(self, attention: Attention) -> bool:
        """Whether the rotary table of such attention is wide."""
        return _has(attention, self.wide_rotary_tables)

    def exchanges_again(self, attention: Attention) -> bool:
        """Whether selective recomputation exchanges the rows of experts again, in a layer of such attention."""
        return self.recomputes_by_product and _has(attention, self.repeats_exchanges)


def _has(attention: Attention, parts: tuple[Literal["qk_norm", "sinks"], ...]) -> bool:
    return any(getattr(attention, name) not in ("none", False) for name in parts)
