"""Sections [communication], [pipeline] and [overlap]: what a runtime sends, in which form, and what hides it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from meshwright.specs.base import Spec

FOR_EXPERTS = (
    *("dispatcher", "fused_kernels", "fused_multiprocessors", "fused_chunk_tokens", "fused_whole_sequences"),
    *("exchanged_counts", "exchanges_scores", "quantised_dispatch", "expert_capacity"),
)
"""Fields of `Communication` that models without experts do not read."""
Dispatcher = Literal["all_to_all", "all_gather", "fused"]
Share = Annotated[float, Field(ge=0, le=1)]


class Communication(Spec):
    """Exchanges of experts and of context parallelism."""

    dispatcher: Dispatcher
    """How tokens reach their experts: a permuted all-to-all; a gathering of every token of the group; or one kernel
    that sends a token once to every node and rank (DeepEP, HybridEP)."""
    fused_kernels: Literal["deep_ep", "hybrid_ep"]
    """Whose kernels a fused dispatcher runs: DeepEP's, or HybridEP's where the accelerator has a table of them."""
    fused_multiprocessors: Annotated[int, Field(ge=1, le=1000)]
    """On how many multiprocessors they run."""
    fused_chunk_tokens: Annotated[int, Field(ge=16, le=128)]
    """How many tokens HybridEP combines as one chunk (NUM_OF_TOKENS_PER_CHUNK_COMBINE_API)."""
    fused_whole_sequences: bool
    """Under sequence parallelism every tensor-parallel rank hands a fused dispatcher all tokens of its sequences, so
    that experts receive and compute each t times; else its own part of them."""
    exchanged_counts: Literal["none", "all_gather", "all_to_all"]
    """How ranks learn ahead of an all-to-all how many tokens come from each: not at all, as all are padded alike; they
    gather the counts of all; or each sends its own to the rank of the expert."""
    exchanges_scores: bool
    """An all-to-all of its own brings the score of every routed row to its expert; else scores stay with the tokens."""
    quantised_dispatch: Literal["none", "forward", "both"]
    """Which dispatches carry the operands of an 8-bit recipe: none, so that all are bf16; that of tokens in forward; or
    that of gradients in backward too. Combines never do."""
    expert_capacity: Annotated[float, Field(ge=0, le=1e6)]
    """Every expert takes this times the mean of its tokens from each rank, dropped and padded, unless the job says how
    tokens are shared; 0: all are taken."""
    quantised_gathers: Literal["none", "one_scale", "all"]
    """Recipes whose operands tensor-parallel ranks gather along the sequence, in place of bf16: none; those with one
    scale for a tensor, whose rows and columns are the same data; or all that quantise."""
    sums_shared_input_once: bool
    """Tensor parallelism without sequence parallelism sums the gradient of an input that several products share in one
    all-reduce, not in one for each."""
    orders_by_one_queue: bool
    """On accelerators that need one (`Accelerator.needs_one_queue`), tensor and context parallelism want a single
    hardware queue of kernels (CUDA_DEVICE_MAX_CONNECTIONS=1); sharded gradients and weights want several, and so do
    exchanges of experts beside another micro-batch."""
    hides_beside_latent_attention: bool
    """Collectives of tensor parallelism overlap in models with latent attention too."""
    hides_all_reduces: bool
    """What `overlap.tensor_parallel` says holds without sequence parallelism too, where ranks all-reduce; else of its
    all-gathers and reduce-scatters alone."""
    hides_by_peer_access: bool
    """The same goes through the memory of the other ranks (userbuffers, symmetric memory), which not every accelerator
    can reach (`Accelerator.overlaps_by_peer_access`)."""
    copies_sequences: Literal["none", "batched", "all"]
    """Sequences are the second dimension, collectives work along the first, and a copy of the whole buffer puts the
    pieces of sequence-parallel ranks in order: none; after every all-gather and before every reduce-scatter; or, of
    all-gathers, only where a micro-batch has several sequences."""
    balances_context: bool
    """Every context-parallel rank works on as many pairs of queries and keys, as on a piece from the front of the
    sequence and one from the back; else on one slice, of which the last attends to most and the others wait for it."""
    context_gradient_bytes: Literal[2, 4]
    """Bytes per element in which a ring passes on the gradients of keys and values."""
    merges_context_pieces: bool
    """Attention works on the keys and values of one rank after the other, also where all were gathered at once, and
    operators of their own merge what each piece puts out in fp32; else one kernel attends to all that was gathered."""


class PipelineEngine(Spec):
    """How pipeline stages are cut, and how they pass on messages and steps."""

    stage_split: Literal[
        "even", "outer_fewer", "front", "back", "matrix_products", "balanced_layers", "balanced_parameters"
    ]
    """How it gives layers to pipeline chunks: alike alone; or, where they do not divide, one fewer for the outermost
    chunks, one more for the first ones or for the last ones of each round; greedily by matrix products; or balanced by
    layers or parameters. See `layout.splits`."""
    scatters_messages: bool
    """Each tensor-parallel rank sends its part of a stage-to-stage message, and the receivers gather it; not under
    sequence parallelism, where each has another part, nor of models with experts, which pass on several tensors."""
    keeps_messages: bool
    """A stage keeps of every micro-batch in flight what it has received, beside the copy that its layers work on, and
    what it has sent; of scattered messages its own part alone of the latter, which backward gathers once more."""
    own_groups: bool
    """The pipeline engine has groups of ranks of its own beside the model's: the stages, to which it broadcasts the
    loss, and the tensor-parallel ranks, among which it gathers scattered messages."""
    receives_ahead: bool
    """Buffers for the messages of all micro-batches are allocated before the first one arrives, and a stage keeps what
    it has sent (torch.distributed.pipelining)."""
    receives_dtensors: bool
    """Tensor-parallel stages make a DTensor of what they have received for each micro-batch, with which its gradient
    goes; else the buffer keeps the input gradient of a split backward pass until the step ends."""
    keeps_outputs: bool = False
    """The last stage keeps the logits of all micro-batches until the step ends, and joins them then, for a caller that
    does not want them (torch.distributed.pipelining, unless told not to return its outputs)."""
    keeps_paired: bool = False
    """Where passes of two micro-batches run beside each other without a pipeline, what both keep stays until both have
    ended; else each layer gives back what it has kept."""
    overlaps_steps: bool
    """A pipeline rank begins its next step without waiting for the others (validation after the optimizer's step)."""
    limits_waiting_bytes: bool
    """The order of split backward passes is searched under a limit in bytes; else it is fixed by counts of chunks."""


class Overlap(Spec):
    """Share of each communication's window that hides it; 0: fully exposed."""

    data_parallel: Share
    """Gradient reduce-scatter beside the last backward, parameter all-gather beside the first forward."""
    tensor_parallel: Share
    """Forward and output-gradient collectives beside their own matrix product (userbuffers, async TP)."""
    tensor_parallel_backward: Share
    """Input re-gather beside the input-gradient product, and its reduction beside the weight-gradient product."""
    expert: Share
    """Exchanges of experts beside the opposite pass of another micro-batch, by collectives."""
    fused_expert: Share
    """The same by a fused dispatcher."""
    context: Share
    """Messages of ring attention beside the attention of the piece that has arrived."""
    pipeline: Share
    """Stage-to-stage messages of 1F1B."""
    interleaved_pipeline: Share
    """Stage-to-stage messages of interleaved 1F1B."""
    split_pipeline: Share
    """Stage-to-stage messages of schedules that split the backward pass."""
