"""Activations that wait in the host's memory: bytes and seconds by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.answers.basis.assumptions import assumptions
from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.activations import layer_memory
from meshwright.cost.offloaded_layers import copied_time, offloaded_share
from meshwright.cost.step import estimate_each
from meshwright.cost.unit import layer_unit_time
from meshwright.errors import InvalidSpec
from meshwright.layout.plan import Plan
from meshwright.pytorch.scope import CannotVerify, scope_of
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import Job
from strategies import llama_8b, question

PLAN = Plan(dp=8, zero=1, micro_batch=2, num_microbatches=4)
COPY = 55e9
"""Bytes a second over PCIe 5.0, as the catalogue has them of an H100."""


def offloading(layers: int, runtime: str = "megatron-core", cluster: str = "1x8:h100") -> Inputs:
    """A question about Llama 3.1 8B with the activations of so many of its 32 layers on the host."""
    asked = question(llama_8b(), cluster, runtime, global_batch=64, precision="bf16", sequence_length=8192)
    return asked.replace(runtime=with_behaviours(asked.runtime, [f"offloaded_layers={layers}"]))


def priced(inputs: Inputs, plan: Plan = PLAN) -> Estimate:
    return estimate_each([plan], inputs)[0]


@pytest.mark.parametrize(("layers", "share"), [(0, 0), (8, 0.25), (31, 31 / 32)])
def test_the_share_of_layers_goes_to_the_host(layers: int, share: float) -> None:
    inputs = offloading(layers)
    kind = inputs.model.layer_kinds[0]
    assert offloaded_share(inputs) == share
    assert copied_time(PLAN, inputs, kind) == pytest.approx(share * layer_memory(PLAN, inputs, kind).saved / COPY)


def test_more_layers_than_a_model_has_are_all_of_them() -> None:
    assert offloaded_share(offloading(10_000, "accelerate")) == 1


def test_a_pass_takes_as_long_as_its_copies_where_these_take_longer() -> None:
    none, some = offloading(0), offloading(16)
    kind = none.model.layer_kinds[0]
    alone, beside = (layer_unit_time(PLAN, inputs, kind) for inputs in (none, some))
    copied = copied_time(PLAN, some, kind)
    assert alone.with_host[0] < copied < alone.with_host[1]
    assert beside.with_host[0] == pytest.approx(copied)
    assert beside.with_host[1] == pytest.approx(alone.with_host[1])
    waited = priced(some).time.host_s - priced(none).time.host_s
    assert waited == pytest.approx(PLAN.num_microbatches * 32 * (beside.host - alone.host))


def test_copies_over_a_faster_link_are_hidden() -> None:
    """NVLink-C2C of a GB200 carries 169 GB/s where PCIe 5.0 carries 55."""
    fast, slow = (
        priced(offloading(12, cluster=cluster)).time.host_s - priced(offloading(0, cluster=cluster)).time.host_s
        for cluster in ("2x4:gb200", "1x8:b200")
    )
    assert fast == 0
    assert slow > 0


@given(st.integers(0, 30), st.integers(1, 8), st.booleans())
def test_more_offloaded_layers_hold_less_and_never_run_faster(layers: int, batch: int, sharded: bool) -> None:
    plan = Plan(dp=8, zero=3 if sharded else 1, micro_batch=batch)
    fewer, more = (priced(offloading(each).replace(job=_job(plan)), plan) for each in (layers, layers + 1))
    assert more.memory.allocated <= fewer.memory.allocated
    assert more.step_time_s >= fewer.step_time_s


def _job(plan: Plan) -> Job:
    return offloading(0).job.replace(global_batch=plan.dp * plan.micro_batch)


def test_megatron_keeps_one_layer_on_the_device() -> None:
    with pytest.raises(InvalidSpec, match=r"is 32, but one of the 32 layers of .* must stay; use 31 or less"):
        offloading(32)


def test_the_assumptions_say_how_activations_travel() -> None:
    said = "activations of 16 layers wait in host memory; copies at 55 GB/s each way run beside"
    assert any(each.startswith(said) for each in assumptions(offloading(16)))
    assert any("activations of all layers wait" in each for each in assumptions(offloading(32, "accelerate")))
    assert not any("activations of" in each for each in assumptions(offloading(0)))


def test_verify_refuses_what_a_processor_cannot_show() -> None:
    with pytest.raises(CannotVerify, match="activations in the host's memory: a CPU has one memory"):
        scope_of(Plan(dp=8, zero=3, num_microbatches=8), offloading(16, "accelerate"))
