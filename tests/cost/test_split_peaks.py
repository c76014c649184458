"""Split backward passes: how long gradients of what a stage has received stay, and a loss that is fullest forward.

torch 2.13, distributed/pipelining/_backward.py, stage_backward_input, puts them into `.grad` of the stage's input. That
is the buffer itself, which stands for the step, or a DTensor over it, which stage.py, _retrieve_recv_activations, makes
for each micro-batch where stages work on DTensors.
"""

from __future__ import annotations

import pytest

from meshwright.cost.memory.timeline import Moment
from meshwright.cost.step import estimate_each
from meshwright.layout.plan import Plan
from meshwright.schedules.records import Schedule
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.reading.model import read_model
from strategies import llama_8b, question

LENGTH, STAGE = 4096, 1
CHUNKS, FEW, MANY = 2, 16, 24
MESSAGE = 2 * LENGTH * 4096


def _peak(runtime: str, micro_batches: int, **fields: int) -> float:
    plan = Plan(
        pp=2,
        vpp=CHUNKS,
        zero=2,
        num_microbatches=micro_batches,
        schedule=Schedule.INTERLEAVED_ZERO_BUBBLE,
        **{"dp": 8 // fields.get("tp", 1)} | fields,
    )
    batch = plan.dp * micro_batches
    inputs = question(llama_8b(), "2x8:h100", runtime, sequence_length=LENGTH, global_batch=batch)
    (estimate,) = estimate_each([plan], inputs.replace(runtime=inputs.runtime.replace(keeps_outputs=False)))
    return float(estimate.stages[STAGE].memory.allocated)


@pytest.mark.parametrize(
    ("runtime", "tp", "kept"),
    [("torchtitan", 4, 0), ("torchtitan", 1, CHUNKS), ("torchtitan@0.2.2", 4, CHUNKS), ("torchtitan@0.1.0", 1, CHUNKS)],
)
def test_more_micro_batches_take_their_buffers_and_input_gradients_that_lie_in_them(
    runtime: str, tp: int, kept: int
) -> None:
    """The last stage receives two inputs and the gradient of one output."""
    buffers = 2 * CHUNKS - 1
    more = _peak(runtime, MANY, tp=tp) - _peak(runtime, FEW, tp=tp)
    assert more == pytest.approx((buffers + kept) * (MANY - FEW) * MESSAGE)


def test_the_loss_works_forward_with_the_most_in_flight_where_other_chunks_go_backward_before_its_own() -> None:
    """What `meshwright verify` counted of PyTorch 2.13 on torchtitan's own model."""
    plan = Plan(tp=8, pp=2, vpp=2, dp=16, zero=2, num_microbatches=4, schedule=Schedule.DUALPIPE_V)
    inputs = question(read_model("qwen3-32b"), "32x8:h100", "torchtitan", sequence_length=LENGTH, global_batch=64)
    uncompiled = with_behaviours(inputs.runtime, ("compiled=false", "cross_entropy=eager"))
    first = estimate_each([plan], inputs.replace(runtime=uncompiled))[0].stages[0]
    assert first.memory.allocated - first.memory.workspaces == pytest.approx(36.3945e9, rel=1e-4)
    assert first.peak_moment == Moment.LOSS_FORWARD
