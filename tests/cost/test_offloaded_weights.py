"""Full weights in the host's memory, as CPUOffloadPolicy of fully_shard keeps them: bytes and seconds by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.cost.comms.exchange import exposed_seconds
from meshwright.cost.comms.host_copies import host_copies
from meshwright.cost.comms.sharded import Gathers, Windows
from meshwright.cost.compute.optimizer import optimizer_time
from meshwright.cost.estimate import Estimate
from meshwright.cost.messages import step_messages
from meshwright.cost.step import estimate_each, estimate_plans
from meshwright.errors import InvalidSpec
from meshwright.layout.legality import faults
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.pytorch.scope import CannotVerify, scope_of
from meshwright.search.fits.host_memory import host_bytes
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.reading.model import read_model
from meshwright.specs.runtime import read_runtime
from meshwright.specs.weights import parameter_count
from meshwright.units import GIB
from strategies import llama_8b, question

PARAMETERS = 1_000_000_000
COPY = 55e9
"""Bytes a second over PCIe 5.0, as the catalogue has them of an H100."""
UPDATES = read_runtime("accelerate").host.updated_parameters_per_s


def on_host(given: Inputs) -> Inputs:
    """The same with everything there."""
    return given.replace(runtime=with_behaviours(given.runtime, ["optimizer_states=offloaded"]))


def asked(runtime: str = "accelerate", cluster: str = "1x8:h100", **job: Any) -> Inputs:
    """A question about Llama 3.1 8B, on the device."""
    return question(llama_8b(), cluster, runtime, **{"global_batch": 64, "precision": "bf16"} | job)


def one_gpu() -> Estimate:
    """A whole step of Llama 3.2 3B on one H100: two sequences of 4096, everything computed again."""
    inputs = question(read_model("llama-3.2-3b"), "1x1:h100", "accelerate", global_batch=2, precision="bf16")
    plan = Plan(zero=3, micro_batch=2, recompute=Recompute.FULL)
    return estimate_each([plan], on_host(inputs))[0]


def test_one_gpu_has_what_was_measured() -> None:
    """FSDP2 with CPUOffloadPolicy, transformers, one H100: 14.0407 GiB allocated, 18.627 reserved, 19.5106 on the
    device; 1.67071 s a step, 0.62093 of them in the optimizer, whose rate is of another host.
    """
    priced = one_gpu()
    memory, seconds = priced.memory, priced.time
    assert memory.allocated / GIB == pytest.approx(14.0407, rel=0.01)
    assert memory.reserved / GIB == pytest.approx(18.627, rel=0.03)
    assert memory.device / GIB == pytest.approx(19.5106, rel=0.03)
    assert priced.step_time_s - seconds.optimizer_s == pytest.approx(1.67071 - 0.62093, rel=0.03)


def test_one_gpu_peaks_at_the_loss_with_nothing_stored() -> None:
    """12 bytes a logit, the tied embedding in 2 bytes, and the fp32 states of none."""
    memory = one_gpu().memory
    assert memory.logits == 12 * 8192 * 128256
    assert memory.parameters == pytest.approx(2 * 128256 * 3072, rel=1e-4)  # the final norm is of that unit
    assert memory.gradients == memory.optimizer_states == 0


def test_a_rank_alone_waits_for_its_weights() -> None:
    """Forward and backward 4 bytes a parameter in, which nothing hides; gradients go back meanwhile."""
    inputs, windows = on_host(asked()), Windows(forward=0.5, backward=1.0, scatter=1.0)
    exchanges = host_copies(Plan(zero=3), inputs, PARAMETERS, Gathers(1, 1, 1), windows)
    assert exposed_seconds(exchanges, inputs) == pytest.approx(2 * 4 * PARAMETERS / COPY)


@pytest.mark.parametrize(("window", "exposed"), [(1.0, 0), (0.05, 2 * (4 * PARAMETERS / COPY - 0.9 * 0.05))])
def test_several_ranks_copy_beside_their_work(window: float, exposed: float) -> None:
    """Both ways at once in backward, so that a short window is missed twice, not three times."""
    inputs, windows = on_host(asked()), Windows(window, window, window)
    exchanges = host_copies(Plan(dp=8, zero=3), inputs, PARAMETERS, Gathers(1, 1, 1), windows)
    assert exposed_seconds(exchanges, inputs) == pytest.approx(exposed)


def test_gradients_of_later_micro_batches_are_waited_for() -> None:
    """Each is copied into memory that is not pinned, 6 times as slowly, and added: 12 of the 28 bytes of an update."""
    inputs, windows = on_host(asked()), Windows(1.0, 1.0, 1.0)
    plan = Plan(dp=8, zero=3, num_microbatches=3)
    exchanges = host_copies(plan, inputs, PARAMETERS, Gathers(3, 3, 3), windows)
    each = 6 * 4 * PARAMETERS / COPY + 8 * PARAMETERS * 12 / 28 / UPDATES
    assert exposed_seconds(exchanges, inputs) == pytest.approx(2 * each)


def test_the_host_takes_the_norm_and_updates_what_all_ranks_of_a_node_own() -> None:
    """4 bytes of a gradient more than the 28 of an update; nothing on the device, and no copies beside it."""
    seconds = float(optimizer_time(Plan(dp=8, zero=3), on_host(asked()), PARAMETERS))
    assert seconds == pytest.approx(PARAMETERS / UPDATES * 32 / 28)


def test_copies_are_among_the_messages_and_no_link_carries_them() -> None:
    inputs = on_host(asked())
    plan = Plan(dp=8, zero=3, num_microbatches=8, recompute=Recompute.FULL)
    priced = estimate_plans(Plans.of([plan]), inputs, keep_all_stages=True)
    copies = [row for row in step_messages(priced) if row.operation == "copy" and row.bytes]
    assert {(row.content, row.phase) for row in copies} == {
        ("weights", "forward"),
        ("weights", "backward"),
        ("gradients", "backward"),
    }
    assert not any(row.sent_bytes for row in copies)
    exposed = sum(row.exposed_s for row in step_messages(priced) if row.part == "dp")
    assert exposed == pytest.approx(priced[0].time.exposed_dp_s)


@given(
    st.sampled_from(["accelerate", "torchtitan"]),
    st.sampled_from([2, 3]),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([1, 2]),
    st.sampled_from([*Recompute]),
)
def test_memory_falls_time_grows_and_many_are_priced_as_one(
    runtime: str, zero: int, replicas: int, micro_batch: int, recompute: Recompute
) -> None:
    if recompute is Recompute.SELECTIVE and runtime == "accelerate":
        recompute = Recompute.NONE
    kept = asked(runtime)
    plans = [
        Plan(
            dp=8,
            zero=zero,
            dp_replicate=replicas,
            micro_batch=micro_batch,
            num_microbatches=count // micro_batch,
            recompute=recompute,
        )
        for count in (2, 8)
    ]
    there, here = estimate_each(plans, on_host(kept)), estimate_each(plans, kept)
    for offloaded, usual in zip(there, here, strict=True):
        assert offloaded.memory.device < usual.memory.device
        assert offloaded.memory.allocated < usual.memory.allocated
        assert offloaded.step_time_s > usual.step_time_s
    together = estimate_plans(Plans.of(plans), on_host(kept))
    assert together.step_time_s == pytest.approx([each.step_time_s for each in there], rel=1e-12)


def test_replicas_keep_what_they_sum_until_the_backward_is_done() -> None:
    """Of all layers and the final norm a quarter in fp32 when the embedding's turn comes; one group keeps nothing."""
    inputs = on_host(asked("torchtitan", global_batch=8, sequence_length=512))
    one, two = (
        estimate_each([Plan(dp=8, zero=3, dp_replicate=count, recompute=Recompute.FULL)], inputs)[0].memory.gradients
        for count in (1, 2)
    )
    layers = parameter_count(inputs.model) - 2 * 128256 * 4096
    assert one == 0
    assert two == pytest.approx(4 * layers / 4, rel=1e-3)


