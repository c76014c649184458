"""Activations behind the last layer, and what every micro-batch holds beside them."""

from __future__ import annotations

from typing import NamedTuple

from meshwright.arrays import Floats, where
from meshwright.cost.loss_pieces import capped_logits, loss_pieces, summed_gradient
from meshwright.cost.shard import residual_tokens, tokens, vocabulary_rows
from meshwright.layout.plans import Layout
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.precision import FP32_BYTES, HALF_BYTES

TOKEN_ID_BYTES = 8


class HeadMemory(NamedTuple):
    """Bytes behind the last layer of one micro-batch on one rank."""

    saved: Floats
    """Kept from forward to backward."""
    working: Floats
    """Alive for a moment while the cross-entropy's backward runs, beyond what is saved."""
    unjoined: Floats
    """Free at that moment, in pieces too small for what is alive."""
    forward: Floats
    """Alive for a moment while the cross-entropy works forward, beyond what is saved."""
    waiting: Floats
    """Of the cross-entropy of a micro-batch that waits for its backward: fp32 log-probabilities and what caps of logits
    keep, the 2-byte gradient of the head's input, or that of its weights."""
    output: Floats
    """2-byte logits of whole sequences."""
    piece_output: Floats
    """2-byte logits of one piece of the sequence, where the loss goes piece by piece; else 0."""
    pieces: Floats
    """Beside those, while a piece works: the gradients of all pieces' inputs, and copies of the inputs."""
    put_out: Floats
    """Of what is saved, the head's input, where the loss goes piece by piece and is given that; else 0."""


def head_memory(plan: Layout, inputs: Inputs) -> HeadMemory:
    """Saved and working bytes behind the last layer: the final norm's input and output, and the logits.

    Logits: the runtime's bytes per logit of a rank, for one micro-batch; with sequence parallelism the
    gathered input of the head beside them, saved or gathered again. Every layer of multi-token prediction saves all of
    these once more, as its loss waits for the same backward, where one loss works at a time and the others wait in 4
    bytes a logit or fewer; it keeps the embedding of its tokens and, without full recomputation, the joined inputs of
    its projection in the recipe's format. Where the loss goes through the sequence
    piece by piece, forward and backward, the logits are those of one piece, the gradients of the head's inputs are
    collected in fp32 and wait for the backward in 2 bytes, and pieces of several sequences are copies. Where it is
    fused with the head, the logits are those of one piece of the tokens, the gradient of the head's input takes the
    place of that input, and the gradient of its weights is summed beside them.
    plan: scalar or array (n,). Returns bytes. Source: Megatron-LM, multi_token_prediction.py, process_mtp_loss;
    torchtitan 0.3.0, components/loss.py, ChunkedLossWrapper, counted with PyTorch 2.13 on fake tensors; `loss_pieces`.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> head = head_memory(Plan(tp=8, sp=True), LLAMA)
    >>> float(head.saved) / (8192 * 4096 / 8), float(head.working) / 2**30
    (4.0, 0.80078125)
    """
    hidden, rows = inputs.model.hidden_size, tokens(plan, inputs)
    entropy = inputs.runtime.entropy
    residual = 1.0 * HALF_BYTES * residual_tokens(plan, inputs) * hidden
    whole = 1.0 * HALF_BYTES * rows * hidden
    again = inputs.runtime.activations.regathers_inputs
    gathered = where(plan.sp, whole, 0.0) if again else 0.0
    joined = inputs.runtime.sharding.joins_logits(inputs.model)
    split = entropy.alive_bytes if joined or entropy.split_alive_bytes is None else entropy.split_alive_bytes
    layers, logits = inputs.mtp_layers, 1.0 * rows * vocabulary_rows(plan, inputs).logits
    in_pieces = entropy.sequence_pieces > 1
    piece = logits / loss_pieces(plan, inputs)
    capped = 1.0 * capped_logits(inputs).kept * piece
    other_losses = layers * min(entropy.alive_bytes, FP32_BYTES) * piece
    alive = where(plan.tp > 1, split, entropy.alive_bytes) * piece + capped + other_losses
    collected = in_pieces * (FP32_BYTES / HALF_BYTES * whole + where(plan.micro_batch > 1, whole, 0.0))
    saved = inputs.residual_bytes / HALF_BYTES * residual + (residual if again else whole)
    projected = 2 * inputs.recipe.saved_bytes / HALF_BYTES * residual
    predicted = saved + residual + where(plan.recompute == Recompute.FULL, 0.0, projected)
    output = (not in_pieces and not entropy.fuses_head) * 1.0 * HALF_BYTES * logits
    working, waiting = alive + gathered + collected, whole if in_pieces else 1.0 * FP32_BYTES * logits
    forward = output + 2 * waiting + capped + other_losses
    output, waiting = (1 + layers) * output, (1 + layers * (not in_pieces)) * waiting + (not in_pieces) * capped
    if entropy.fuses_head:
        weights, gradient = 1.0 * vocabulary_rows(plan, inputs).head * hidden, summed_gradient(inputs)
        working, waiting = working + (gradient.kept + gradient.working) * weights, gradient.kept * weights
        forward = working
    return HeadMemory(
        saved=saved + layers * predicted,
        working=working,
        unjoined=entropy.unjoined_bytes * piece,
        forward=forward,
        waiting=waiting,
        output=output,
        piece_output=in_pieces * 1.0 * HALF_BYTES * piece,
        pieces=collected + in_pieces * whole / entropy.sequence_pieces,
        put_out=in_pieces * whole,
    )


def put_out_share(plan: Layout, inputs: Inputs) -> Floats:
    """Of the logits that the loss works on, the share that the last stage puts out and a pipeline keeps; 0: none are.

    Logits that tensor ranks gather for the loss are put out in parts. plan: scalar or array (n,). Returns a share.
    Source: torch 2.13, distributed/pipelining/schedules.py, step (return_outputs); `vocabulary_rows`.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> [float(put_out_share(Plan(), LLAMA.replace(runtime=LLAMA.runtime.replace(keeps_outputs=k)))) for k in (0, 1)]
    [0.0, 1.0]
    """
    rows = vocabulary_rows(plan, inputs)
    return inputs.runtime.pipeline.keeps_outputs * rows.head / rows.logits


def token_bytes(plan: Layout, inputs: Inputs) -> Floats:
    """Bytes of token ids, labels and positions of one micro-batch, 8 bytes each.

    plan: scalar or array (n,). Returns bytes. Source: torch, int64 tensors.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> token_bytes(Plan(), LLAMA)
    196608.0
    """
    return 3.0 * TOKEN_ID_BYTES * tokens(plan, inputs)
