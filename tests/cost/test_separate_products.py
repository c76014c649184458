"""Queries, keys and values, gate and up: one product each, or one together, as the runtime has them."""

from __future__ import annotations

import pytest

from meshwright.cost.compute.layer import layer_time
from meshwright.cost.compute.linear import linear_time, projections, runtime_products
from meshwright.cost.compute.slowdown import slowdown
from meshwright.cost.shard import layer_shard
from meshwright.layout.plan import Plan
from meshwright.specs.inputs import Inputs
from strategies import latent, llama_8b, question


def with_fusion(*, fused: bool, runtime: str = "torchtitan") -> Inputs:
    inputs = question(llama_8b(), "1x8:h100", runtime, sequence_length=8192)
    return inputs.replace(runtime=inputs.runtime.replace(fused_projections=fused, fused_gate=fused))


@pytest.mark.parametrize("tp", [1, 2, 8])
def test_products_apart_have_the_widths_of_the_model(tp: int) -> None:
    """Llama 3.1 8B: 4096 and twice 1024 outputs, and twice 14336."""
    inputs = with_fusion(fused=False)
    (kind,) = inputs.model.layer_kinds
    shard = layer_shard(Plan(tp=tp), inputs, kind)
    apart, joined = runtime_products(inputs, kind, shard), projections(inputs, kind, shard)
    assert [each.outputs * tp for each in apart.attention] == [4096, 1024, 1024]
    assert [each.outputs * tp for each in apart.feed_forward[:2]] == [14336, 14336]
    assert runtime_products(with_fusion(fused=True), kind, shard) == joined
    assert sum(each.outputs for each in apart.attention) == joined.attention[0].outputs


@pytest.mark.parametrize("tp", [1, 8])
def test_a_layer_takes_as_long_as_its_products_one_by_one(tp: int) -> None:
    apart, fused = with_fusion(fused=False), with_fusion(fused=True)
    (kind,), plan = apart.model.layer_kinds, Plan(tp=tp, dp=8 // tp)
    rows = 8192
    one_by_one = sum(
        float(linear_time(rows, outputs / tp, 4096, apart).forward) for outputs in (4096, 1024, 1024, 14336, 14336)
    )
    together = sum(float(linear_time(rows, outputs / tp, 4096, fused).forward) for outputs in (6144, 28672))
    longer = float(layer_time(plan, apart, kind).forward.gemm) - float(layer_time(plan, fused, kind).forward.gemm)
    assert longer == pytest.approx(slowdown(apart) * (one_by_one - together))
    assert longer > 0


def test_keys_of_one_head_are_far_from_the_pace_of_a_whole_product() -> None:
    """torchtitan issue 1207: keys and values of tensor parallelism are too narrow to gain from 8 bits."""
    inputs = with_fusion(fused=False)
    narrow, whole = (float(linear_time(98304, outputs, 4096, inputs).forward) / outputs for outputs in (128, 768))
    assert narrow > 1.3 * whole


def test_latent_attention_has_the_products_that_it_compresses_with() -> None:
    inputs = question(latent(), "1x8:h100", "torchtitan")
    kind = inputs.model.layer_kinds[0]
    shard = layer_shard(Plan(), inputs, kind)
    assert runtime_products(inputs, kind, shard).attention == projections(inputs, kind, shard).attention
