"""RealRun: what a few processes that trained a shrunken plan did, beside what one process and the planner say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

LOSS_TOLERANCE = 1e-5
"""In fp32, as a share. Sums in another order are up to 2e-7 off; a norm whose gradient was not summed over tp, 6e-5."""
GRADIENT_TOLERANCE = 1e-4
"""As a share of the norm of all gradients. AdamW turns round-off in gradients near zero into whole steps, so that from
the second step on the norm is up to 5e-6 off."""
Order = tuple[str, ...]
"""Actions of a pipeline stage: F, B, I or W with chunk and micro-batch."""


class AxisBytes(NamedTuple):
    """All collectives or messages of one kind on one axis in one step."""

    axis: str
    kind: str
    bytes: int


@dataclass(frozen=True, kw_only=True)
class RealRun:
    """One shrunken plan, trained for some steps; its fields are those of the JSON answer."""

    schema: str = "meshwright.real_verification/1"
    run: str
    """What was run, in words."""
    left_out: tuple[str, ...]
    """What of the plan was not run, in words."""
    holds: bool
    """Whether all of it is as it must be, and every rank issued what the planner counts, as often and as large."""
    losses: tuple[float, ...]
    """Of every step, the mean over all tokens of the global batch."""
    reference_losses: tuple[float, ...]
    """Of one process that trained the same alone."""
    gradient_norms: tuple[float, ...]
    """Of all weights together, in every step."""
    reference_gradient_norms: tuple[float, ...]
    loss_difference: float
    """The largest of any step, as a share."""
    gradient_difference: float
    """The largest of any step between the norms of all weights together, as a share."""
    farthest_weight: tuple[str, float]
    """The weight whose gradient's norm is farthest off in any step, and how far, as a share of the norm of all."""
    executed: tuple[Order, ...]
    """What every rank of the pipeline did in the last step; empty orders without a pipeline."""
    planned: tuple[Order, ...]
    logged_bytes: tuple[tuple[AxisBytes, ...], ...]
    """Of every rank, in the last step."""
    counted_bytes: tuple[tuple[AxisBytes, ...], ...]
    """The same as the planner counts them."""
    elapsed_s: float

    @property
    def same_loss(self) -> bool:
        """Whether every step's loss is that of one process."""
        return self.loss_difference <= LOSS_TOLERANCE

    @property
    def same_gradients(self) -> bool:
        """Whether every step's norm is that of one process, of all gradients together and of each weight's."""
        return max(self.gradient_difference, self.farthest_weight[1]) <= GRADIENT_TOLERANCE

    @property
    def same_order(self) -> bool:
        """Whether every pipeline rank did what its schedule says, in that order."""
        return self.executed == self.planned
