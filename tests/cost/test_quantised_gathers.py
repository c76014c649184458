"""What tensor-parallel ranks gather along the sequence: the recipe's operands, where the runtime quantises first."""

from __future__ import annotations

import pytest

from meshwright.cost.comms.tensor import layer_tensor_exchanges
from meshwright.cost.compute.elementwise import moved_bytes
from meshwright.cost.compute.layer import layer_time
from meshwright.cost.compute.linear import projections
from meshwright.cost.shard import layer_shard
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.inputs import Inputs
from strategies import dense_model, question

PLAN = Plan(tp=4, sp=True, dp=2)
MXFP8 = 1 + 1 / 32
NVFP4 = 0.5 + 1 / 16


def _asked(precision: str, runtime: str) -> Inputs:
    return question(dense_model(), "1x8:b200", runtime, global_batch=8, precision=precision)


def _bytes(inputs: Inputs, operation: str) -> dict[str, float]:
    kind = inputs.model.layer_kinds[0]
    sums: dict[str, float] = {}
    for exchange in layer_tensor_exchanges(PLAN, inputs, kind, layer_time(PLAN, inputs, kind)):
        for message in exchange.messages:
            if message.operation == operation:
                times = float(exchange.times) * float(message.times)
                sums[exchange.phase] = sums.get(exchange.phase, 0.0) + times * float(message.bytes)
    return sums


@pytest.mark.parametrize(
    ("runtime", "precision", "widths"),
    [
        ("megatron-core", "bf16", (2, 2)),
        ("megatron-core", "fp8", (1, 1)),
        ("megatron-core", "mxfp8", (MXFP8, 2 * MXFP8)),
        ("megatron-core", "nvfp4", (NVFP4, 2 * NVFP4)),
        ("megatron-bridge", "fp8-delayed", (1, 1)),
        ("torchtitan@0.2.2", "fp8", (1, 1)),
        ("torchtitan", "fp8-rowwise", (2, 2)),
        ("torchtitan", "mxfp8", (2, 2)),
        ("nanotron", "bf16", (2, 2)),
    ],
)
def test_ranks_gather_operands_where_the_runtime_quantises_first(
    runtime: str, precision: str, widths: tuple[float, float]
) -> None:
    assert _asked(precision, runtime).sequence_gather_bytes == widths


@pytest.mark.parametrize(("precision", "forward", "backward"), [("fp8", 1, 1), ("nvfp4", NVFP4, 1.5 * NVFP4)])
def test_gathers_shrink_with_the_operands_and_reductions_stay(precision: str, forward: float, backward: float) -> None:
    # Backward gathers as many gradients as inputs: of own columns (2 + 1) / 2 operands on average.
    half, quantised = (_asked(each, "megatron-core") for each in ("bf16", precision))
    before, after = (_bytes(inputs, "all_gather") for inputs in (half, quantised))
    assert after["forward"] == pytest.approx(before["forward"] * forward / 2)
    assert after["backward"] == pytest.approx(before["backward"] * backward / 2)
    assert _bytes(half, "reduce_scatter") == _bytes(quantised, "reduce_scatter")


def test_a_runtime_can_be_told_to_gather_half_precision() -> None:
    inputs = _asked("fp8", "megatron-core")
    runtime = with_behaviours(inputs.runtime, ["quantised_gathers=none"])
    assert inputs.replace(runtime=runtime).sequence_gather_bytes == (2, 2)


@pytest.mark.parametrize(
    ("precision", "cluster", "change"),
    [
        # A quarter of the rows: read in 2 bytes, once or twice, and written; then every row transposed, or nothing.
        ("fp8-delayed", "1x8:h100", (2 + 1) / 4 + 2 - 4),
        ("fp8", "1x8:h100", (4 + 1) / 4 + 2 - 6),
        ("fp8", "1x8:b200", (4 + 1) / 4 - 5),
        ("mxfp8", "1x8:b200", (2 + 2 * MXFP8) / 4 - (2 + 2 * MXFP8)),
    ],
)
def test_ranks_quantise_their_share_alone_of_what_they_gather(precision: str, cluster: str, change: float) -> None:
    model = dense_model()
    (kind,) = model.layer_kinds
    moved = []
    for gathers in ("none", "all"):
        inputs = question(model, cluster, global_batch=8, precision=precision)
        inputs = inputs.replace(runtime=with_behaviours(inputs.runtime, [f"quantised_gathers={gathers}"]))
        shard = layer_shard(PLAN, inputs, kind)
        moved.append(moved_bytes(PLAN, inputs, kind, shard, projections(inputs, kind, shard)))
    half, quantised = moved
    # One input and one gradient of the hidden size on every token, of each block.
    elements = 4096 * model.hidden_size
    for after, before in zip(quantised, half, strict=True):
        assert after.forward - before.forward == pytest.approx(change * elements)
        assert after.backward - before.backward == pytest.approx(change * elements)


@pytest.mark.parametrize(
    ("precision", "runtime", "gathered"),
    [
        ("bf16", "torchtitan@0.2.2", 0.5),
        ("fp8", "torchtitan@0.2.2", 0.5),
        ("fp8-rowwise", "torchtitan@0.2.2", 0),
        ("mxfp8", "torchtitan", 0),
        ("mxfp8", "megatron-core", 0.5),
    ],
)
def test_no_product_hides_a_gather_of_what_is_quantised_behind_it(
    precision: str, runtime: str, gathered: float
) -> None:
    inputs = _asked(precision, runtime)
    inputs = inputs.replace(runtime=with_behaviours(inputs.runtime, ["overlap.tensor_parallel=0.5"]))
    kind = inputs.model.layer_kinds[0]
    hidden = {"all_gather": 0.0, "reduce_scatter": 0.0}
    for exchange in layer_tensor_exchanges(PLAN, inputs, kind, layer_time(PLAN, inputs, kind)):
        for message in exchange.messages:
            if exchange.phase == "forward" and message.times and message.operation in hidden:
                hidden[message.operation] = max(hidden[message.operation], float(exchange.share))
    assert hidden == {"all_gather": gathered, "reduce_scatter": 0.5}
