"""Where a checkpointed layer's second forward pass ends."""

from __future__ import annotations

import pytest

from meshwright.cost.comms.experts import RESULTS, expert_exchanges
from meshwright.cost.compute.layer import layer_time
from meshwright.cost.compute.linear import linear_time
from meshwright.cost.compute.slowdown import slowdown
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.job import Job
from meshwright.specs.reading.inputs import read_inputs

JOB = Job(sequence_length=4096, global_batch=64)


STOPS = {"pytorch-fsdp1": True, "torchtitan": True, "megatron-core": False, "internevo": False}


@pytest.mark.parametrize(("runtime", "stops"), STOPS.items())
def test_a_checkpoint_that_stops_early_runs_no_last_product(runtime: str, stops: bool) -> None:
    inputs = read_inputs("llama-2-7b", "1x8:a100", JOB, runtime)
    layer = layer_time(Plan(dp=8, recompute="full"), inputs, inputs.model.layer_kinds[0])
    down = linear_time(4096, 4096, 11008, inputs).forward * slowdown(inputs)
    left_out = layer.forward.gemm - layer.recompute.gemm
    assert left_out == pytest.approx(down if stops else 0.0)
    assert layer.recompute.attention == layer.forward.attention
    assert (layer.recompute.elementwise < layer.forward.elementwise) == stops


@pytest.mark.parametrize("dispatcher", ["all_to_all", "fused"])
@pytest.mark.parametrize(("repeated", "brought_back"), [("all", True), ("exchange", True), ("none", False)])
def test_a_checkpoint_that_stops_before_the_combine_sends_no_results_again(
    dispatcher: str, repeated: str, brought_back: bool
) -> None:
    inputs = read_inputs("mixtral-8x7b", "1x8:h100", JOB, "torchtitan")
    behaviours = [f"dispatcher={dispatcher}", f"recomputes_combine={repeated}"]
    inputs = inputs.replace(runtime=with_behaviours(inputs.runtime, behaviours))
    plan, kind = Plan(dp=8, ep=8, zero=3, recompute="full"), inputs.model.layer_kinds[0]
    layer = layer_time(plan, inputs, kind)
    forward, again, _ = expert_exchanges(plan, inputs, kind, layer)
    kept = [each for each in forward.messages if brought_back or each.content != RESULTS]
    assert list(again.messages) == kept
    assert (again.seconds < forward.seconds) == (not brought_back)
    weighed = layer.recompute_parts.routed.unpermute.work.total
    assert (weighed > 0) == (repeated == "all")


def test_pytorch_runs_no_last_product_again() -> None:
    torch = pytest.importorskip("torch")
    checkpoint = pytest.importorskip("torch.utils.checkpoint").checkpoint
    dispatch = pytest.importorskip("torch.utils._python_dispatch")
    up, down, seen = torch.nn.Linear(16, 64), torch.nn.Linear(64, 16), list[str]()

    class Count(dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), named=None):  # type: ignore[no-untyped-def]
            seen.append(function.overloadpacket.__name__)
            return function(*arguments, **(named or {}))

    inputs = torch.randn(4, 16, requires_grad=True)
    output = checkpoint(lambda x: x + down(torch.relu(up(x))), inputs, use_reentrant=False)
    with Count():
        output.sum().backward()
    # Two products for each of four gradients, and of the forward pass the first alone.
    assert sum(name in ("mm", "addmm") for name in seen) == 5
