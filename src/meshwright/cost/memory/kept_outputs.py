"""Kept outputs: the logits of a step's micro-batches, which a pipeline may keep for its caller until the step ends."""

from __future__ import annotations

import numpy as np

from meshwright.cost.memory.timeline import MemoryTimeline, Moment
from meshwright.cost.memory.unit_step import UnitStep

BESIDE = "outputs of other micro-batches"


def kept_outputs(line: MemoryTimeline, step: UnitStep) -> None:
    """From now on the last stage keeps what it has put out of the micro-batches that are not in flight.

    line: of a pipeline's step; step: of every stage, bytes. Source: torch 2.13, distributed/pipelining/stage.py
    (forward_one_chunk: `if save_forward_output: self.output_chunks.append(output)`), schedules.py (step:
    return_outputs, which is true unless told otherwise).
    """
    line.allocate("logits", BESIDE, step.in_flight.outputs_beside)


def joined_outputs(line: MemoryTimeline, step: UnitStep) -> None:
    """The step's outputs are joined, when backward is done: all of them stand twice, beside the reduced gradients.

    line, step: as of `kept_outputs`. Source: torch 2.13, distributed/pipelining/schedules.py, step (_merge_outputs),
    microbatch.py, merge_chunks (torch.cat).
    """
    every = step.in_flight.outputs
    line.free_all()
    line.allocate("activations", "saved for backward", step.in_flight.standing)
    line.allocate("gradients", "of the step", step.weight_bytes * step.stored.all)
    line.allocate("logits", BESIDE, 2 * every)
    line.at(Moment.GRADIENT_REDUCTION, np.greater(every, 0))
