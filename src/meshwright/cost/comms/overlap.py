"""Overlap: what compute hides of a communication, and what hiding it costs."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import Floats, Numbers
from meshwright.specs.inputs import Inputs


def exposed_time(time: Floats, window: Floats, share: float, first_chunk: Numbers, inputs: Inputs) -> Floats:
    """Seconds that a communication adds to the step when compute may run beside it.

    T_exposed = min(T, max(T_first, T - h W)), and the compute beside the hidden part is slowed because the collective
    takes n_ctas of the n_SM multiprocessors: T_hidden n_ctas / n_SM more.

    time: T; window: compute W that may run beside it; first_chunk: T_first, the piece that nothing can hide; seconds,
    scalar or array (n,); share: h, 0 (nothing is hidden) to 1. Returns seconds.
    Source: the slow-down law fits the 18.9 % mean slow-down of overlapped compute of arXiv:2507.03114.
    """
    if share == 0:
        return time
    exposed = np.minimum(time, np.maximum(first_chunk, time - share * window))
    accelerator = inputs.cluster.accelerator
    taken = accelerator.kernels.communication_multiprocessors / accelerator.multiprocessors
    return exposed + (time - exposed) * taken
