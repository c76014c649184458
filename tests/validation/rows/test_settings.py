"""Settings: data that the runtimes understand, and what a row says goes before them."""

from __future__ import annotations

import math
from itertools import combinations

import pytest

from meshwright.cost.memory.activations import layer_memory
from meshwright.cost.memory.fit import bounds
from meshwright.cost.step import estimate_each
from meshwright.errors import UnknownName
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.predictive import predictive
from meshwright.specs.residuals import ALLOCATED, like_memory
from meshwright.specs.runtime import read_runtime
from meshwright.validation.rows.reading import Case, read_case
from meshwright.validation.rows.settings import (
    COMPILED,
    UNSWITCHED,
    base_runtime,
    judged_together,
    runtime_of,
    settings,
    settings_of,
    stand_ins,
)
from tables import llama, shipped

MIB = 2**20


def _case(name: str) -> Case:
    return read_case(next(row for row in shipped() if row["id"] == name))


@pytest.mark.parametrize("name", settings())
def test_every_setting_is_understood_by_the_runtimes_that_it_is_of(name: str) -> None:
    setting = settings()[name]
    for runtime in map(read_runtime, setting.runtimes or ("megatron-core",)):
        with_behaviours(runtime, setting.behaviours)
        assert setting.source or not setting.behaviours


def test_every_setting_is_that_of_a_shipped_row() -> None:
    assert {name for row in shipped() for name in row["settings"].split(";") if name} == set(settings())


def test_no_two_settings_of_a_shipped_row_contradict_each_other() -> None:
    pairs = [(row["id"], *pair) for row in shipped() for pair in combinations(settings_of(row), 2)]
    assert pairs
    for run, *pair in pairs:
        one, other = (dict(change.split("=", 1) for change in each.behaviours) for each in pair)
        assert all(one[key] == other[key] for key in one.keys() & other.keys()), run


@pytest.mark.parametrize(("name", "likely"), [("BRIDGE-062", 0.0), ("BRIDGE-059", 0.04), ("DGXC-043", 0.04)])
def test_expandable_segments_lose_nothing_that_an_allocator_could_give_back(name: str, likely: float) -> None:
    """NVIDIA's performance recipes have them, but those of Megatron-FSDP; Megatron-core alone does not."""
    inputs = _case(name).inputs
    expected, least = (getattr(bounds(50e9, 55e9, 0.0, inputs), name) for name in ("expected", "least"))
    given_back = 55e9 - (1 + likely) * 50e9
    assert expected - least == pytest.approx(math.hypot(given_back, _tensors_below(inputs)))


def _tensors_below(inputs: Inputs) -> float:
    """How far one run in ten allocates less than expected of 50 GB, bytes."""
    error = predictive("memory", like_memory(inputs, ALLOCATED))
    return (math.exp(error.bias) - error.eight_of_ten[0]) * 50e9


def test_fine_tuning_of_nemo_24_keeps_fp8_weights_and_bf16_moments() -> None:
    """An fp8 weight and its transpose, a bf16 gradient, two bf16 moments and an fp32 weight."""
    case = _case("NEMO2407-013")
    (estimate,) = estimate_each([case.plan], case.inputs)
    parameters, memory = 6_738_415_616, estimate.memory
    assert memory.optimizer_states == pytest.approx(8 * parameters / case.plan.dp, rel=1e-3)
    assert memory.parameters == pytest.approx(2 * parameters, rel=1e-3)
    assert memory.gradients == pytest.approx(2 * parameters, rel=1e-3)


@pytest.mark.parametrize("name", ["fmsfsdp-005", "fmsfsdp-008"])
def test_large_models_of_fms_fsdp_recompute_every_layer(name: str) -> None:
    plan = _case(name).plan
    assert (plan.recompute, plan.recompute_layers) == (Recompute.FULL, 0)


def test_what_stands_for_a_framework_is_no_runtime_of_that_name() -> None:
    for name, stand_in in stand_ins().items():
        assert stand_in.runtime == read_runtime(stand_in.runtime).id
        assert name in judged_together() or name == "pytorch-eager"
    assert {runtime_of(llama(runtime=name)).id for name in stand_ins()} == {
        *("torchtitan", "torchtitan@0.2.2", "pytorch-ddp", "megatron-core")
    }


