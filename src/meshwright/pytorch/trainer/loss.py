"""Loss: cross-entropy on fp32 logits, over a vocabulary that tensor parallelism may split."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from torch import Tensor
from torch.distributed.tensor.parallel import loss_parallel
from torch.nn import functional

from meshwright.layout.plan import Plan


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean over all tokens; logits (batch, tokens, vocabulary), labels (batch, tokens)."""
    return functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(0, 1))


def over_split_vocabulary(plan: Plan) -> AbstractContextManager[None]:
    """Inside it a cross-entropy takes logits that are sharded by vocabulary."""
    return loss_parallel() if plan.tp > 1 else nullcontext()
