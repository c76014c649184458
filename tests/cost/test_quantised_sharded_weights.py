"""Weights that products quantise: in both passes of every micro-batch, unless they are gathered in 8 bits."""

from __future__ import annotations

import pytest

from meshwright.cost.comms.data import shard_messages
from meshwright.cost.comms.sharded import gather_copies_time, gathers_per_step
from meshwright.cost.compute.layer import layer_time
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.inputs import Inputs
from meshwright.specs.quantised_weights import quantising_weights
from strategies import llama_8b, question

RUNTIME = "torchtitan@0.2.2"
GATHERED = 'quantised_weight_gathers=["fp8"]'
LAYER = (4096 * 4096, 4096 * 1024, 4096 * 1024, 4096 * 4096, 4096 * 14336, 4096 * 14336, 14336 * 4096)
"""Weights of queries, keys, values, output, gate, up and down."""


def _asked(precision: str, *behaviours: str, cluster: str = "1x8:h100", runtime: str = RUNTIME) -> Inputs:
    inputs = question(llama_8b(), cluster, runtime, sequence_length=4096, global_batch=8, precision=precision)
    return inputs.replace(runtime=with_behaviours(inputs.runtime, behaviours))


@pytest.mark.parametrize(
    ("precision", "cluster", "behaviours", "passes"),
    [
        # Read for the maximum and again to cast, which writes; backward read and written once more.
        ("fp8", "1x8:h100", [], (2 + 2 + 1, 2 + 1)),
        ("fp8", "1x8:b200", [], (2 + 2 + 1, 2 + 1)),
        ("fp8-rowwise", "1x8:h100", [], (2 + 1, 2 + 1)),
        ("mxfp8", "1x8:b200", [], (2 + 1.03125, 2 + 1.03125)),
        ("fp8", "1x8:h100", [GATHERED], (0, 1 + 1)),
        ("fp8", "1x8:b200", [GATHERED], (0, 0)),
        ("bf16", "1x8:h100", [], (0, 0)),
    ],
)
def test_bytes_of_quantising_a_weight(
    precision: str, cluster: str, behaviours: list[str], passes: tuple[float, float]
) -> None:
    each = quantising_weights(_asked(precision, *behaviours, cluster=cluster))
    assert (each.forward, each.backward) == passes


def test_megatron_quantises_weights_once_a_step() -> None:
    each = quantising_weights(_asked("fp8", runtime="megatron-core"))
    assert (each.forward, each.backward) == (0, 0)


@pytest.mark.parametrize(
    ("recompute", "again"),
    [
        ("none", []),
        # Without the last product, which a checkpoint that stops early does not compute again.
        ("full", LAYER[:-1]),
        # Keys, output and up: of the products in order every second one is kept.
        ("selective", [LAYER[1], LAYER[3], LAYER[5]]),
    ],
)
def test_weights_of_products_that_run_are_quantised(recompute: str, again: list[int]) -> None:
    inputs = _asked("fp8")
    once = inputs.replace(runtime=with_behaviours(inputs.runtime, ["quantises_apart=false"]))
    plan, kind = Plan(dp=8, zero=3, recompute=recompute), inputs.model.layer_kinds[0]
    each, less = (layer_time(plan, asked, kind) for asked in (inputs, once))
    for parts, without, moved in (
        (each.forward_parts, less.forward_parts, 5 * sum(LAYER)),
        (each.backward_parts, less.backward_parts, 3 * sum(LAYER)),
        (each.recompute_parts, less.recompute_parts, 5 * sum(again)),
    ):
        blocks = [(parts.attention, without.attention), (parts.feed_forward, without.feed_forward)]
        assert sum(float(one.moved_bytes - other.moved_bytes) for one, other in blocks) == pytest.approx(moved)


def test_weights_that_are_quantised_first_are_gathered_and_copied_in_half_the_bytes() -> None:
    plan, half, quantised = Plan(dp=8, zero=3), _asked("fp8"), _asked("fp8", GATHERED)
    (before,), (after,) = (shard_messages(plan, asked, 1e9, ends=2e8).gather for asked in (half, quantised))
    assert (float(before.bytes), float(after.bytes)) == (2e9, 0.8e9 + 2 * 0.2e9)
    times = gathers_per_step(plan, half, in_flight=1, stage=0)
    copies = [float(gather_copies_time(half, 1e9, 0.0, 0.0, times, width)) for width in (2, 1)]
    assert copies[0] == pytest.approx(2 * copies[1])
