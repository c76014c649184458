"""Compute time of multi-token prediction: what one of its layers computes ahead of its transformer layer."""

from __future__ import annotations

from meshwright.cost.compute.elementwise import elementwise_time
from meshwright.cost.compute.ends import EndTime, embedding_time
from meshwright.cost.compute.passes import norm_passes
from meshwright.cost.compute.products import linear_time
from meshwright.cost.compute.slowdown import slowdown
from meshwright.cost.compute.work import Work
from meshwright.cost.shard import residual_tokens, tokens
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs


def prediction_time(plan: Layout, inputs: Inputs) -> EndTime:
    """Seconds of embedding the next token, two norms, joining both inputs and projecting them from 2 h to h.

    The projection is column-parallel, h / t outputs a rank, in the recipe's format. The transformer layer that follows
    and the head are priced as any other. plan: scalar or array (n,). Returns seconds.
    Source: Megatron-LM, core/transformer/multi_token_prediction.py, _get_embeddings and _concat_embeddings.
    """
    hidden, accelerator, derate = inputs.model.hidden_size, inputs.cluster.accelerator, slowdown(inputs)
    rows, looked_up = tokens(plan, inputs), embedding_time(plan, inputs)
    projection = linear_time(rows, hidden / plan.tp, 2 * hidden, inputs)
    quantised = inputs.quantise_bytes
    joined, norm = 2.0 * residual_tokens(plan, inputs) * hidden, norm_passes(inputs)
    forward_bytes = (norm.forward + 4) * joined + 2 * quantised * rows * hidden
    backward_bytes = (norm.backward + 4) * joined + quantised * rows * hidden / plan.tp
    forward = Work(projection.forward, 0.0 * joined, elementwise_time(forward_bytes, accelerator)).scaled(derate)
    backward = Work(projection.backward, 0.0 * joined, elementwise_time(backward_bytes, accelerator)).scaled(derate)
    return EndTime(
        forward=forward.plus(looked_up.forward),
        backward=backward.plus(looked_up.backward),
        input_gradient=projection.input_gradient * derate,
        weight_gradient=projection.weight_gradient * derate,
    )
