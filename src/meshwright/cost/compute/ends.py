"""Compute time of both ends of the model: embedding, head with cross-entropy, and what predicts further tokens."""

from __future__ import annotations

from typing import NamedTuple

from meshwright.arrays import Floats
from meshwright.cost.compute.elementwise import elementwise_time, norm_passes
from meshwright.cost.compute.linear import NO_GEMM, Gemm, linear_time
from meshwright.cost.compute.slowdown import slowdown
from meshwright.cost.compute.work import NO_WORK, Work
from meshwright.cost.shard import residual_tokens, tokens, vocabulary_shard
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs


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
    the vocabulary shard and micro-batch. plan: scalar or array (n,). Returns seconds.
    Source: torch, embedding_dense_backward; Megatron-LM's main_grad hook.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.examples import LLAMA
    >>> time = embedding_time(Plan(tp=8), LLAMA)
    >>> float(time.forward.gemm), bool(time.backward.elementwise > time.forward.elementwise)
    (0.0, True)
    """
    hidden, accelerator = inputs.model.hidden_size, inputs.cluster.accelerator
    looked_up = 4.0 * tokens(plan, inputs) * hidden
    accumulated = (4.0 + 2 * inputs.gradient_bytes) * vocabulary_shard(plan, inputs) * hidden
    forward = NO_WORK._replace(elementwise=elementwise_time(looked_up, accelerator))
    backward = NO_WORK._replace(elementwise=elementwise_time(looked_up + accumulated, accelerator))
    return _end(inputs, forward, backward, NO_GEMM)


def head_time(plan: Layout, inputs: Inputs) -> EndTime:
    """Seconds of the final norm, the output head and the cross-entropy.

    The head's three products on the vocabulary shard, the runtime's bytes per element of the norm and per logit of
    its cross-entropy. plan: scalar or array (n,). Returns seconds. Source: the runtime's `cross_entropies`;
    Megatron-LM, tensor_parallel/cross_entropy.py.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.examples import LLAMA
    >>> round(float(head_time(Plan(tp=8), LLAMA).forward.total) * 1e3, 2)
    3.75
    """
    hidden, accelerator, runtime = inputs.model.hidden_size, inputs.cluster.accelerator, inputs.runtime
    rows, vocabulary = tokens(plan, inputs), vocabulary_shard(plan, inputs)
    normed = residual_tokens(plan, inputs) * hidden
    logits = 1.0 * rows * vocabulary
    entropy = runtime.cross_entropies[runtime.kernels.cross_entropy]
    head = linear_time(rows, vocabulary, hidden, inputs, half=True)
    norm = norm_passes(inputs)
    cast = 1.0 * inputs.weight_cast_bytes * vocabulary * hidden
    forward_bytes = norm.forward * normed + entropy.forward_bytes * logits + cast
    backward_bytes = norm.backward * normed + entropy.backward_bytes * logits + cast
    forward = Work(head.forward, 0.0 * normed, elementwise_time(forward_bytes, accelerator))
    backward = Work(head.backward, 0.0 * normed, elementwise_time(backward_bytes, accelerator))
    return _end(inputs, forward, backward, head)


def prediction_time(plan: Layout, inputs: Inputs) -> EndTime:
    """Seconds of embedding the next token, two norms, joining both inputs and projecting them from 2 h to h.

    The projection is column-parallel, h / t outputs a rank, in the recipe's format. The transformer layer that follows
    and the head are priced as any other. plan: scalar or array (n,). Returns seconds.
    Source: Megatron-LM, core/transformer/multi_token_prediction.py, _get_embeddings and _concat_embeddings.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.examples import LLAMA
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
