"""Sections [kernels] and [memory], and the kernels by name: what runs on a device, and what it needs there."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from meshwright.specs.base import Spec
from meshwright.specs.kernels import AttentionLibrary
from meshwright.specs.model import Experts, Mlp
from meshwright.specs.precision import HALF_BYTES
from meshwright.specs.quantities import NonNegative
from meshwright.specs.runtime.host import PassSeconds

ElementBytes = Annotated[float, Field(ge=0, le=1000)]


class PassBytes(Spec):
    """Bytes read and written for every 2-byte element."""

    forward: ElementBytes
    backward: ElementBytes


AttentionKernel = Literal["newest", "flash-2", "flash-1", "flex", "eager"]


class PassCounts(Spec):
    """Counts in each pass."""

    forward: Annotated[int, Field(ge=0, le=100)]
    backward: Annotated[int, Field(ge=0, le=100)]


class RuntimeKernels(Spec):
    """The kernels in use."""

    attention_kernel: AttentionKernel
    """Fused attention by the kernels of the accelerator's table, an older generation or FlexAttention's in Triton; or
    score matrices in memory."""
    modified_attention_kernel: AttentionKernel | None = None
    """The same for models whose attention has sinks or capped scores; none: no different."""
    attention_library: AttentionLibrary = "newest"
    """The release of cuDNN that attends where the kernels are the newest."""
    attends_with_pytorch: bool
    """The newest that it takes are PyTorch's own, those of scaled_dot_product_attention."""
    pads_heads: bool = True
    """Heads that fused attention does not take are padded for it; else their scores are written to memory."""
    kernel_constant: str = ""
    """Name of the fitted constant that all of its kernels take over the accelerator's alone; empty: none."""
    attention_constant: str = ""
    """Name of the fitted constant that its fused attention takes over kernels of that generation."""
    quantised_attention: bool = False
    """Fused attention takes 8-bit operands where the recipe has them."""
    elementwise: str
    """The element-wise kernels in use, a key of `elementwise_kernels`."""
    cross_entropy: str
    """The implementation in use, a key of `cross_entropies`."""
    other_cross_entropies: tuple[str, ...] = ()
    """It and those that a run may ask for in its place, without what a switch sets together with other kernels."""
    fused_projections: bool
    """q, k and v are one matrix product: one gradient of their input is summed, not one each."""
    fused_gate: bool
    """Gate and up are one matrix product, in the same way."""
    fused_adapters: Literal["any", "all", "one"] = "any"
    """Of a fused product any of its parts may have an adapter of its own; all of them have one, or none has; or they
    have one together."""
    repeats_keys: bool = False
    """Keys and values are repeated for the heads that share them before attention reads and saves them."""
    quantises_apart: bool
    """Every product quantises its operands itself: weights in both passes of every micro-batch, and rows and columns by
    two kernels where a recipe quantises them on their own; else one kernel does, of weights once a step."""
    gradient_accumulation: Literal["fused", "unfused", "copied", "kept_and_copied", "autograd"]
    """What adds the gradient of a weight to what earlier micro-batches left: the product itself; a kernel after it;
    one that copies it in fp32 and one that adds the copy (the pipeline engine of DeepSpeed in bf16), before which
    autograd adds it to a gradient that is kept and set to zero; or autograd alone, which is not priced."""
    deterministic: Literal["off", "on", "filled"] = "off"
    """Kernels add up in a fixed order, as under --deterministic-mode of Megatron-LM; filled: PyTorch also writes every
    tensor that it allocates (torch.utils.deterministic.fill_uninitialized_memory)."""
    weight_gradient_slowdown: Annotated[float, Field(ge=1, le=100)]
    """Time of a weight-gradient product that accumulates in fp32, over a plain one; of fused accumulation."""
    expert_products: Literal["one_kernel", "each", "fused", "looped"]
    """One kernel for all experts of a rank (torch._grouped_mm); one product after the other, whose weight gradients are
    added to the gradient buffer (GroupedLinear of Transformer Engine); one kernel that also computes the activation
    and quantises what it puts out, with the same gradients (cuDNN's grouped products in Transformer Engine); or one
    expert after the other in Python, each of which finds, gathers, weighs and adds up its own rows."""
    older_grouped_products: bool = False
    """That one kernel is of PyTorch before 2.12."""
    expert_bias_kernels: PassCounts = PassCounts(forward=0, backward=0)
    """That add the output bias of one expert, where each has kernels of its own; none: one kernel adds all."""
    expert_quantising_kernels: PassCounts
    """Of each expert where its products are kernels of their own and a recipe quantises, expert by expert, what goes
    into them: what quantises the inputs and the gradients, and what rearranges the scales of their operands."""
    pads_quantised_rows: bool = False
    """Where a recipe quantises, rows of each expert are copied in front of its products to a multiple that these take,
    and copied back behind them, unless a capacity or HybridEP has made them so."""
    permuted_rows: PassBytes
    """Bytes moved per element of the routed rows to sort them by expert."""
    unpermuted_rows: PassBytes
    """Bytes moved per element of the routed rows to weigh and sum what comes out of the experts."""
    received_rows: PassBytes
    """More of them where an all-to-all brings the rows and the rank holds several experts: half to sort the rows that
    arrive, half to put back in order those that leave."""
    indexed_rows: NonNegative = 0.0
    """More of them backward to sum the gradients of rows that are taken by index, unless a fused dispatcher takes them:
    of those that leave, and again of those that arrive."""
    weighed_rows: PassBytes = PassBytes(forward=0, backward=0)
    """More of them where kernels of their own cast what comes out to fp32, weigh it and cast it back, unless a fused
    dispatcher takes it."""
    sorts_own_rows: bool
    """These also where a rank holds all experts, so that no rows arrive."""
    masks_routed_rows: bool
    """Rows of experts that other ranks hold are set to zero before and after every product, though there are none."""
    router_format: Literal["half", "fp32"]
    """Operands of the router's product; those of fp32 do without tensor cores."""
    routing_s: PassSeconds
    """Of the small kernels that choose experts and sort tokens, beside the bytes of their scores."""


