"""Fit: whether the memory of a plan fits on its accelerator, by which margin, and how likely."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from meshwright.arrays import Amount, FloatColumn, Floats, IntColumn, Ints, root, where
from meshwright.cost.deviates import normal_deviate
from meshwright.cost.memory.components import Components
from meshwright.specs.inputs import Inputs
from meshwright.specs.predictive import predictive
from meshwright.specs.residuals import ALLOCATED, like_memory, measured_memory

EIGHTY_PERCENT = 0.8
MOST_CERTAIN = 0.99
"""No probability is nearer to 1 than the residuals of a hundred runs can tell, and none nearer to 0."""
EVEN = 0.5
"""From this probability on a run is as likely as not to fit."""
NINE_OF_TEN = 0.9
SHARES = np.linspace(1 - MOST_CERTAIN, MOST_CERTAIN, 981)
DEVIATIONS = np.array([normal_deviate(share) for share in SHARES])
"""Of a normal distribution, below which these shares lie."""


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
    """What a rank holds in eight of ten runs, bytes, scalar or array (n,)."""

    least: Floats
    """One of ten runs holds less."""
    expected: Floats
    most: Floats
    """One of ten runs holds more."""

    @classmethod
    def of(cls, memory: Components[Amount], inputs: Inputs, routing: Floats = 0.0) -> Bounds:
        """`bounds` of what stages hold; memory: theirs, bytes; routing: as in `bounds`, bytes."""
        live, held = memory.allocated, memory.reserved
        graphs, buffers = memory.cuda_graphs, memory.exchange_buffers
        return bounds(live, held, memory.communicators, inputs, routing, graphs, buffers)


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
    expected_bytes: float
    most_bytes: float
    safe_bytes: float
    """What must be visible for the plan to be safe: more is needed no more often than the job's `risk` accepts."""
    probability: float
    """That it fits, by the error of the whole prediction; a share."""
    eighty_percent_usage: float
    """States and activations over the memory on the vendor's label, a share."""

    @property
    def usage(self) -> float:
        """What is needed over what is visible, a share."""
        return self.needed_bytes / self.visible_bytes

    @property
    def margin_bytes(self) -> float:
        """Visible memory less what a safe plan would need; negative where the plan is not safe."""
        return self.visible_bytes - self.safe_bytes

    @property
    def keeps_eighty_percent_rule(self) -> bool:
        """Whether it is within the 80 % rule of arXiv:2411.06465, which knows neither allocator nor communicators."""
        return self.eighty_percent_usage <= EIGHTY_PERCENT


def bounds(
    allocated: Floats,
    reserved: Floats,
    communicators: Floats,
    inputs: Inputs,
    routing: Floats = 0.0,
    cuda_graphs: Floats = 0.0,
    exchange_buffers: Floats = 0.0,
) -> Bounds:
    """What a rank holds in eight of ten runs of a source that nobody has seen.

    expected = reserved + context + communicators + exchange buffers + (e^m - 1) x
    most = expected + sqrt(((h - e^m) x)^2 + ((f_safe - f) allocated)^2 + (u communicators)^2 + routing^2)
    least = expected - sqrt(((e^m - l) x)^2 + (reserved - (1 + f_likely) allocated - graphs)^2 + routing^2), as an
    allocator that runs short gives back what it only holds, but nothing of the pool of CUDA graphs.

    m is the mean, l and h the 10th and 90th percentile of measured over predicted x (`predictive`): of reserved memory
    where that was measured (`measured_memory`), with the error of the allocator in it, which makes the term in f_safe
    0; else of allocated memory. f, the expected share of fragmentation, f_safe and f_likely are the runtime's; 0.093 of
    Megatron is the worst rank of 43 measured runs, and 0 that of segments which expand. u = 1.8: one measured dense
    layout held 2.8 times the communicators counted here. That these are percentiles too, and the errors independent, is
    assumed. allocated, reserved, communicators: bytes, scalar or array (n,); routing: what a rank holds more where
    experts are as unequal as in one of ten training runs, and as much less where they are as equal; cuda_graphs: of
    reserved, what their pool holds; exchange_buffers: of a fused dispatcher, whose sizes are known; bytes. Returns
    bytes. Source: reserved over allocated of SimuMax's B200 runs.

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> [round(float(size) / 1e9) for size in bounds(50e9, 54e9, 2e9, LLAMA)]
    [51, 56, 61]
    """
    memory, measured = inputs.runtime.memory, measured_memory(inputs)
    error = predictive("memory", like_memory(inputs, measured))
    apart = measured == ALLOCATED
    tensors = allocated if apart else reserved
    low, high = error.eight_of_ten
    middle, unequal = float(np.exp(error.bias)), routing * routing
    above = root(
        ((high - middle) * tensors) ** 2
        + (apart * (memory.fragmentation_safe - memory.fragmentation) * allocated) ** 2
        + (memory.communicator_uncertainty * communicators) ** 2
        + unequal
    )
    given_back = reserved - cuda_graphs - (1 + memory.fragmentation_likely) * allocated
    below = root(((middle - low) * tensors) ** 2 + given_back**2 + unequal)
    expected = reserved + (middle - 1) * tensors + memory.context_bytes + communicators + exchange_buffers
    return Bounds(expected - below, expected, expected + above)


