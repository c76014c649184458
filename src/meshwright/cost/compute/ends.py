"""Compute time of both ends of the model: embedding, head with cross-entropy, and what predicts further tokens."""

from __future__ import annotations

from typing import NamedTuple

from meshwright.arrays import Floats, Ints
from meshwright.cost.compute.accumulation import added_gradient_bytes, summed_bytes
from meshwright.cost.compute.elementwise import elementwise_time, norm_passes
from meshwright.cost.compute.linear import NO_GEMM, Gemm, linear_time
from meshwright.cost.compute.slowdown import slowdown
from meshwright.cost.compute.work import Work
from meshwright.cost.loss_pieces import capped_logits, loss_pieces, summed_gradient
from meshwright.cost.shard import residual_tokens, tokens, vocabulary_rows
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.precision import HALF_BYTES

COLLECTED_BYTES = 16
"""Per element of the head's input: zeros in fp32, the 2-byte gradient written into them, and cast back."""
JOINED_BYTES = 4
"""Per gathered logit, put in order, and per gradient of a rank's own logits, cut out of all: 2 read and 2 written."""


class EndTime(NamedTuple):
    """Compute seconds of one end of the model for one micro-batch."""

    forward: Work
    backward: Work
    input_gradient: Floats
    """Of the head's product, a window for overlap; 0 for the embedding."""
    weight_gradient: Floats


def embedding_time(plan: Layout, inputs: Inputs) -> EndTime:
    """Seconds of the token embedding: 4 bytes per output element forward and backward, and a dense weight gradient.

    The weight gradient is written in 2 bytes and added to the gradient buffer: 4 + 2 * gradient_bytes per element of
    the rank's rows of the vocabulary and micro-batch; nothing backward where weights are frozen. plan: scalar or array
    (n,). Returns seconds. Source: torch, embedding_dense_backward; Megatron-LM's main_grad hook.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> time = embedding_time(Plan(tp=8), LLAMA)
    >>> float(time.forward.gemm), bool(time.backward.elementwise > time.forward.elementwise)
    (0.0, True)
    """
    hidden, accelerator = inputs.model.hidden_size, inputs.cluster.accelerator
    looked_up = 4.0 * tokens(plan, inputs) * hidden
    accumulated = (2.0 + added_gradient_bytes(inputs)) * vocabulary_rows(plan, inputs).embedding * hidden
    forward = Work(0.0, 0.0, elementwise_time(looked_up, accelerator))
    learned = (not inputs.freezes_weights) * (looked_up + accumulated)
    backward = Work(0.0, 0.0, elementwise_time(learned, accelerator))
    return _end(inputs, forward, backward, NO_GEMM)


def head_time(plan: Layout, inputs: Inputs) -> EndTime:
    """Seconds of the final norm, the output head and the cross-entropy.

    The head's three products on the rank's rows of the vocabulary, the runtime's bytes per element of the norm and per
    logit of its cross-entropy, those of `capped_logits`, and 4 bytes per logit that is gathered or cut out. Where the
    loss goes through the sequence in q pieces, forward and backward, all of it is in the forward pass, in products of
    1/q of the rows; the weight gradients of 2 bytes are added up in the g bytes of what is reduced, 2 + g for the first
    and 2 + 2 g for each other one, and 2-byte gradients of the input go through fp32, 16 bytes an element. Where it is
    fused with the head, `summed_gradient` says what each piece moves; zeros and gradients of the input are written, and
    all gradients scaled once. A frozen head has no weight gradient.
    plan: scalar or array (n,). Returns seconds. Source: the runtime's `cross_entropies`;
    Megatron-LM, tensor_parallel/cross_entropy.py; torchtitan 0.3.0, components/loss.py (ChunkedLossWrapper,
    GradAccumulator); torch 2.13, distributed/fsdp/_fully_shard/_fsdp_param.py L802-821.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> round(float(head_time(Plan(tp=8), LLAMA).forward.total) * 1e3, 2)
    3.86
    """
    hidden, accelerator, runtime = inputs.model.hidden_size, inputs.cluster.accelerator, inputs.runtime
    rows, (_, vocabulary, seen) = tokens(plan, inputs), vocabulary_rows(plan, inputs)
    normed = residual_tokens(plan, inputs) * hidden
    logits, gathered = 1.0 * rows * seen, seen > vocabulary
    entropy, capped = runtime.entropy, capped_logits(inputs)
    pieces = loss_pieces(plan, inputs)
    head = Gemm(*(pieces * each for each in linear_time(rows / pieces, vocabulary, hidden, inputs, half=True)))
    head = head.frozen if inputs.freezes_weights else head
    norm = norm_passes(inputs)
    cast = 1.0 * inputs.weight_cast_bytes * vocabulary * hidden
    of_logits = entropy.forward_bytes + capped.forward + JOINED_BYTES * gathered
    forward_bytes = norm.forward * normed + of_logits * logits + cast
    sliced = JOINED_BYTES * gathered * rows * vocabulary
    backward_bytes = norm.backward * normed + (entropy.backward_bytes + capped.backward) * logits + sliced + cast
    backward_bytes = backward_bytes + summed_bytes(plan, inputs, 1.0 * vocabulary * hidden)
    if entropy.fuses_head or entropy.sequence_pieces > 1:
        forward_bytes = forward_bytes + backward_bytes - norm.backward * normed
        forward_bytes = forward_bytes + _summed_in_pieces(pieces, 1.0 * vocabulary, rows, inputs)
        forward = Work(head.forward + head.backward, 0.0 * normed, elementwise_time(forward_bytes, accelerator))
        backward = Work(0.0, 0.0, elementwise_time(norm.backward * normed, accelerator))
        return _end(inputs, forward, backward, NO_GEMM)
    forward = Work(head.forward, 0.0 * normed, elementwise_time(forward_bytes, accelerator))
    backward = Work(head.backward, 0.0 * normed, elementwise_time(backward_bytes, accelerator))
    return _end(inputs, forward, backward, head)