class CrossEntropy(Spec):
    """What one implementation of the cross-entropy costs, in bytes per logit of the rank's vocabulary shard."""

    sequence_pieces: Annotated[int, Field(ge=1, le=1024)] = 1
    """Pieces of the sequence that go through the head and the cross-entropy, forward and backward, one by one."""
    fuses_head: bool = False
    """Head and cross-entropy are one function: forward, it works on pieces of the tokens that are no larger than the
    hidden state is, or twice that, and makes the gradients of the head's input and weights; no logits are left."""
    caps_logits: bool = False
    """It caps logits itself, of models that have them capped; else three kernels do so before it."""
    alive_bytes: NonNegative
    """Alive at the peak, logits included."""
    split_alive_bytes: NonNegative | None = None
    """The same of a loss whose logits tp splits; none: no different."""
    saves_logits: bool = False
    """The 2-byte logits are among what is alive, as backward reads them; else they are free by then."""
    unjoined_bytes: NonNegative = 0
    """Freed before the peak, in pieces that the allocator cannot join for what is alive then."""
    forward_bytes: NonNegative
    """Moved in forward."""
    backward_bytes: NonNegative
    """Moved in backward."""


class ElementwiseKernels(Spec):
    """Bytes that norms, sums, rotary positions and activations of one implementation move."""

    rms_norm: PassBytes
    """Per element of its input; query-key norms likewise."""
    rms_norm_kept: ElementBytes
    """Kept from forward to backward beyond the 2-byte input, per element."""
    rms_norm_kept_for_weight: ElementBytes = 0
    """Of these, what only the gradient of the norm's weight reads."""
    layer_norm: PassBytes
    residual: PassBytes
    """A residual sum, per element."""
    rotary: PassBytes
    """Per element of the queries and keys."""
    scaled_rotary: PassBytes
    """The same where a factor scales rotary positions (YaRN)."""
    latent_rotary: PassBytes | None = None
    """Per element of the queries and keys of latent attention where kernels of their own rotate a part of each head and
    join it with the rest; none: one kernel passes over all of them."""
    gated_activation: PassBytes
    """Per element of the FFN."""
    gated_input_bytes: Literal[1, 2] = 2
    """Kept from forward to backward of each element of gate and up, where SiLU is the gate and nothing clamps them."""
    gated_gradients_in_place: bool = False
    """Gradients of gate and up are written over them, of blocks that are no experts."""
    gated_activation_kept: ElementBytes = 0
    """Kept of an unfused one from forward to backward beyond gate, up, the activated gate and the product, per element:
    up again, where something is added to it."""
    gated_gelu: PassBytes | None = None
    """Per element of the FFN where GELU is the gate, for which there is no fused kernel; none: as any other gate."""
    gated_gelu_kept: ElementBytes = 0
    """Kept of that from forward to backward beyond what a fused one keeps, per element."""
    weighed_activation: PassBytes = PassBytes(forward=0, backward=0)
    """More of experts whose activation is weighed by the tokens' probabilities in kernels of their own."""
    weighed_activation_kept: ElementBytes = 0
    """Kept of it from forward to backward, per element."""
    clamped_activation: PassBytes
    """Per element of the FFN of experts that clamp gate and up."""
    clamped_activation_kept: ElementBytes
    """Kept of it from forward to backward beyond what a gated activation keeps, per element."""
    plain_activation: PassBytes
    written_gelu: PassBytes
    """The tanh form of GELU (`gelu_new`), which GPT-2 in transformers writes out in ten operators."""
    written_gelu_kept: ElementBytes
    """Kept of it from forward to backward beyond its input and its product, per element."""
    expert_bias: PassBytes
    """Per element that the first products of experts with biases put out."""
    expert_output_bias: PassBytes
    """Per element that their second products put out."""
    indexed_bias_gradient_s: NonNegative = 0
    """Seconds beyond these, backward, for each row of the busiest expert and each of its biases, where every row takes
    its bias by index: the rows that took the same one are added one after the other."""
    added_bias_gradient_s: NonNegative = 0
    """Seconds beyond these, backward, for each routed row and each bias of its expert, where the gradients of rows are
    added atomically to that of the bias they share."""
    attention_scores: PassBytes
    """Per score, where they are kept in memory."""
    router_scores: ElementBytes
    """Each way, per token and expert."""
    bias_gradient: ElementBytes
    """Backward, per element of a biased product's output."""
    split_gradient: ElementBytes
    """Backward, per element of the output of a fused product whose gradient is put together from its parts."""
    summed_gradient: ElementBytes
    """Backward, per hidden element, for every product beyond the first that reads the same input."""
    model_types: tuple[str, ...] = ()
    """Of the models that have these kernels, as `model_type` in a config.json; none: every model."""
    kept_loss_types: tuple[str, ...] = ()
    """Of these, the models that keep PyTorch's loss where that of these kernels which keeps logits is asked for."""

    def kept_input_bytes(self, block: Mlp | Experts) -> int:
        """Kept of each element that enters the block's activation."""
        clamped = isinstance(block, Experts) and block.clamped
        return self.gated_input_bytes if block.gated and block.activation == "silu" and not clamped else HALF_BYTES

    def activation(self, block: Mlp | Experts) -> PassBytes:
        """Of the block's activation, per element of its FFN."""
        if block.gated and block.activation == "gelu" and self.gated_gelu:
            return self.gated_gelu
        if block.gated:
            return self.clamped_activation if isinstance(block, Experts) and block.clamped else self.gated_activation
        return self.written_gelu if block.activation == "gelu_new" else self.plain_activation


class DeviceMemory(Spec):
    """What the device holds beside live tensors, and how much more or less that may be."""

    context_bytes: NonNegative
    """CUDA context and loaded kernels of one process."""
    workspace_bytes: NonNegative
    """Library workspaces inside the allocator."""
    communicator_bytes: NonNegative
    """Of one communicator of an axis."""
    pair_communicator_bytes: NonNegative
    """Of one stage-to-stage communicator."""
    communicator_uncertainty: NonNegative
    """How far communicators of one run in ten exceed that, as a share."""
    fragmentation: NonNegative
    """Reserved over allocated memory, less one: expected."""
    fragmentation_likely: NonNegative
    """What an allocator that runs short cannot give back."""
    fragmentation_safe: NonNegative
    """The same on the worst ranks that were measured."""
