"""Local: what one rank holds of a tensor."""

from __future__ import annotations

from torch import Tensor
from torch.distributed.tensor import DTensor


def local(tensor: Tensor) -> Tensor:
    """The rank's piece of a distributed tensor; any other as it is."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
