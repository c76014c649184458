"""What a job is taken to be where nobody says it: the length of a sequence and the tokens of a step."""

from __future__ import annotations

import math

from meshwright.specs.model import Model

USUAL_LENGTH = 8192
"""Tokens in a sequence of pre-training: Llama 3, arXiv:2407.21783, section 3.4.1."""
USUAL_TOKENS_PER_STEP = 4 * 2**20
"""Tokens in a step: Llama 2, arXiv:2307.09288, section 2.2; the first of Llama 3, arXiv:2407.21783, section 3.4.1."""


def usual_length(model: Model) -> int:
    """Tokens in a sequence: 8192, or as many positions as the model has learned or its config.json allows.

    >>> from meshwright.specs.read_model import read_model
    >>> usual_length(read_model("llama-3.1-8b")), usual_length(read_model("gpt2"))
    (8192, 1024)
    """
    allowed = model.config_values.get("max_position_embeddings")
    lengths = [model.learned_positions, allowed if isinstance(allowed, int) else 0]
    return min([USUAL_LENGTH, *(length for length in lengths if length > 0)])


def usual_batch(sequence_length: int, accelerators: int) -> int:
    """Sequences in a step: near 4M tokens by ratio, a power of two times the odd part of the number of accelerators, so
    that their replicas divide it. The power of two alone where that part is larger than the batch, 1 for longer
    sequences and for lengths that no job has.

    >>> [usual_batch(length, 64) for length in (8192, 10240, 12288, 2**23, 0)]
    [512, 512, 256, 1, 1]
    >>> [usual_batch(8192, accelerators) for accelerators in (24, 40, 56, 8 * 2003)]
    [384, 640, 448, 512]
    """
    if sequence_length < 1:
        return 1
    wanted, odd = USUAL_TOKENS_PER_STEP / sequence_length, accelerators // (accelerators & -accelerators)
    odd = odd if odd < wanted * math.sqrt(2) else 1
    return odd << max(round(math.log2(wanted / odd)), 0)
