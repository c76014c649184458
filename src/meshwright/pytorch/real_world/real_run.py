"""RealRun: what a few processes that trained a shrunken plan did, beside what one process and the planner say."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from meshwright.layout.plan import Plan
from meshwright.pytorch.processes.observed import Collective
from meshwright.specs.inputs import Inputs

LOSS_TOLERANCE = 1e-5
"""In fp32, as a share. Sums in another order are up to 2e-7 off; a norm whose gradient was not summed over tp, 6e-5."""
GRADIENT_TOLERANCE = 1e-4
"""As a share of the norm of all gradients. AdamW turns round-off in gradients near zero into whole steps, so that from
the second step on the norm is up to 5e-6 off."""
Order = tuple[str, ...]
"""Actions of a pipeline stage: F, B, I or W with chunk and micro-batch."""


@dataclass(frozen=True, kw_only=True)
class RealRun:
    """One shrunken plan, trained for some steps."""

    plan: Plan
    """As it was run."""
    inputs: Inputs
    """With the small model."""
    left_out: tuple[str, ...]
    """What of the plan was not run, in words."""
    losses: tuple[float, ...]
    """Of every step, the mean over all tokens of the global batch."""
    reference_losses: tuple[float, ...]
    """Of one process that trained the same alone."""
    gradients: Mapping[str, tuple[float, ...]]
    """Norm of every weight's gradient in every step."""
    reference_gradients: Mapping[str, tuple[float, ...]]
    executed: tuple[Order, ...]
    """What every rank of the pipeline did in the last step; empty orders without a pipeline."""
    planned: tuple[Order, ...]
    traffic: tuple[Mapping[Collective, int], ...]
    """What every rank issued in the last step, and how often; of all phases together, their phase left empty."""
    counted: tuple[Mapping[Collective, int], ...]
    """The same as the planner counts it."""
    elapsed_s: float

    @property
    def words(self) -> str:
        """What was run."""
        model = self.inputs.model
        size = f"{model.num_layers} layers, hidden size {model.hidden_size}, vocabulary {model.vocab_size}"
        job = f"{self.inputs.job.global_batch} sequences of {self.inputs.job.sequence_length} tokens"
        return f"{self.plan} with {size}, {job}, {len(self.losses)} steps in fp32"

    @property
    def gradient_norms(self) -> tuple[float, ...]:
        """Of all weights together, in every step."""
        return _norms(self.gradients)

    @property
    def reference_gradient_norms(self) -> tuple[float, ...]:
        """Of one process alone."""
        return _norms(self.reference_gradients)

    @property
    def loss_difference(self) -> float:
        """The largest of any step, as a share."""
        return _largest(self.losses, self.reference_losses)

    @property
    def gradient_difference(self) -> float:
        """The largest of any step between the norms of all weights together, as a share."""
        return _largest(self.gradient_norms, self.reference_gradient_norms)

    @property
    def farthest_weight(self) -> tuple[str, float]:
        """The weight whose gradient's norm is farthest off in any step, and how far, as a share of the norm of all; one
        that only ranks or one process have is off by all of its norm.
        """
        whole = self.reference_gradient_norms
        none = (0.0,) * len(whole)
        shares = {}
        for name in {**self.gradients, **self.reference_gradients}:
            norms = (of.get(name, none) for of in (self.gradients, self.reference_gradients))
            shares[name] = max(abs(a - b) / c for a, b, c in zip(*norms, whole, strict=True))
        return max(shares.items(), key=lambda each: each[1])

    @property
    def logged_bytes(self) -> tuple[Mapping[tuple[str, str], int], ...]:
        """Of every rank, the bytes of all collectives and messages of the last step, by axis and kind."""
        return tuple(map(_bytes, self.traffic))

    @property
    def counted_bytes(self) -> tuple[Mapping[tuple[str, str], int], ...]:
        """The same as the planner counts them."""
        return tuple(map(_bytes, self.counted))

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

    @property
    def same_traffic(self) -> bool:
        """Whether every rank issued what the planner counts, as often and as large."""
        return self.traffic == self.counted

    @property
    def holds(self) -> bool:
        """Whether all of it is the same."""
        return self.same_loss and self.same_gradients and self.same_order and self.same_traffic


def _norms(gradients: Mapping[str, tuple[float, ...]]) -> tuple[float, ...]:
    return tuple(math.hypot(*step) for step in zip(*gradients.values(), strict=True))


def _bytes(traffic: Mapping[Collective, int]) -> dict[tuple[str, str], int]:
    summed: Counter[tuple[str, str]] = Counter()
    for collective, count in traffic.items():
        summed[collective.axis, collective.kind] += count * collective.bytes
    return dict(summed)


def _largest(seen: Sequence[float], wanted: Sequence[float]) -> float:
    """The largest difference as a share; infinite where a value is no number."""
    shares = [abs(a - b) / abs(b) for a, b in zip(seen, wanted, strict=True)]
    return max(shares) if all(map(math.isfinite, shares)) else math.inf
