"""Multi-token prediction: the tensor-parallel collectives of one of its layers ahead of its transformer layer."""

from __future__ import annotations

import numpy as np

from meshwright.cost.comms.collectives import collective_time
from meshwright.cost.comms.crossings import crossing
from meshwright.cost.comms.group import tensor_group
from meshwright.cost.comms.tensor import TensorTime, embedding_tensor_time
from meshwright.cost.element import HALF_BYTES
from meshwright.cost.shard import tokens
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs


def prediction_tensor_time(plan: Layout, inputs: Inputs) -> TensorTime:
    """Exposed seconds at the embedding and around the projection from 2 h to h, which is column-parallel.

    Its input of 2 X = 4 s b h / c bytes enters as any other, its output of X is gathered whole, and with sequence
    parallelism the gradient of that is gathered once more; nothing hides them.
    plan: scalar or array (n,). Returns seconds for one micro-batch.
    Source: Megatron-LM, core/transformer/multi_token_prediction.py, _concat_embeddings.
    """
    exchange, looked_up = crossing(plan, inputs), embedding_tensor_time(plan, inputs)
    size = 1.0 * HALF_BYTES * tokens(plan, inputs) * inputs.model.hidden_size
    whole = collective_time("all_gather", size, tensor_group(plan, inputs), inputs.cluster)
    again = exchange.enter if inputs.runtime.activations.regathers_inputs else 0.0
    forward = looked_up.forward + 2 * exchange.enter + whole
    return TensorTime(forward, looked_up.backward + 2 * (again + exchange.leave) + np.where(plan.sp, whole, 0.0))
