"""The loss of Liger, which is fused with the head: no logits of whole sequences, the head's gradients in forward."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.cost.compute.ends import head_time
from meshwright.cost.estimate import Estimate
from meshwright.cost.loss_pieces import loss_pieces
from meshwright.cost.memory.ends import head_memory
from meshwright.cost.memory.saved import Saved
from meshwright.cost.memory.working import working_bytes
from meshwright.cost.shard import layer_shard
from meshwright.cost.step import estimate_each
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import Job
from meshwright.specs.precision import FP32_BYTES, HALF_BYTES
from meshwright.specs.reading.inputs import read_inputs

RUNTIMES = {"accelerate": 3, "pytorch-fsdp1": 3, "deepspeed": 3, "pytorch-ddp": 0}
"""Each with a stage of ZeRO that it has."""
VOCABULARY, HIDDEN = 128256, 4096


def asked(runtime: str, length: int = 4096, lora_rank: int = 0, liger: str = "on") -> Inputs:
    job = Job(sequence_length=length, global_batch=64, lora_rank=lora_rank)
    inputs = read_inputs("llama-3.1-8b", "1x8:h100", job, runtime)
    return inputs.replace(runtime=with_behaviours(inputs.runtime, [f"liger={liger}"]))


def priced(runtime: str, micro_batch: int = 1, recompute: str = "full", **options: str | int) -> Estimate:
    plan = Plan(dp=8, zero=RUNTIMES[runtime], micro_batch=micro_batch, recompute=recompute)  # type: ignore[arg-type]
    return estimate_each([plan], asked(runtime, **options))[0]  # type: ignore[arg-type]


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_logits_stay_as_small_as_the_hidden_state(runtime: str) -> None:
    """A piece of 4096 tokens is at most twice the hidden state in 2 bytes, whatever the length of a sequence."""
    inputs, plan = asked(runtime, length=65536), Plan()
    rows = 65536
    gradient = FP32_BYTES if runtime == "pytorch-ddp" else 2 * HALF_BYTES + FP32_BYTES
    head = head_memory(plan, inputs)
    logits = float(head.working) - gradient * VOCABULARY * HIDDEN
    assert 0 < logits <= 2 * HALF_BYTES * rows * HIDDEN
    assert float(head.output) == 0
    assert 16 <= float(loss_pieces(plan, inputs)) <= 32


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_frozen_head_has_no_gradient(runtime: str) -> None:
    if not asked(runtime).runtime.plans.adapters:
        pytest.skip("has no adapters")
    plan, inputs = Plan(), asked(runtime, lora_rank=16)
    assert float(head_memory(plan, inputs).working) <= 2 * HALF_BYTES * 4096 * HIDDEN
    whole = head_time(plan, asked(runtime)).forward
    assert float(head_time(plan, inputs).forward.gemm) == pytest.approx(float(whole.gemm) * 2 / 3, rel=0.05)


@given(
    runtime=st.sampled_from(sorted(RUNTIMES)),
    length=st.sampled_from([256, 4096, 16384, 65536]),
    micro_batch=st.sampled_from([1, 2, 8]),
    recompute=st.sampled_from(["none", "full"]),
)
def test_it_never_needs_more_where_logits_are_larger_than_the_head(
    runtime: str, length: int, micro_batch: int, recompute: str
) -> None:
    with_liger, without = (
        priced(runtime, micro_batch, recompute, length=length, liger=liger).memory for liger in ("on", "off")
    )
    assert with_liger.allocated <= without.allocated or length * micro_batch < 2 * HIDDEN


def test_short_batches_pay_for_the_sums_of_the_head_s_gradient() -> None:
    """Each of some 32 pieces adds a product of all of the head's weights in fp32, however few tokens it has."""
    few, many = (head_time(Plan(), asked("accelerate", length=length)).forward for length in (256, 2048))
    assert float(few.elementwise) > 0.9 * float(many.elementwise)
    assert float(few.elementwise) > 0.02


def test_steps_of_long_sequences_are_faster_and_hold_less() -> None:
    with_liger, without = (priced("accelerate", 4, length=16384, liger=liger) for liger in ("on", "off"))
    assert with_liger.step_time_s < 0.9 * without.step_time_s
    assert with_liger.memory.reserved < 0.4 * without.memory.reserved


@pytest.mark.parametrize(("runtime", "freed"), [("accelerate", 1), ("deepspeed", 2)])
def test_gradients_of_gate_and_up_take_their_place_in_liger(runtime: str, freed: int) -> None:
    """Where weights have 2-byte gradients of their own one element of the FFN is left, the product's gradient."""
    inputs, plan = asked(runtime, length=16384), Plan(zero=3, dp=8, recompute=Recompute.FULL)
    apart = inputs.replace(
        runtime=with_behaviours(inputs.runtime, ["elementwise_kernels.liger.gated_gradients_in_place=false"])
    )
    kind, saved = inputs.model.layer_kinds[0], Saved(*(0.0 for _ in Saved._fields))._replace(feed_forward=1e12)
    shard = layer_shard(plan, inputs, kind)
    alone, beside = (working_bytes(plan, each, kind, shard, saved, 0.0) for each in (inputs, apart))
    assert beside - alone == freed * HALF_BYTES * 16384 * shard.ffn
