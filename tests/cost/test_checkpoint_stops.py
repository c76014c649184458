"""Where a checkpointed layer's second forward pass ends."""

from __future__ import annotations

import pytest

from meshwright.cost.compute.layer import layer_time
from meshwright.cost.compute.linear import linear_time
from meshwright.cost.compute.slowdown import slowdown
from meshwright.layout.plan import Plan
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