def _summed_in_pieces(pieces: Floats, vocabulary: Floats, rows: Ints, inputs: Inputs) -> Floats:
    """Bytes moved to sum the gradients of a head's weights over the pieces of a loss, and those of its input."""
    hidden = inputs.model.hidden_size
    if inputs.runtime.entropy.fuses_head:
        gradient = summed_gradient(inputs)
        scaled = 2 * (gradient.kept * vocabulary + HALF_BYTES * rows) * hidden
        return gradient.moved * pieces * vocabulary * hidden + 2 * HALF_BYTES * rows * hidden + scaled
    sums = (2.0 + inputs.gradient_bytes) * pieces + inputs.gradient_bytes * (pieces - 1)
    return sums * vocabulary * hidden + COLLECTED_BYTES * rows * hidden


def prediction_time(plan: Layout, inputs: Inputs) -> EndTime:
    """Seconds of embedding the next token, two norms, joining both inputs and projecting them from 2 h to h.

    The projection is column-parallel, h / t outputs a rank, in the recipe's format. The transformer layer that follows
    and the head are priced as any other. plan: scalar or array (n,). Returns seconds.
    Source: Megatron-LM, core/transformer/multi_token_prediction.py, _get_embeddings and _concat_embeddings.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> time = prediction_time(Plan(tp=8), LLAMA)
    >>> bool(time.backward.gemm > 1.5 * time.forward.gemm)  # two products for one
    True
    """
    hidden, accelerator = inputs.model.hidden_size, inputs.cluster.accelerator
    rows, looked_up = tokens(plan, inputs), embedding_time(plan, inputs)
    projection = linear_time(rows, hidden / plan.tp, 2 * hidden, inputs)
    quantised = inputs.quantise_bytes
    joined, norm = 2.0 * residual_tokens(plan, inputs) * hidden, norm_passes(inputs)
    forward_bytes = (norm.forward + 4) * joined + 2 * quantised * rows * hidden
    backward_bytes = (norm.backward + 4) * joined + quantised * rows * hidden / plan.tp
    forward = Work(projection.forward, 0.0 * joined, elementwise_time(forward_bytes, accelerator))
    backward = Work(projection.backward, 0.0 * joined, elementwise_time(backward_bytes, accelerator))
    end = _end(inputs, forward, backward, projection)
    return end._replace(forward=end.forward.plus(looked_up.forward), backward=end.backward.plus(looked_up.backward))


def _end(inputs: Inputs, forward: Work, backward: Work, product: Gemm) -> EndTime:
    """Both passes of one end with its product, as long as they take in a training step."""
    derate = slowdown(inputs)
    return EndTime(
        forward=forward.scaled(derate),
        backward=backward.scaled(derate),
        input_gradient=product.input_gradient * derate,
        weight_gradient=product.weight_gradient * derate,
    )
