"""Fit: whether the memory of a plan fits on its accelerator, by which margin, and how likely."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from itertools import product
from typing import NamedTuple

import numpy as np

from meshwright.arrays import Floats, IntColumn, Ints
from meshwright.cost.memory.components import Components
from meshwright.specs.inputs import Inputs
from meshwright.specs.residuals import chosen, like_memory, residuals

EIGHTY_PERCENT = 0.8
MOST_CERTAIN = 0.99
"""No probability is nearer to 1 than the residuals of a hundred runs can tell, and none nearer to 0."""
QUANTILES = (np.arange(100) + 0.5) / 100


class Verdict(IntEnum):
    """Whether a plan fits in memory, from the surest to none.

    `SAFE` is 0 and so counts as false: ask `estimate.verdict.fits`, which only `OUT_OF_MEMORY` denies.
    """

    SAFE = 0
    AT_RISK = 1
    OUT_OF_MEMORY = 2

    def __str__(self) -> str:
        return self.name.lower().replace("_", "-")

    @property
    def fits(self) -> bool:
        """Whether it may run: safely or at risk."""
        return self is not Verdict.OUT_OF_MEMORY


class Bounds(NamedTuple):
    """What a rank may hold, bytes, scalar or array (n,)."""

    least: Floats
    """With as little fragmentation as is likely: where this does not fit, nothing helps."""
    most: Floats
    """As on the worst rank that was measured: where this fits, the plan is safe."""


@dataclass(frozen=True)
class Fit:
    """The verdict on one plan, with everything that is said about it: the worst stage against what is visible."""

    verdict: Verdict
    needed_bytes: float
    """What the driver would show."""
    visible_bytes: float
    """What a process can take of the accelerator's memory."""
    least_bytes: float
    """As in `Bounds`."""
    most_bytes: float
    probability: float
    """That it fits, with the error of the whole prediction of memory; a share."""

    @property
    def usage(self) -> float:
        """What is needed over what is visible, a share."""
        return self.needed_bytes / self.visible_bytes

    @property
    def margin_bytes(self) -> float:
        """Visible memory less the most of a safe plan, less the least of any other; negative where that does not
        fit.
        """
        return self.visible_bytes - (self.most_bytes if self.verdict == Verdict.SAFE else self.least_bytes)


def bounds(allocated: Floats, reserved: Floats, communicators: Floats, inputs: Inputs) -> Bounds:
    """The least and the most that a rank may hold.

    least = (1 + f_likely) allocated + context + communicators; most = reserved + (f_safe - f) allocated + context +
    (1 + u) communicators. f, the expected share of fragmentation in reserved, f_safe and f_likely are the runtime's;
    Megatron's 0.093 and 0.04 bracket the worst ranks of 43 measured runs; u = 1.8, because one measured dense layout
    held 2.8 times the communicators counted here.
    allocated, reserved, communicators: bytes, scalar or array (n,). Returns bytes. Source: SimuMax's B200 runs,
    reserved over allocated.

    >>> from meshwright.specs.examples import LLAMA
    >>> [round(size / 1e9, 1) for size in bounds(50e9, 54e9, 2e9, LLAMA)]
    [54.8, 62.5]
    """
    memory = inputs.runtime.memory
    least = (1 + memory.fragmentation_likely) * allocated + communicators
    fragmentation = (memory.fragmentation_safe - memory.fragmentation) * allocated
    most = reserved + fragmentation + (1 + memory.communicator_uncertainty) * communicators
    return Bounds(least + memory.context_bytes, most + memory.context_bytes)


def verdict(allocated: Floats, reserved: Floats, communicators: Floats, inputs: Inputs) -> IntColumn:
    """The verdict as a code of `Verdict`.

    Safe when the most of `bounds` fits in visible memory, at risk when the least still fits, else out of memory: an
    allocator that runs short gives back what it only holds.
    allocated, reserved, communicators: bytes, scalar or array (n,). Returns codes.
    Source: SimuMax's B200 runs, reserved over allocated.

    >>> from meshwright.specs.examples import LLAMA
    >>> [str(Verdict(int(verdict(size, 1.1 * size, 2e9, LLAMA)))) for size in (50e9, 74e9, 90e9)]
    ['safe', 'at-risk', 'out-of-memory']
    """
    visible = inputs.cluster.accelerator.visible_memory_bytes
    limits = bounds(allocated, reserved, communicators, inputs)
    unsafe = np.where(limits.least <= visible, Verdict.AT_RISK, Verdict.OUT_OF_MEMORY)
    return np.where(limits.most <= visible, Verdict.SAFE, unsafe)