def verdict(limits: Bounds, inputs: Inputs) -> IntColumn:
    """The verdict on what a rank holds at least, as expected and at most, as a code of `Verdict`.

    Safe where runs fit in visible memory but for the share that the job's `risk` accepts, out of memory where not even
    one of ten does, at risk between. limits: bytes, scalar or array (n,). Returns codes. Source: `bounds`.

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> [str(Verdict(int(verdict(bounds(size, 1.1 * size, 2e9, LLAMA), LLAMA)))) for size in (50e9, 74e9, 90e9)]
    ['safe', 'at-risk', 'out-of-memory']
    """
    visible = inputs.cluster.accelerator.visible_memory_bytes
    unsafe = where(limits.least <= visible, Verdict.AT_RISK, Verdict.OUT_OF_MEMORY)
    return np.asarray(where(safe_bytes(limits, inputs.job.risk) <= visible, Verdict.SAFE, unsafe))


def safe_bytes(limits: Bounds, risk: float) -> Floats:
    """What is enough for all runs but a share: expected + (most - expected) z_(1 - risk) / z_0.9.

    limits: bytes, scalar or array (n,); risk: a share, at most 0.5. Returns bytes. Source: `fit_probability`.

    >>> [round(safe_bytes(Bounds(60e9, 70e9, 75e9), risk) / 1e9, 1) for risk in (0.5, 0.1, 0.01)]
    [70.0, 75.0, 79.1]
    """
    wider = normal_deviate(1 - risk) / normal_deviate(NINE_OF_TEN)
    return limits.expected + (limits.most - limits.expected) * wider


def fit_of(memory: Components[float], inputs: Inputs, routing: float = 0.0) -> Fit:
    """The verdict on one plan; memory: bytes of its worst stage; routing: as in `bounds`, bytes.

    Returns bytes and a share. Source: `bounds`, `verdict`, `fit_probability`.

    >>> from meshwright.cost.step import estimate_each
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> (estimate,) = estimate_each([Plan(tp=8, num_microbatches=64)], LLAMA)
    >>> str(fit_of(estimate.memory, LLAMA).verdict)
    'safe'
    """
    limits = Bounds.of(memory, inputs, routing)
    visible = inputs.cluster.accelerator.visible_memory_bytes
    return Fit(
        verdict=Verdict(int(verdict(limits, inputs))),
        needed_bytes=float(memory.device),
        visible_bytes=visible,
        least_bytes=float(limits.least),
        expected_bytes=float(limits.expected),
        most_bytes=float(limits.most),
        safe_bytes=float(safe_bytes(limits, inputs.job.risk)),
        probability=float(fit_probability(limits, visible)),
        eighty_percent_usage=float(eighty_percent_usage(memory.states + memory.activations, inputs)),
    )


def fit_probability(limits: Bounds, visible: float) -> FloatColumn:
    """The share of runs that fit: of a normal distribution on either side of what is expected, of which one of ten lies
    below the least and one above the most.

    limits: of one rank, bytes, scalar or array (n,); visible: bytes. Returns a share, 0.01 to 0.99, to 4 digits.
    Source: `bounds`.

    >>> limits = Bounds(60e9, 70e9, 75e9)
    >>> [round(float(fit_probability(limits, visible)), 2) for visible in (60e9, 70e9, 75e9, 90e9)]
    [0.1, 0.5, 0.9, 0.99]
    """
    side = where(visible > limits.expected, limits.most, limits.least)
    deviations = (visible - limits.expected) / np.abs(side - limits.expected) * normal_deviate(NINE_OF_TEN)
    return np.asarray(np.interp(deviations, DEVIATIONS, SHARES))


def eighty_percent_usage(states_and_activations: Floats, inputs: Inputs) -> Floats:
    """Weights, gradients, optimizer states and activations over the memory on the vendor's label.

    states_and_activations: bytes, scalar or array (n,). Returns a share. Source: Fujii et al., arXiv:2411.06465.

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> eighty_percent_usage(60e9, LLAMA)
    0.75
    """
    return states_and_activations / inputs.cluster.accelerator.memory_bytes


def eighty_percent_verdict(states_and_activations: Floats, inputs: Inputs) -> Ints:
    """The 80 % rule of Fujii et al. (arXiv:2411.06465) as a code of `Verdict`: safe up to 80 % of the vendor's label.

    It applies to weights, gradients, optimizer states and activations alone; above 80 % a run may still succeed.
    states_and_activations: bytes, scalar or array (n,). Returns codes.

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> [str(Verdict(int(eighty_percent_verdict(size, LLAMA)))) for size in (60e9, 70e9, 90e9)]
    ['safe', 'at-risk', 'out-of-memory']
    """
    usage = eighty_percent_usage(states_and_activations, inputs)
    code: IntColumn = np.where(
        usage <= EIGHTY_PERCENT, Verdict.SAFE, np.where(usage <= 1, Verdict.AT_RISK, Verdict.OUT_OF_MEMORY)
    )
    return code