@pytest.mark.parametrize(("zero", "legal"), [(0, False), (2, True), (3, True)])
def test_one_rank_is_sharded_too(zero: int, legal: bool) -> None:
    """Only what fully_shard has wrapped can be on the host."""
    inputs = on_host(asked(cluster="1x1:h100", global_batch=1))
    assert (not faults(Plan(zero=zero), inputs)) == legal


def test_what_is_not_priced_is_refused() -> None:
    for name, change, message in [
        ("accelerate", ["offloaded=states"], "must be nothing, everything: accelerate stores full weights"),
        ("deepspeed", ["offloaded=everything"], "states or states_and_gradients: deepspeed stores half weights"),
        ("pytorch-ddp", ["offloaded=everything"], "updated_parameters_per_s"),
        ("accelerate", ["optimizer_states=8bit", "offloaded=everything"], "8-bit Adam works on the device"),
    ]:
        with pytest.raises(InvalidSpec, match=message):
            with_behaviours(read_runtime(name), change)
    reasons = faults(Plan(dp=4, pp=2, zero=3, num_microbatches=16), on_host(asked("torchtitan")))
    assert any("pp 2 is not priced with weights on the host" in str(each) for each in reasons)


def test_adapters_are_refused_beside_it() -> None:
    with pytest.raises(InvalidSpec, match="adapters are not priced with states or weights in the host's memory"):
        on_host(asked(lora_rank=16))


def test_the_host_holds_16_bytes_a_parameter() -> None:
    assert host_bytes(on_host(asked())) == 16 * parameter_count(llama_8b())


def test_verify_says_that_a_cpu_has_one_memory() -> None:
    with pytest.raises(CannotVerify, match="a CPU has one memory for both"):
        scope_of(Plan(dp=8, zero=3), on_host(asked()))