def test_a_rule_that_the_runtime_does_not_have_cannot_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    rules, of_torchtitan = (
        {rule.name for rule in runtime.rules} for runtime in (base_runtime("galvatron"), read_runtime("torchtitan"))
    )
    assert of_torchtitan - rules == set(stand_ins()["galvatron"].without_rules)
    misspelt = stand_ins()["galvatron"].replace(without_rules=("microbatches_fill_stage",))
    monkeypatch.setitem(stand_ins(), "galvatron", misspelt)
    base_runtime.cache_clear()
    with pytest.raises(UnknownName, match="nearest: microbatches_fill_stages"):
        base_runtime("galvatron")
    base_runtime.cache_clear()


def test_a_row_goes_before_its_settings_and_these_before_its_columns() -> None:
    titan = {"runtime": "torchtitan", "attention_kernel": "eager", "compiled": "yes"}
    kernels = [
        runtime_of(llama(**titan | more)).kernels.attention_kernel
        for more in ({}, {"settings": "flash-2"}, {"settings": "flash-2", "with": "attention_kernel=flash-1"})
    ]
    assert kernels == ["eager", "flash-2", "flash-1"]
    assert runtime_of(llama(**titan)).kernels.elementwise == "fused"
    assert set(COMPILED) == set(UNSWITCHED) == {"yes", "no"}
    assert base_runtime("deepspeed", "no") == base_runtime("deepspeed")
    assert base_runtime("deepspeed", "yes").kernels.elementwise == "fused"


def test_any_fused_attention_is_the_runtimes_own_or_flash_2_where_it_has_none() -> None:
    kernels = {
        name: runtime_of(llama(runtime=name, attention_kernel="flash")).kernels.attention_kernel
        for name in ("megatron-core", "megatron-lm", "llm-foundry")
    }
    assert kernels == {"megatron-core": "newest", "megatron-lm": "flash-2", "llm-foundry": "flash-1"}


def test_the_memory_of_a_named_rank_is_that_of_its_stage() -> None:
    ranks = [_case(name).memory_rank for name in ("galvatron-017", "galvatron-018")]
    assert ranks == [0, 7]


@pytest.mark.parametrize(
    ("name", "measured_mib"), [("galvatron-001", 514.5634765625), ("galvatron-004", 546.5634765625)]
)
def test_a_layer_of_galvatron_keeps_what_its_profiler_counted(name: str, measured_mib: float) -> None:
    """Of 4096 tokens and one sequence or more: PKU-DAIR/Hetu-Galvatron@cea12ffb,
    models/gpt/configs/memory_profiling_bf16_llama2-7b_all.json, layertype_0_sp, tp_activation_per_bsz_dict,
    1 and 2 times 2; but for the means of its two norms, 32 KiB, which PyTorch's RMSNorm has not.
    """
    case = _case(name)
    layer = layer_memory(case.plan, case.inputs, case.inputs.model.layer_kinds[0])
    assert (layer.saved - layer.tables) / MIB == pytest.approx(measured_mib - 1 / 32, abs=0.002)


def test_the_length_that_galvatron_prints_is_not_the_one_that_it_measured() -> None:
    case = _case("galvatron-001")
    assert case.inputs.job.sequence_length == 4096
    assert any("4096 tokens, though the profile's keys say seq2048" in said for said in case.assumed)


@pytest.mark.parametrize(("kernel", "own"), [("flash", True), ("flash-1", False), ("flash-2", False)])
def test_what_is_fitted_to_a_runtimes_own_attention_does_not_hold_for_other_kernels(kernel: str, own: bool) -> None:
    kernels = runtime_of(llama(runtime="megatron-core@nemo-24.03", attention_kernel=kernel)).kernels
    assert (kernels.attention_constant == "older_hopper_attention") == own
    assert kernels.attention_kernel == ("newest" if own else kernel)


@pytest.mark.parametrize(
    ("name", "kernel"), [("MLPERF-063", "flash-2"), ("MLPERF-070", "flash-2"), ("MLPERF-071", "flash-1")]
)
def test_gpt3_of_mlperf_attends_with_the_flash_attention_of_its_container(name: str, kernel: str) -> None:
    """TransformerEngine@4ee8e8ec and @09ba8427, pytorch/attention.py: flash-attn first; release_v0.8 has no other."""
    kernels = _case(name).inputs.runtime.kernels
    assert (kernels.attention_kernel, kernels.attention_constant) == (kernel, "")
