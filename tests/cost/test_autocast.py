"""What torch.autocast costs in time: casts of weights, and activations of 4 bytes between layers."""

import pytest

from meshwright.cost.compute.elementwise import elementwise_time
from meshwright.cost.compute.ends import head_time
from meshwright.cost.compute.layer import layer_time
from meshwright.cost.compute.slowdown import slowdown
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import with_behaviours
from strategies import llama_8b, question


def test_every_weight_of_a_product_is_cast_and_its_gradient_cast_back() -> None:
    """4 bytes read and 2 written, or the other way round; the embedding is no product."""
    inputs = question(llama_8b(), "1x8:h100", "pytorch-ddp", global_batch=8, sequence_length=512)
    kind, plan = inputs.model.layer_kinds[0], Plan(dp=8, zero=0)
    storage = inputs.runtime.storage
    kernels = inputs.runtime.kernels.replace(elementwise="transformers-autocast")
    plain = inputs.replace(runtime=inputs.runtime.replace(storage=storage.replace(autocast=False), kernels=kernels))
    of_layer = 4096 * (2 * 4096 + 2 * 1024) + 3 * 4096 * 14336
    for weights, price in (
        (of_layer, lambda asked: layer_time(plan, asked, kind)),
        (4096 * 128256, lambda asked: head_time(plan, asked)),
    ):
        expected = slowdown(inputs) * elementwise_time(6.0 * weights, inputs.cluster.accelerator)
        for way in ("forward", "backward"):
            cast, without = (getattr(price(each), way).elementwise for each in (inputs, plain))
            assert cast - without == pytest.approx(expected)


def test_activations_between_layers_take_twice_the_time_and_more() -> None:
    """Sums of the residual stream in 4 bytes, and a cast for every product that reads a norm."""
    inputs = question(llama_8b(), "1x8:h100", "pytorch-ddp")
    kernels = inputs.runtime.elementwise_kernels
    half, whole = kernels["transformers"], kernels["transformers-autocast"]
    assert whole.residual.forward == pytest.approx(half.residual.forward * 10 / 6, rel=0.01)
    assert whole.summed_gradient > half.summed_gradient
    assert whole.gated_activation == half.gated_activation


def test_kernels_of_liger_cast_under_autocast_what_they_read() -> None:
    """Norms work on the fp32 residual; rotary positions and activations on the 2 bytes that products put out."""
    runtime = with_behaviours(question(llama_8b(), "1x8:h100", "pytorch-ddp").runtime, ["liger=on"])
    half = with_behaviours(runtime, ["training_dtype=bf16"])
    tables = runtime.elementwise_kernels
    assert (runtime.elementwise_bytes, half.elementwise_bytes) == (tables["liger-autocast"], tables["liger"])
    assert half.elementwise_bytes.rms_norm.forward == 4 < runtime.elementwise_bytes.rms_norm.forward
    assert half.elementwise_bytes.rotary == runtime.elementwise_bytes.rotary
