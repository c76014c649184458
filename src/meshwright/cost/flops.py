"""Model FLOPs: what the mathematics of one step needs, whatever the plan."""

from __future__ import annotations

from functools import lru_cache

from meshwright.arrays import Floats, Ints
from meshwright.cost.compute.attention import attended_pairs
from meshwright.specs.adapters import adapter_parameters
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import Model
from meshwright.specs.weights import Weight, layer_weights, model_weights, mtp_weights

LOOKED_UP = ("embedding", "positions", "norms")
"""Parts that are no factors of products."""


def model_flops_per_step(inputs: Inputs, tokens: Ints | None = None) -> Floats:
    """FLOP of one optimizer step, forward and backward, without recomputation.

    6 FLOP per token and matrix parameter that the token passes through (the embedding look-up and positions are no
    product, a tied head is one), and 6 (d_qk + d_v) FLOP per head and attended query-key pair, causal pairs counted
    once (s^2 / 2, within documents where the job packs them), sliding windows respected. Layers of multi-token
    prediction that are trained count, each with its projection and the head once more. A frozen parameter counts 4, as
    it has no gradient, and one of an adapter 6. Experts with a capacity below 1 compute only that share of the tokens
    that choose them (`computed_share`).
    tokens: of a step, scalar or array (n,); None: those of the job. Returns FLOP. Source: Narayanan et al.,
    arXiv:2104.04473, equation 3, with the causal half stated; PaLM, arXiv:2204.02311, appendix B, for MFU; Megatron-LM,
    training.py, num_floating_point_operations, for multi-token prediction.

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> round(model_flops_per_step(LLAMA) / 1e15, 2)
    26.99
    """
    model, job = inputs.model, inputs.job
    tokens = job.tokens_per_step if tokens is None else tokens
    taken = computed_share(inputs)
    passed = _passed_in_all(model, taken) + inputs.mtp_layers * _predicted(model, taken)
    each = (4.0 if inputs.freezes_weights else 6.0) * passed + 6.0 * adapter_parameters(model, job, inputs.runtime)
    products = each * tokens
    scores = 0.0
    for kind, count in zip(model.layer_kinds, inputs.layers_per_kind, strict=True):
        attention = kind.attention
        width = attention.head_dim + attention.value_head_dim
        scores += 6.0 * count * attention.heads * width * attended_pairs(job.attended_length, attention.window)
    return products + scores * tokens / job.attended_length


def computed_share(inputs: Inputs) -> float:
    """Share of the choices of tokens that experts compute: min(f, 1) with a capacity f; the rest skip their expert.

    An upper bound: with a capacity of 1 or more, tokens that exceed it are dropped only where they share the experts
    unequally. Returns a share. Source: Megatron-LM, core/transformer/moe/moe_utils.py, get_capacity.

    >>> from meshwright.specs.reading.examples import MIXTRAL
    >>> computed_share(MIXTRAL)
    1.0
    """
    return 1.0 if inputs.expert_capacity is None else min(inputs.expert_capacity, 1.0)


@lru_cache(maxsize=512)
def _passed_in_all(model: Model, taken: float) -> float:
    """Matrix parameters that a token passes through, the head's among them, without multi-token prediction. taken: the
    share of tokens that experts compute.
    """
    head = model.vocab_size * model.hidden_size if model.tied_embeddings else 0
    passed = (count * _passed(weight, taken) for count, weight in model_weights(model) if weight.part not in LOOKED_UP)
    return head + sum(passed)


@lru_cache(maxsize=512)
def _predicted(model: Model, taken: float) -> float:
    """Matrix parameters that a token passes through in one layer of multi-token prediction, the head's among them."""
    weights = (*layer_weights(model, model.layer_kinds[model.layer_pattern[-1]]), *mtp_weights(model))
    passed = (_passed(each, taken) for each in weights if each.part != "norms")
    return sum(passed) + model.vocab_size * model.hidden_size


def _passed(weight: Weight, taken: float) -> float:
    """Parameters of a weight that one token passes through; of routed experts the share that is taken."""
    return weight.elements if weight.active is None else taken * weight.active
