"""Steps of a pipeline under fully_shard: peaks that PyTorch 2.13 reached on fake tensors, and their moments, with one
root unit for both ends.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest

from meshwright.cost.memory.timeline import Moment
from meshwright.cost.step import estimate_each
from meshwright.layout.plan import Plan
from meshwright.schedules.records import Schedule
from meshwright.specs.choices import ContextExchange, Recompute
from meshwright.specs.reading.model import read_model
from meshwright.units import GIB
from strategies import of_torchtitan_0_1, question


class Peak(NamedTuple):
    """Of one stage, as `meshwright verify` counted it."""

    model: str
    plan: Plan
    length: int
    stage: int
    allocated: float
    """GiB."""
    moment: Moment
    repeats_keys: bool = False


QWEN = Plan(
    tp=4, sp=True, cp=4, context_exchange=ContextExchange.ALL_GATHER, pp=2, vpp=2, dp=4, zero=2, micro_batch=2,
    num_microbatches=2, schedule=Schedule.ZERO_BUBBLE_V, embedding_as_layer=True, head_as_layer=True,
)  # fmt: skip
EXPERTS = Plan(
    pp=2, vpp=3, dp=8, zero=2, dp_replicate=2, micro_batch=2, num_microbatches=2,
    schedule=Schedule.INTERLEAVED_ZERO_BUBBLE, embedding_as_layer=True, head_as_layer=True,
)  # fmt: skip
ROWS = Plan(
    cp=4, context_exchange=ContextExchange.ALL_GATHER, pp=4, dp=16, zero=3, num_microbatches=4, recompute=Recompute.FULL
)
ONE = Plan(
    pp=2, vpp=3, dp=8, zero=2, num_microbatches=1, schedule=Schedule.INTERLEAVED, embedding_as_layer=True,
    head_as_layer=True,
)  # fmt: skip
ONE_FULL = replace(ONE, recompute=Recompute.FULL)
GROUP = Plan(
    cp=2, pp=2, vpp=4, dp=16, zero=2, dp_replicate=2, num_microbatches=2, schedule=Schedule.INTERLEAVED,
    recompute=Recompute.FULL,
)  # fmt: skip
RING = Plan(
    cp=4, pp=2, vpp=4, dp=16, zero=3, micro_batch=2, num_microbatches=2, schedule=Schedule.INTERLEAVED,
    embedding_as_layer=True, head_as_layer=True,
)  # fmt: skip
THREE = replace(RING, vpp=3, dp=8, ep=4, recompute=Recompute.FULL)
PEAKS = [
    # Two micro-batches: a chunk adds up its gradients while it keeps what both saved.
    Peak("qwen3-32b", QWEN, 4096, 0, 29.479, Moment.SECOND_LAYER_BACKWARD),
    Peak("qwen3-32b", QWEN, 4096, 1, 29.698, Moment.WEIGHT_GRADIENTS),
    Peak("qwen3-30b-a3b", EXPERTS, 2048, 0, 126.730, Moment.WEIGHT_GRADIENTS),
    Peak("qwen3-30b-a3b", EXPERTS, 2048, 1, 119.049, Moment.LOSS_BACKWARD),
    # Experts that are divided by rows: the embedding is reduced, then a layer, one product of which stays.
    Peak("mixtral-8x7b", ROWS, 2048, 0, 71.414, Moment.GRADIENT_REDUCTION),
    # One micro-batch: the first chunk is reduced while all others are in flight.
    Peak("llama-3.1-8b", ONE, 2048, 0, 21.192, Moment.GRADIENT_REDUCTION),
    Peak("llama-3.1-8b", ONE, 2048, 1, 23.719, Moment.EMBEDDING_GRADIENTS),
    Peak("llama-3.1-8b", ONE_FULL, 2048, 0, 17.838, Moment.GRADIENT_REDUCTION),
    Peak("llama-3.1-8b", ONE_FULL, 2048, 1, 20.060, Moment.EMBEDDING_GRADIENTS),
    Peak("llama-3.1-8b", replace(ONE, zero=3), 2048, 1, 18.844, Moment.EMBEDDING_GRADIENTS),
    # Its last chunk with the shards of all others.
    Peak("llama-3.1-8b", replace(ONE_FULL, zero=3), 2048, 0, 17.073, Moment.GRADIENT_REDUCTION),
    Peak("llama-3.1-8b", replace(ONE_FULL, zero=3), 2048, 1, 15.185, Moment.EMBEDDING_GRADIENTS),
    # Four chunks: the first one is gathered, with the embedding, once the last one has been resharded.
    Peak("llama-3.1-8b", GROUP, 4096, 0, 13.276, Moment.LAST_LAYER_BACKWARD),
    # Chunks without the head, which was resharded and reduced with its own.
    Peak("mixtral-8x7b", THREE, 4096, 1, 24.551, Moment.LAST_LAYER_BACKWARD),
    # Layers stay gathered as backward goes through a chunk.
    Peak("llama-3.1-70b", RING, 8192, 1, 153.072, Moment.SECOND_LAYER_BACKWARD, repeats_keys=True),
]


@pytest.mark.parametrize("peak", PEAKS)
def test_a_stage_peaks_where_pytorch_does(peak: Peak) -> None:
    plan, batch = peak.plan, peak.plan.dp * peak.plan.micro_batch * peak.plan.num_microbatches
    cluster = f"{plan.num_gpus // 8}x8:h100"
    inputs = question(read_model(peak.model), cluster, "torchtitan", sequence_length=peak.length, global_batch=batch)
    runtime = {"elementwise": "eager", "repeats_keys": peak.repeats_keys}
    (estimate,) = estimate_each([plan], of_torchtitan_0_1(inputs, **runtime))
    stage = estimate.stages[peak.stage]
    assert (stage.memory.allocated - stage.memory.workspaces) / GIB == pytest.approx(peak.allocated, rel=0.003)
    assert stage.peak_moment == peak.moment
