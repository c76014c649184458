"""Usual job: the length of a sequence and the tokens of a step where none are given."""

from __future__ import annotations

import math
from typing import Any

from meshwright.specs.job import Job, job_of
from meshwright.specs.model import Model

USUAL_LENGTH = 8192
"""Tokens in a sequence of pre-training: Llama 3, arXiv:2407.21783, section 3.4.1."""
USUAL_TOKENS_PER_STEP = 4 * 2**20
"""Tokens in a step: Llama 2, arXiv:2307.09288, section 2.2; the first of Llama 3, arXiv:2407.21783, section 3.4.1."""


def job_or_usual(
    model: Model,
    accelerators: int,
    sequence_length: int | None,
    option: str = "",
    *,
    global_batch: int | None = None,
    global_batch_tokens: str | None = None,
    **others: Any,
) -> Job:
    """A job as `job_of` makes it, with the usual length and batch where neither is given, which it says among its
    assumptions.

    accelerators: those that share a batch; option: with which an assumption is told how to set it, `{}` for its name;
    others: as `job_of` takes them. Raises as that does.

    >>> from meshwright.specs.reading.model import read_model
    >>> job_or_usual(read_model("gpt2"), 8, None).assumptions
    ('sequence length 1024', 'global batch 4096, near 4M tokens')
    """
    assumed = []
    if sequence_length is None:
        sequence_length = usual_length(model)
        assumed.append(f"sequence length {sequence_length}{option.format('seq-len')}")
    if global_batch is None and global_batch_tokens is None:
        global_batch = usual_batch(sequence_length, accelerators)
        assumed.append(f"global batch {global_batch}, near 4M tokens{option.format('global-batch')}")
    job = job_of(sequence_length, global_batch, global_batch_tokens, **others)
    return job.replace(assumptions=(*job.assumptions, *assumed)) if assumed else job


def usual_length(model: Model) -> int:
    """Tokens in a sequence: 8192, or as many positions as the model has learned or its config.json allows.

    >>> from meshwright.specs.reading.model import read_model
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