def fit_of(memory: Components[float], inputs: Inputs) -> Fit:
    """The verdict on one plan; memory: bytes of its worst stage.

    Returns bytes and a share. Source: `bounds`, `verdict`, `fit_probability`.

    >>> from meshwright.cost.step import estimate_each
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.examples import LLAMA
    >>> (estimate,) = estimate_each([Plan(tp=8, num_microbatches=64)], LLAMA)
    >>> str(fit_of(estimate.memory, LLAMA).verdict)
    'safe'
    """
    limits = bounds(memory.allocated, memory.reserved, memory.communicators, inputs)
    return Fit(
        verdict=Verdict(int(verdict(memory.allocated, memory.reserved, memory.communicators, inputs))),
        needed_bytes=float(memory.device),
        visible_bytes=inputs.cluster.accelerator.visible_memory_bytes,
        least_bytes=float(limits.least),
        most_bytes=float(limits.most),
        probability=fit_probability(memory, inputs),
    )


def fit_probability(memory: Components[float], inputs: Inputs) -> float:
    """The share of like runs that would fit on the accelerator: allocated memory times the ratio of theirs, with
    fragmentation and communicators from the least to the most that the runtime's data say.

    memory: of one stage, bytes. Returns a share, 0.01 to 0.99. Source: catalog/residuals.toml, predicted against
    measured memory of published runs.

    >>> from meshwright.cost.step import estimate_each
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.examples import LLAMA
    >>> (estimate,) = estimate_each([Plan(tp=8, num_microbatches=64)], LLAMA)
    >>> fit_probability(estimate.memory, LLAMA)
    0.99
    """
    known, _ = chosen(residuals()["memory"], like_memory(inputs))
    margins = inputs.runtime.memory
    ratios = np.array([known.at(float(share)) for share in QUANTILES])
    fragmentations = (margins.fragmentation_likely, margins.fragmentation, margins.fragmentation_safe)
    rest = float(memory.device - memory.reserved - memory.communicators)
    sizes = [
        memory.allocated * ratios * (1 + fragmentation) + rest + memory.communicators * (1 + more)
        for fragmentation, more in product(fragmentations, (0.0, margins.communicator_uncertainty))
    ]
    fitting = np.array(sizes) <= inputs.cluster.accelerator.visible_memory_bytes
    return float(np.clip(fitting.mean(), 1 - MOST_CERTAIN, MOST_CERTAIN))


def eighty_percent_usage(states_and_activations: Floats, inputs: Inputs) -> Floats:
    """Weights, gradients, optimizer states and activations over the memory on the vendor's label.

    states_and_activations: bytes, scalar or array (n,). Returns a share. Source: Fujii et al., arXiv:2411.06465.

    >>> from meshwright.specs.examples import LLAMA
    >>> eighty_percent_usage(60e9, LLAMA)
    0.75
    """
    return states_and_activations / inputs.cluster.accelerator.memory_bytes


def eighty_percent_verdict(states_and_activations: Floats, inputs: Inputs) -> Ints:
    """The 80 % rule of Fujii et al. (arXiv:2411.06465) as a code of `Verdict`: safe up to 80 % of the vendor's label.

    It applies to weights, gradients, optimizer states and activations alone; above 80 % a run may still succeed.
    states_and_activations: bytes, scalar or array (n,). Returns codes.

    >>> from meshwright.specs.examples import LLAMA
    >>> [str(Verdict(int(eighty_percent_verdict(size, LLAMA)))) for size in (60e9, 70e9, 90e9)]
    ['safe', 'at-risk', 'out-of-memory']
    """
    usage = eighty_percent_usage(states_and_activations, inputs)
    code: IntColumn = np.where(
        usage <= EIGHTY_PERCENT, Verdict.SAFE, np.where(usage <= 1, Verdict.AT_RISK, Verdict.OUT_OF_MEMORY)
    )
    return code
