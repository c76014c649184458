"""Optimizer states in 8 bits and in the host's memory: bytes and seconds as the frameworks' code has them."""

from __future__ import annotations

import pytest

from meshwright.cost.compute.optimizer import optimizer_time
from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.states import state_bytes
from meshwright.cost.optimizer_states import device_optimizer_bytes
from meshwright.cost.step import estimate_each
from meshwright.errors import InvalidSpec
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.runtime import read_runtime
from meshwright.specs.switches import narrower_forms
from strategies import llama_8b, question

PARAMETERS = 1_000_000_000


def asked(runtime: str, position: str, cluster: str = "1x8:h100", precision: str = "bf16") -> Inputs:
    """A question at a position of the switch."""
    inputs = question(llama_8b(), cluster, runtime, precision=precision, global_batch=64)
    return inputs.replace(runtime=with_behaviours(read_runtime(runtime), [f"optimizer_states={position}"]))


def priced(inputs: Inputs, zero: int) -> Estimate:
    """Eight replicas that recompute all."""
    return estimate_each([Plan(dp=8, zero=zero, num_microbatches=8, recompute=Recompute.FULL)], inputs)[0]


@pytest.mark.parametrize(
    ("runtime", "position", "per_parameter"),
    [
        ("megatron-core", "fp8", 2 + 1 + 1),  # what fp32 weights have beyond bf16 ones, and one byte a moment
        ("megatron-core", "offloaded", 0),
        ("deepspeed", "offloaded", 0),
        ("accelerate", "8bit", 4 + 2 * (1 + 4 / 256)),  # bitsandbytes and torchao: a scale for each 256 elements
        ("pytorch-ddp", "8bit", 4 + 2 * (1 + 4 / 256)),
    ],
)
def test_bytes_of_a_parameter_on_the_device(runtime: str, position: str, per_parameter: float) -> None:
    assert float(device_optimizer_bytes(Plan(dp=8, zero=1), asked(runtime, position))) == per_parameter


@pytest.mark.parametrize(("zero", "whole"), [(2, 2 + 0.0), (3, 2 / 8)])
def test_deepspeed_keeps_weights_alone_on_the_device(zero: int, whole: float) -> None:
    """Its own estimators: 2 bytes a parameter with ZeRO 2 and offload, 2 / n with ZeRO 3, n ranks."""
    states = state_bytes(Plan(dp=8, zero=zero), asked("deepspeed", "offloaded"), PARAMETERS, layer=0, ends=0, ranks=8)
    assert sum(map(float, states[:3])) == whole * PARAMETERS


def test_gradients_pass_through_a_buffer_of_the_largest_weight() -> None:
    """2 bytes of the head, and of the norm before it, which counts with it."""
    inputs = asked("deepspeed", "offloaded")
    assert priced(inputs, 2).memory.gradients == 2 * (128256 + 1) * 4096


def test_fp8_moments_are_cast_to_fp32_while_the_optimizer_works() -> None:
    """8 bytes a parameter, which the optimizer of bf16 moments does not need."""
    plan = Plan(dp=8, zero=1)
    fp8, bf16 = (
        state_bytes(plan, asked("megatron-core", name), PARAMETERS, layer=0, ends=0, ranks=8)
        for name in ("fp8", "bf16")
    )
    assert float(fp8.updating) == PARAMETERS
    assert not float(bf16.updating)


@pytest.mark.parametrize(
    ("runtime", "cast"),
    [
        ("megatron-bridge", 0),
        ("megatron-bridge@26.04", 0),
        ("megatron-bridge@26.02", 8),
        ("megatron-bridge@25.11", 8),
        ("megatron-core@nemo-25.05", 8),
    ],
)
def test_bf16_moments_were_cast_too_before_transformer_engine_2_13(runtime: str, cast: int) -> None:
    """fuse_unscale of its FusedAdam is of 2.13; NeMo 26.02 has 2.12, and 26.04 2.14. fp32 moments never were."""

    def cast_for(states: str) -> float:
        inputs = asked(runtime, states)
        kept = inputs.replace(runtime=inputs.runtime.replace(casts_moments=()))
        sizes = {"layer": 0, "ends": 0, "ranks": 8}
        told = [state_bytes(Plan(dp=8, zero=1), each, PARAMETERS, **sizes).updating for each in (inputs, kept)]
        return float(told[0]) - float(told[1])

    assert (cast_for("bf16"), cast_for("fp32")) == (cast * PARAMETERS / 8, 0)


@pytest.mark.parametrize(("runtime", "rate"), [("megatron-core", 5.17e9), ("deepspeed", 1.8e9)])
def test_a_node_updates_what_all_its_ranks_own_and_copies_go_both_ways(runtime: str, rate: float) -> None:
    """4 bytes of a gradient there and 2 of a weight back at 55 GB/s, beside the same work on the device."""
    inputs, plan = asked(runtime, "offloaded"), Plan(dp=8, zero=1)
    seconds = float(optimizer_time(plan, inputs, PARAMETERS))
    host = PARAMETERS / rate + PARAMETERS / 8 * 6 / 55e9
    on_device = seconds - host
    assert 0 < on_device < float(optimizer_time(plan, asked(runtime, "fp32"), PARAMETERS))


@pytest.mark.parametrize(
    ("seconds", "parameters"),
    [
        (0.62093, 3_212_749_824)  # one rank of Llama 3.2 3B, whose optimizer was timed beside an H100
    ],
)
def test_the_update_on_the_host_takes_as_long_as_measured(seconds: float, parameters: int) -> None:
    rate = read_runtime("megatron-core").host.updated_parameters_per_s
    assert parameters / rate == pytest.approx(seconds, rel=0.01)


def test_two_nodes_update_half_each() -> None:
    one, two = (asked("megatron-core", "offloaded", nodes) for nodes in ("1x8:h100", "2x8:h100"))
    times = [float(optimizer_time(Plan(dp=8 * n, zero=1), each, PARAMETERS)) for n, each in ((1, one), (2, two))]
    assert times[1] == pytest.approx(times[0] / 2, rel=0.03)


def test_states_on_the_host_are_refused_where_a_framework_has_no_such_thing() -> None:
    for runtime, message in (("torchtitan", "stores full weights"), ("nanotron", "updated_parameters_per_s")):
        with pytest.raises(InvalidSpec, match=message):
            with_behaviours(read_runtime(runtime), ["offloaded=states"])
    with pytest.raises(InvalidSpec, match="nearest: fp8-delayed"):
        asked("megatron-bridge", "offloaded", "1x8:b200", "mxfp8")


def test_no_default_is_narrower_or_on_the_host() -> None:
    """The switch offers them; nobody is given them unasked."""
    offered = {
        name: [change for change, _ in narrower_forms(asked(name, "fp32"))] for name in ("accelerate", "deepspeed")
    }
    assert offered == {
        "accelerate": ["optimizer_states=8bit", "optimizer_states=offloaded"],
        "deepspeed": ["optimizer_states=offloaded"],
    }
    for name in ("accelerate", "deepspeed", "megatron-core", "pytorch-ddp"):
        assert not read_runtime(name).storage.moment_block
        assert read_runtime(name).storage.offloaded == "nothing"
