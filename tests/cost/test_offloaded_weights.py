"""Weights, gradients and optimizer states in the host's memory, as CPUOffloadPolicy of fully_shard keeps them."""

from __future__ import annotations

import pytest

from meshwright.answers.host_memory import host_bytes
from meshwright.cost.estimate import Estimate
from meshwright.cost.step import estimate_each
from meshwright.errors import IllegalPlan, InvalidSpec
from meshwright.layout.legality import require_legal
from meshwright.layout.plan import Plan
from meshwright.pytorch.scope import CannotVerify, scope_of
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import Job
from meshwright.specs.read_inputs import read_inputs
from meshwright.specs.runtime import read_runtime
from meshwright.units import GIB

OFFLOADED = "optimizer_states=offloaded"


def asked(*changes: str, model: str = "llama-3.1-8b", gpus: int = 8, batch: int = 8, **job: int) -> Inputs:
    runtime = with_behaviours(read_runtime("accelerate"), changes)
    return read_inputs(model, f"1x{gpus}:h100", Job(sequence_length=4096, global_batch=batch, **job), runtime)


def priced(inputs: Inputs, plan: Plan) -> Estimate:
    return estimate_each([plan], inputs)[0]


def test_a_run_on_one_gpu_is_predicted() -> None:
    """Llama 3.2 3B, measured for Meshwright on one H100 with transformers and CPUOffloadPolicy: 14.04 GiB allocated,
    within 1 %; 1.671 s a step, within 15 %. The host's rate is of this very run's optimizer, which takes 0.621 s of it;
    the other second is predicted.
    """
    inputs = asked(OFFLOADED, model="llama-3.2-3b", gpus=1, batch=2)
    estimate = priced(inputs, Plan(micro_batch=2, zero=3, recompute=Recompute.FULL))
    assert estimate.memory.allocated / GIB == pytest.approx(14.0407, rel=0.01)
    assert estimate.step_time_s == pytest.approx(1.67071, rel=0.15)
    assert estimate.time.optimizer_s == pytest.approx(0.62093, rel=0.01)


@pytest.mark.parametrize("zero", [2, 3])
@pytest.mark.parametrize("micro_batches", [1, 4])
def test_memory_falls_and_the_step_gets_longer(zero: int, micro_batches: int) -> None:
    plan = Plan(dp=8, zero=zero, num_microbatches=micro_batches)
    usual, offloaded = (priced(asked(*each, batch=8 * micro_batches), plan) for each in ((), (OFFLOADED,)))
    assert offloaded.memory.optimizer_states == 0
    assert offloaded.memory.gradients <= usual.memory.gradients
    assert offloaded.memory.allocated < usual.memory.allocated
    assert offloaded.time.optimizer_s > usual.time.optimizer_s
    assert offloaded.time.exposed_dp_s > usual.time.exposed_dp_s
    assert host_bytes(asked(OFFLOADED)) == 16 * 8_030_261_248


def test_the_host_waits_for_gradients_of_further_micro_batches_and_adds_them() -> None:
    once, twice, three = (
        priced(asked(OFFLOADED, batch=8 * count), Plan(dp=8, zero=3, num_microbatches=count)).time.exposed_dp_s
        for count in (1, 2, 3)
    )
    assert twice - once > once
    assert three - twice == pytest.approx(twice - once, rel=1e-6)


def test_adapters_have_no_states_on_the_host() -> None:
    with pytest.raises(InvalidSpec, match="leave out optimizer_states=offloaded"):
        asked(OFFLOADED, lora_rank=16)


def test_replicas_have_no_weights_on_the_host() -> None:
    inputs = asked(OFFLOADED, gpus=1, batch=1)
    require_legal(Plan(zero=3), inputs)
    with pytest.raises(IllegalPlan, match="zero 0 does not go with weights on the host in accelerate; nearest zero: 2"):
        require_legal(Plan(zero=0), inputs)


@pytest.mark.parametrize(
    ("runtime", "value", "what"),
    [
        ("accelerate", "states", "must be everything or nothing: accelerate stores full weights"),
        ("megatron-core", "everything", "must be other than everything: megatron-core stores half weights"),
        ("torchtitan", "everything", "not priced of torchtitan, which has pipelines"),
        ("pytorch-ddp", "everything", "needs host.updated_parameters_per_s"),
    ],
)
def test_other_combinations_are_refused(runtime: str, value: str, what: str) -> None:
    with pytest.raises(InvalidSpec, match=what):
        with_behaviours(read_runtime(runtime), [f"offloaded={value}"])


def test_verify_says_that_a_cpu_has_one_memory() -> None:
    with pytest.raises(CannotVerify, match="a CPU has one memory for both"):
        scope_of(Plan(dp=8, zero=3), asked(OFFLOADED))
