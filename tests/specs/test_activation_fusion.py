"""Activations and rotary positions that Megatron computes operator by operator take longer, and are launched so."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshwright.answers.launch.files import launch_files
from meshwright.answers.plans.switches import switches_of
from meshwright.cost.memory.saved import expert_activation_bytes, product_bytes
from meshwright.cost.step import estimate_each
from meshwright.launch.imports.question import Given, question_of_file
from meshwright.launch.settings import launch_settings
from meshwright.layout.named import plan_of
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import ACTIVATION_FUSION, ROPE_FUSION, position_of, with_behaviours
from meshwright.specs.inputs import Inputs
from meshwright.specs.reading.model import read_model
from meshwright.specs.switches import with_kernels_on
from strategies import question

RUNTIMES = ["megatron-core", "megatron-bridge"]


def _asked(model: str, runtime: str, position: str) -> Inputs:
    inputs = question(read_model(model), "1x8:h200", runtime, precision="bf16", global_batch=64)
    return inputs.replace(runtime=with_behaviours(inputs.runtime, [f"{ACTIVATION_FUSION}={position}"]))


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("model", ["qwen3-8b", "qwen3-30b-a3b"])
def test_a_step_takes_longer_and_keeps_more_without_it(model: str, runtime: str) -> None:
    fused, unfused = (_asked(model, runtime, position) for position in ("on", "off"))
    plan = plan_of(fused, ep=8 if fused.model.is_moe else 1)
    (quick,), (slow,) = (estimate_each([plan], each) for each in (fused, unfused))
    assert quick.step_time_s < slow.step_time_s < 1.2 * quick.step_time_s
    assert quick.memory.allocated < slow.memory.allocated
    again = with_kernels_on(unfused, ACTIVATION_FUSION)
    assert again is not None
    assert estimate_each([plan], again)[0].step_time_s == quick.step_time_s
    assert with_kernels_on(fused, ACTIVATION_FUSION) is None


def test_it_keeps_what_pytorch_saves_for_backward() -> None:
    """Of activation(gate) * (up + 0) the activated gate and the sum, 2 bytes each; weighed, the product as well."""
    fused, unfused = (_asked("qwen3-30b-a3b", "megatron-core", position) for position in ("on", "off"))
    (kind,) = fused.model.layer_kinds
    assert product_bytes(unfused, gated=True) - product_bytes(fused, gated=True) == 4
    assert product_bytes(unfused, gated=False) == product_bytes(fused, gated=False)
    assert expert_activation_bytes(unfused, kind) - expert_activation_bytes(fused, kind) == 2


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("model", ["gemma-2-9b", "gemma-3-12b"])
def test_the_gelu_of_gemma_has_no_fused_kernel(model: str, runtime: str) -> None:
    on, off = (_asked(model, runtime, position) for position in ("on", "off"))
    plan = plan_of(on)
    first, second = (estimate_each([plan], each)[0] for each in (on, off))
    assert (first.step_time_s, first.memory) == (second.step_time_s, second.memory)
    assert product_bytes(on, gated=True) - product_bytes(_asked("qwen3-8b", runtime, "on"), gated=True) == 4
    assert with_kernels_on(off, ACTIVATION_FUSION) is None


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_rotary_positions_take_longer_without_their_kernel(runtime: str) -> None:
    fused = _asked("qwen3-8b", runtime, "on")
    unfused = fused.replace(runtime=with_behaviours(fused.runtime, [f"{ROPE_FUSION}=off"]))
    quick, slow = (estimate_each([plan_of(fused)], each)[0] for each in (fused, unfused))
    assert quick.step_time_s < slow.step_time_s < 1.1 * quick.step_time_s
    assert quick.memory.allocated == slow.memory.allocated


@pytest.mark.parametrize("switch", [ACTIVATION_FUSION, ROPE_FUSION])
@pytest.mark.parametrize("position", ["off", "on"])
@pytest.mark.parametrize(
    ("runtime", "framework", "name"),
    [("megatron-core", "megatron-lm", "train.sh"), ("megatron-bridge", "megatron-bridge", "meshwright_plan.py")],
)
def test_written_files_say_it_and_are_read_back(
    tmp_path: Path, runtime: str, framework: str, name: str, position: str, switch: str
) -> None:
    inputs = question(read_model("qwen3-8b"), "1x8:h200", runtime, precision="bf16", global_batch=64)
    inputs = inputs.replace(runtime=with_behaviours(inputs.runtime, [f"{switch}={position}"]))
    files = launch_files(Plan(dp=8, zero=1, num_microbatches=8), inputs, framework)
    (tmp_path / name).write_text(files.files[name])
    read = question_of_file(tmp_path / name, Given(cluster="1x8:h200"))
    assert position_of(read.inputs.runtime, switch) == position


def test_other_frameworks_of_the_family_do_not_offer_it() -> None:
    for runtime in ("megatron-lm", "zero-bubble"):
        assert with_kernels_on(question(read_model("llama-2-7b"), "1x8:a100", runtime), ACTIVATION_FUSION) is None


@pytest.mark.parametrize(("model", "offered"), [("qwen3-8b", True), ("gpt-oss-20b", True), ("gemma-2-9b", False)])
def test_it_is_not_offered_for_the_gate_of_gemma_which_megatron_refuses_to_fuse(model: str, offered: bool) -> None:
    unfused = _asked(model, "megatron-bridge", "off")
    assert (with_kernels_on(unfused, ACTIVATION_FUSION) is not None) == offered


@pytest.mark.parametrize(
    ("runtime", "model", "flag"),
    [
        ("megatron-core", "qwen3-8b", "without --no-bias-swiglu-fusion"),
        ("megatron-bridge", "qwen3-8b", "model.bias_activation_fusion True"),
        ("megatron-bridge", "gemma-2-9b", ""),
    ],
)
def test_it_is_a_switch_worth_trying_with_what_the_launch_sets(runtime: str, model: str, flag: str) -> None:
    inputs = _asked(model, runtime, "off")
    (estimate,) = estimate_each([plan_of(inputs)], inputs)
    flags = [each.flag for each in switches_of(estimate, inputs).gaining if each.knob == ACTIVATION_FUSION]
    assert flags == ([flag] if flag else [])


@pytest.mark.parametrize(("model", "told"), [("qwen3-8b", True), ("gemma-2-9b", False), ("falcon-7b", False)])
def test_a_launch_of_bridge_is_told_to_fuse_what_megatron_can(model: str, told: bool) -> None:
    inputs = _asked(model, "megatron-bridge", "on")
    assert any(each.name == "fused_activation" for each in launch_settings(plan_of(inputs), inputs)) == told
