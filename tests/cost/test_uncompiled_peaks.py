"""Peaks of torchtitan and accelerate without a compiler, and their moments, as PyTorch 2.13 reached them."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from meshwright.cost.memory.timeline import Moment
from meshwright.cost.step import estimate_each
from meshwright.layout.plan import Plan
from meshwright.schedules.records import Schedule
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.choices import ContextExchange, Recompute
from meshwright.specs.reading.model import read_model
from meshwright.units import GIB
from strategies import question


class Peak(NamedTuple):
    """Of one stage, as `meshwright verify` counted it."""

    model: str
    plan: Plan
    stage: int
    allocated: float
    """GiB."""
    moment: Moment
    length: int = 2048
    loss: str = "eager"


GATHERED = {"context_exchange": ContextExchange.ALL_GATHER}
CHUNKS = {"schedule": Schedule.INTERLEAVED, "vpp": 3, "embedding_as_layer": True, "head_as_layer": True}
EXPERTS = Plan(
    tp=2, sp=True, cp=4, ep=4, pp=4, dp=4, zero=3, micro_batch=2, num_microbatches=8, **GATHERED, **CHUNKS
)  # fmt: skip
ONE_GROUP = Plan(cp=2, pp=2, dp=16, zero=3, dp_replicate=2, num_microbatches=2, **GATHERED, **CHUNKS)
FEW_TOKENS = Plan(
    tp=4, sp=True, cp=4, dp=16, zero=3, micro_batch=2, num_microbatches=2, recompute=Recompute.FULL, **GATHERED
)
PEAKS = [
    # Experts that are divided by rows are put together while the last layer of a forward is gathered,
    Peak("mixtral-8x7b", EXPERTS, 3, 23.125, Moment.LAST_LAYER_FORWARD),
    # With more tokens a chunk of three layers works last, beside the one layer of the chunk with the head,
    Peak("mixtral-8x7b", EXPERTS, 3, 37.118, Moment.LAST_LAYER_FORWARD, 8192, "chunked"),
    # or the first layer of a backward, above which all layers have stayed gathered.
    Peak("mixtral-8x7b", EXPERTS, 1, 30.653, Moment.FIRST_LAYER_ALL_GATHER),
    # One chunk after the other: the second backward of the second one, while its first gradients last.
    Peak("llama-3.1-70b", ONE_GROUP, 1, 109.729, Moment.LAST_LAYER_BACKWARD),
    # With few tokens the weights' gradients of a layer outweigh its activations when attention works backward.
    Peak("qwen3-32b", FEW_TOKENS, 0, 3.630, Moment.LAST_LAYER_BACKWARD),
]


@pytest.mark.parametrize("peak", PEAKS)
def test_a_stage_without_a_compiler_peaks_where_pytorch_does(peak: Peak) -> None:
    plan, batch = peak.plan, peak.plan.dp * peak.plan.micro_batch * peak.plan.num_microbatches
    cluster = f"{plan.num_gpus // 8}x8:h100"
    inputs = question(read_model(peak.model), cluster, "torchtitan", sequence_length=peak.length, global_batch=batch)
    inputs = inputs.replace(runtime=with_behaviours(inputs.runtime, ["compiled=false", f"cross_entropy={peak.loss}"]))
    (estimate,) = estimate_each([plan], inputs)
    stage = estimate.stages[peak.stage]
    assert (stage.memory.allocated - stage.memory.workspaces) / GIB == pytest.approx(peak.allocated, rel=0.005)
    assert stage.peak_moment == peak.moment


@pytest.mark.parametrize(
    ("plan", "length", "bytes_allocated", "moment"),
    [
        (Plan(dp=32, zero=3, recompute=Recompute.FULL), 512, 2_808_079_948, Moment.EMBEDDING_GRADIENTS),
        (
            Plan(dp=8, zero=2, num_microbatches=2, recompute=Recompute.FULL),
            256,
            5_620_726_604,
            Moment.LAST_LAYER_BACKWARD,
        ),
    ],
)
def test_a_tied_head_keeps_its_gradient_until_the_embedding_has_one(
    plan: Plan, length: int, bytes_allocated: int, moment: Moment
) -> None:
    """Llama 3.2 1B under accelerate, of few tokens: autograd adds both up in a third tensor; with ZeRO 2 all layers
    but the last one are gathered when its backward is over.
    """
    batch = plan.dp * plan.num_microbatches
    inputs = question(
        read_model("llama-3.2-1b"),
        f"{plan.num_gpus // 8}x8:h100",
        "accelerate",
        sequence_length=length,
        global_batch=batch,
    )
    inputs = inputs.replace(runtime=with_behaviours(inputs.runtime, ["compiled=false"]))
    (estimate,) = estimate_each([plan], inputs)
    allocated = estimate.memory.allocated - estimate.memory.workspaces
    assert allocated == pytest.approx(bytes_allocated, rel=0.003)
    assert estimate.stages[0].peak_moment == moment
