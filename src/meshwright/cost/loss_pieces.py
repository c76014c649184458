"""Loss pieces: on how many tokens the head and its cross-entropy work at once, and what sums up their gradients."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright.arrays import Floats, larger
from meshwright.cost.shard import tokens, vocabulary_rows
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.precision import FP32_BYTES, HALF_BYTES


class SummedGradient(NamedTuple):
    """Of the weights of a head that is fused with its cross-entropy, bytes for each of them."""

    kept: int
    """From forward to backward."""
    working: int
    """Alive for a moment beside it: the product of one piece, and its fp32 copy."""
    moved: int
    """For each piece of the tokens."""


class CappedLogits(NamedTuple):
    """Of logits that are capped before the cross-entropy, bytes for each of them."""

    kept: int
    """From forward to backward."""
    forward: int
    """Moved in forward."""
    backward: int
    """Moved in backward."""


def capped_logits(inputs: Inputs) -> CappedLogits:
    """What cap * tanh(logits / cap) costs, operator by operator: nothing where the model caps no logits, or where the
    cross-entropy does it.

    Three kernels of 2-byte elements each way, 2 + 2 bytes each and 2 more for what tanh put out, which backward reads.
    Returns bytes. Source: transformers 5.23.0 models/gemma2/modeling_gemma2.py, Gemma2ForCausalLM.forward; what is kept
    was counted with PyTorch 2.13.

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> capped_logits(LLAMA.replace(model=LLAMA.model.replace(head_softcap=True)))
    CappedLogits(kept=2, forward=12, backward=14)
    """
    apart = inputs.model.head_softcap and not inputs.runtime.entropy.caps_logits
    return CappedLogits(HALF_BYTES, 6 * HALF_BYTES, 7 * HALF_BYTES) if apart else CappedLogits(0, 0, 0)


def loss_pieces(plan: Layout, inputs: Inputs) -> Floats:
    """In how many pieces the tokens of one micro-batch go through the head and the cross-entropy, one by one.

    As many as the runtime's loss has. One that is fused with the head takes p = 2^ceil(log2(n / ceil(V / h))) of n
    tokens at once, with V rows of the vocabulary and h elements of the hidden state: n / p pieces, at least 1.
    plan: scalar or array (n,). Returns a count. Source: linkedin/Liger-Kernel@ead96b618,
    src/liger_kernel/ops/fused_linear_cross_entropy.py, fused_linear_cross_entropy_forward (inc_factor, chunk_size).

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import FUSED_LOSS  # of 4096 tokens, h 4096, V 128256: ceil(V / h) is 32
    >>> float(loss_pieces(Plan(micro_batch=2), FUSED_LOSS))
    32.0
    """
    entropy = inputs.runtime.entropy
    if not entropy.fuses_head:
        return 1.0 * entropy.sequence_pieces
    rows, vocabulary = tokens(plan, inputs), vocabulary_rows(plan, inputs).head
    factor = np.ceil(vocabulary / inputs.model.hidden_size)
    return larger(rows / np.exp2(np.ceil(np.log2(np.ceil(rows / factor)))), 1.0)


def summed_gradient(inputs: Inputs) -> SummedGradient:
    """How the gradient of a head's weights is summed over pieces: nothing of frozen weights.

    In the format of the weights, 2 bytes or 4 under autocast. In 2 bytes each piece has a product of its own, which is
    cast to fp32 and added: 2 written, 2 read and 4 written, 2 and 4 read and 2 written. In 4 bytes the product adds to
    it. Returns bytes. Source: `loss_pieces`, the same file (grad_weight).

    >>> from meshwright.specs.reading.examples import FUSED_LOSS
    >>> summed_gradient(FUSED_LOSS)
    SummedGradient(kept=2, working=6, moved=16)
    """
    if inputs.freezes_weights:
        return SummedGradient(kept=0, working=0, moved=0)
    if inputs.runtime.storage.autocast:
        return SummedGradient(kept=FP32_BYTES, working=0, moved=2 * FP32_BYTES)
    product, copy = HALF_BYTES, FP32_BYTES
    return SummedGradient(kept=HALF_BYTES, working=product + copy, moved=2 * (product + copy) + 2 * HALF_BYTES)
