"""What hides tensor-parallel exchanges without sequence parallelism."""

from __future__ import annotations

import pytest

from meshwright.answers.launch.files import launch_files
from meshwright.cost.comms.tensor import hidden_share
from meshwright.cost.step import estimate_each
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.specs.reading.model import read_model
from strategies import llama_8b, question

WHOLE, SPLIT = Plan(tp=8, micro_batch=4), Plan(tp=8, sp=True, micro_batch=4)
SHARE = 0.5


@pytest.mark.parametrize("runtime", ["megatron-core", "megatron-bridge", "torchtitan", "deepspeed"])
@pytest.mark.parametrize("hides", [False, True])
def test_all_reduces_are_hidden_where_the_framework_overlaps_them(runtime: str, hides: bool) -> None:
    asked = question(llama_8b(), "1x8:h100", runtime, sequence_length=8192, global_batch=4)
    asked = asked.replace(runtime=asked.runtime.replace(hides_all_reduces=hides))
    taken = {}
    for share in (0.0, SHARE):
        overlap = asked.runtime.overlap.replace(tensor_parallel=share)
        whole, split = estimate_each([WHOLE, SPLIT], asked.replace(runtime=asked.runtime.replace(overlap=overlap)))
        taken[share] = whole.step_time_s, split.step_time_s
    without, beside = taken.values()
    assert (beside[0] < without[0]) is hides
    assert beside[1] < without[1]


@pytest.mark.parametrize(("runtime", "hides"), [("megatron-bridge", False), ("torchtitan", False), ("deepspeed", True)])
def test_userbuffers_and_asynchronous_tensor_parallelism_have_no_all_reduce(runtime: str, hides: bool) -> None:
    """Source: Megatron-Bridge@067f987df03b training/comm_overlap.py L446; Megatron-LM@d98e8a64ddf3
    training/arguments.py L1442; torch 2.13 _inductor/fx_passes/micro_pipeline_tp.py; DeepSpeed
    runtime/domino/transformer.py L333.
    """
    assert question(llama_8b(), "1x8:h100", runtime).runtime.communication.hides_all_reduces is hides


def test_bridge_is_written_as_it_is_priced() -> None:
    asked = question(llama_8b(), "1x8:h100", "megatron-bridge", sequence_length=8192, global_batch=4)
    for plan, overlapped in ((WHOLE, "False"), (SPLIT, "True")):
        (priced,) = estimate_each([plan], asked)
        files = launch_files(priced.plan, asked, "megatron-bridge").files
        assert f"tp_comm_overlap={overlapped}" in "".join(files.values())


def test_nothing_hides_exchanges_of_tensor_parallelism_beside_those_of_experts_before_blackwell() -> None:
    """Both want other hardware queues (Megatron-LM, training/arguments.py L1466-1475)."""
    plans = [Plan(tp=2, sp=True, dp=8, ep=8, pp=2, vpp=vpp, zero=1, num_microbatches=4) for vpp in (1, 2)]
    told = {}
    for cluster in ("4x8:h100", "4x8:b200"):
        inputs = question(read_model("mixtral-8x7b"), cluster, "megatron-bridge", global_batch=32)
        told[cluster] = hidden_share(Plans.of(plans), inputs).tolist()
    assert told == {"4x8:h100": [0.5, 0.0], "4x8:b200": [0.5, 0.5]}


@pytest.mark.parametrize(("accelerator", "share"), [("rtx-4090", 0.0), ("v100", 0.0), ("l40s", 0.5), ("mi300x", 0.5)])
def test_userbuffers_need_accelerators_that_reach_the_memory_of_others(accelerator: str, share: float) -> None:
    """Source: NVIDIA/TransformerEngine@d0067d0da userbuffers-host.cpp, register_user_buffer_collective, 'No
    peer-to-peer access available between GPUs'; README.rst, Hardware.
    """
    inputs = question(llama_8b(), f"1x8:{accelerator}", "megatron-bridge", global_batch=8, precision="fp16")
    assert float(hidden_share(Plan(tp=2, sp=True, dp=4), inputs)) == share


def test_exchanges_of_torch_distributed_need_no_such_access() -> None:
    inputs = question(llama_8b(), "1x8:rtx-4090", "deepspeed", global_batch=8)
    overlap = inputs.runtime.overlap.replace(tensor_parallel=SHARE)
    assert float(hidden_share(WHOLE, inputs.replace(runtime=inputs.runtime.replace(overlap=overlap)))) == SHARE
