"""Copies that pad the rows of experts to what quantised products take."""

from __future__ import annotations

import pytest

from meshwright.cost.compute.experts import expert_shard, expert_time
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.reading.model import read_model
from strategies import question


def moved(precision: str, *changes: str, **job: float) -> tuple[float, float]:
    """Bytes of both passes around the products of experts, for one element of the routed rows."""
    inputs = question(read_model("qwen3-235b-a22b"), "1x8:b200", precision=precision, **job)
    inputs = inputs.replace(runtime=with_behaviours(inputs.runtime, changes))
    plan, kind = Plan(dp=8, ep=8), inputs.model.layer_kinds[0]
    elements = inputs.model.hidden_size * expert_shard(plan, inputs, kind).rows
    time = expert_time(plan, inputs, kind)
    return time.forward.experts.moved_bytes / elements, time.backward.experts.moved_bytes / elements


@pytest.mark.parametrize("precision", ["fp8", "mxfp8"])
def test_rows_are_copied_before_and_behind_quantised_products(precision: str) -> None:
    """A read and a write of 2 bytes each, twice a pass: Transformer Engine, pytorch/module/fp8_padding.py."""
    padded, whole = moved(precision), moved(precision, "pads_quantised_rows=false")
    assert (padded[0] - whole[0], padded[1] - whole[1]) == pytest.approx((8, 8))


@pytest.mark.parametrize(
    ("precision", "changes", "job"),
    [
        ("bf16", (), {}),
        ("mxfp8", ("dispatcher=fused", "fused_kernels=hybrid_ep"), {}),
        ("mxfp8", ("fused_experts=on",), {}),
        ("mxfp8", (), {"expert_capacity": 1.0}),
    ],
)
def test_rows_that_need_no_padding_are_not_copied(
    precision: str, changes: tuple[str, ...], job: dict[str, float]
) -> None:
    assert moved(precision, *changes, **job) == moved(precision, *changes, "pads_quantised_rows=false", **job)


def test_deep_ep_pads_none() -> None:
    deep_ep = ("dispatcher=fused", "fused_kernels=deep_ep")
    assert moved("mxfp8", *deep_ep)[0] - moved("mxfp8", *deep_ep, "pads_quantised_rows=false")[0] == pytest.approx(8)
