"""Safe: the memory of plans that may be safe by what they hold at least."""

from __future__ import annotations

import numpy as np

from meshwright.cost.footprint import Footprints, footprints_of
from meshwright.cost.memory.fit import Verdict
from meshwright.cost.shapes import pipelines_of
from meshwright.layout.plans import Plans
from meshwright.search.fits.bounds import least_memory
from meshwright.search.fits.forward_bounds import ForwardBounds
from meshwright.specs.inputs import Inputs


def fitting_where_safe(legal: Plans, inputs: Inputs) -> Footprints:
    """The memory of legal plans that fit, and may be safe by their bounds."""
    pipelines, _ = pipelines_of(legal, inputs, keep_all_stages=False)
    rows = np.flatnonzero(~least_memory(pipelines, inputs, Verdict.SAFE).unfit)
    if inputs.runtime.storage.weights != "half" and len(rows):
        own, _ = pipelines.of_plans(rows)
        rows = rows[~ForwardBounds.of(legal.some(rows), own, inputs, Verdict.SAFE).unfit]
    memory = footprints_of(legal.take(rows), inputs)
    return memory.take(memory.verdict < Verdict.OUT_OF_MEMORY)
