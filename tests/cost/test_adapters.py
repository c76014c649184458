"""Low-rank adapters beside frozen weights: what they hold, keep, exchange and take."""

from __future__ import annotations

from itertools import pairwise

import pytest

from meshwright.cost.estimate import Estimate
from meshwright.cost.flops import model_flops_per_step
from meshwright.cost.memory.activations import layer_memory
from meshwright.cost.step import estimate_each
from meshwright.errors import InvalidInput
from meshwright.layout.plan import Plan
from meshwright.specs.adapters import adapter_parameters
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import Job
from meshwright.specs.reading.inputs import read_inputs
from meshwright.units import GIB

QV = ("q_proj", "v_proj")
ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
ALL = ("all-linear",)


def asked(
    model: str = "llama-3.1-8b", runtime: str = "accelerate", gpus: int = 8, rank: int = 16, **fields: object
) -> Inputs:
    job = {"sequence_length": 2048, "global_batch": 8, "lora_rank": rank} | fields
    return read_inputs(model, f"1x{gpus}:h100", Job(**job), runtime)  # type: ignore[arg-type]


def priced(inputs: Inputs, **plan: object) -> Estimate:
    usual = {"dp": inputs.cluster.num_gpus, "zero": 3 if inputs.cluster.num_gpus > 1 else 0}
    return estimate_each([Plan(**usual | plan)], inputs)[0]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("model", "length", "micro_batch", "modules", "trained", "allocated", "step"),
    [
        ("llama-3.1-8b", 2048, 1, ALL, 41_943_040, 31.7753, 0.25796),
        ("llama-3.1-8b", 4096, 2, QV, 6_815_744, 64.9018, 0.67453),
        ("llama-3.2-1b", 2048, 8, ALL, 11_272_192, 54.5852, 0.40414),
    ],
)
def test_runs_of_peft_on_one_gpu_are_predicted(
    model: str, length: int, micro_batch: int, modules: tuple[str, ...], trained: int, allocated: float, step: float
) -> None:
    """Measured for Meshwright on one H100 with peft and transformers, no data-parallel wrapper: parameters exact,
    allocated memory within 1 %, step time within 10 %. The host's constants come from elsewhere (sources of the family
    pytorch).
    """
    inputs = asked(model, gpus=1, sequence_length=length, global_batch=micro_batch, lora_modules=modules)
    estimate = priced(inputs, micro_batch=micro_batch)
    assert adapter_parameters(inputs.model, inputs.job, inputs.runtime) == trained
    assert estimate.memory.allocated / GIB == pytest.approx(allocated, rel=0.01)
    assert estimate.step_time_s == pytest.approx(step, rel=0.1)


@pytest.mark.parametrize("runtime", ["accelerate", "pytorch-ddp"])
def test_frozen_weights_have_neither_gradients_nor_states(runtime: str) -> None:
    plan = {"zero": 0} if runtime == "pytorch-ddp" else {}
    adapters, whole = (priced(asked(runtime=runtime, rank=rank), **plan) for rank in (16, 0))
    assert adapters.memory.optimizer_states < 0.01 * whole.memory.optimizer_states
    assert adapters.memory.allocated < whole.memory.allocated
    assert adapters.step_time_s < whole.step_time_s
    assert adapters.time.optimizer_s < 0.05 * whole.time.optimizer_s


def test_memory_and_time_grow_with_the_rank_and_with_the_modules() -> None:
    estimates = [priced(asked(rank=rank, lora_modules=modules)) for rank, modules in ((8, QV), (64, QV), (64, ALL))]
    for fewer, more in pairwise(estimates):
        assert fewer.memory.allocated < more.memory.allocated
        assert fewer.step_time_s < more.step_time_s


def test_sharding_divides_frozen_weights() -> None:
    sharded, gathered = (priced(asked(), zero=zero) for zero in (3, 2))
    alone = priced(asked(gpus=1))
    assert sharded.memory.parameters < gathered.memory.parameters
    assert sharded.memory.optimizer_states == pytest.approx(alone.memory.optimizer_states / 8, rel=1e-9)


def test_adapters_of_one_input_share_it_where_nothing_is_cast() -> None:
    """Of fully_shard, which gathers adapters in 2 bytes: counted on fake tensors (test_adapters_run.py)."""
    inputs = asked()
    kind = inputs.model.layer_kinds[0]
    cast, shared = (float(layer_memory(plan, inputs, kind).saved) for plan in (Plan(dp=8), Plan(dp=8, zero=3)))
    hidden, ffn, tokens, rank = 4096, 14336, 2048, 16
    copies = 2 * tokens * (6 * hidden + ffn) + 2 * rank * (9 * hidden + 2 * 1024 + 3 * ffn)
    assert cast - shared == copies - 2 * tokens * (2 * hidden + ffn)


def test_full_recomputation_keeps_the_layer_s_input_alone() -> None:
    inputs = asked()
    kept = layer_memory(Plan(dp=8, zero=3, recompute=Recompute.FULL), inputs, inputs.model.layer_kinds[0])
    assert float(kept.saved) == 2 * 2048 * 4096


def test_weights_are_gathered_whole_and_gradients_of_adapters_alone_are_reduced() -> None:
    inputs = asked()
    (estimate,) = estimate_each([Plan(dp=8, zero=3)], inputs)
    assert estimate.time.exposed_dp_s < priced(asked(rank=0)).time.exposed_dp_s
    assert estimate.time.exposed_dp_s > 0


def test_a_frozen_parameter_counts_four_flop_and_one_of_an_adapter_six() -> None:
    adapters, whole = (model_flops_per_step(asked(rank=rank)) for rank in (16, 0))
    tokens, matrices = 8 * 2048, 8_030_261_248 - 128_256 * 4096 - 65 * 4096
    assert whole - adapters == pytest.approx(tokens * (2 * matrices - 6 * 41_943_040), rel=1e-9)


@pytest.mark.parametrize("entropy", ["chunked", "compiled"])
@pytest.mark.parametrize("micro_batches", [1, 4])
def test_other_losses_are_priced(entropy: str, micro_batches: int) -> None:
    inputs = asked(global_batch=8 * micro_batches)
    inputs = inputs.replace(runtime=inputs.runtime.replace(cross_entropy=entropy))
    eager = priced(asked(global_batch=8 * micro_batches), num_microbatches=micro_batches)
    assert priced(inputs, num_microbatches=micro_batches).memory.allocated < eager.memory.allocated


def test_frozen_experts_keep_neither_their_rows_nor_what_gate_and_up_make() -> None:
    """Counted on fake tensors (test_adapters_run.py): 2048 tokens of 8 experts each, hidden size 2048 and FFN 768."""
    adapters, whole = (asked("qwen3-30b-a3b", rank=rank, lora_modules=ATTENTION) for rank in (16, 0))
    plan = Plan(dp=8, zero=3)
    kept, all_kept = (float(layer_memory(plan, each, each.model.layer_kinds[0]).saved) for each in (adapters, whole))
    assert all_kept - kept > 2 * 2048 * 8 * (2048 + 768)


@pytest.mark.parametrize("runtime", ["accelerate", "pytorch-ddp"])
def test_frozen_experts_have_no_gradients(runtime: str) -> None:
    plan = {"zero": 0} if runtime == "pytorch-ddp" else {}
    questions = (asked("qwen3-30b-a3b", runtime=runtime, rank=rank, lora_modules=ATTENTION) for rank in (16, 0))
    adapters, whole = (priced(each, **plan) for each in questions)
    assert adapters.memory.gradients + adapters.memory.optimizer_states < 0.01 * whole.memory.optimizer_states
    assert adapters.time.exposed_dp_s < whole.time.exposed_dp_s
    assert adapters.time.optimizer_s < 0.05 * whole.time.optimizer_s
    assert adapters.time.compute_s < whole.time.compute_s


@pytest.mark.parametrize("modules", [ALL, ("q_proj", "gate_proj")])
def test_adapters_on_experts_are_refused(modules: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput, match=r"has adapters on experts, .* use q_proj,k_proj,v_proj,o_proj"):
        asked("qwen3-30b-a3b", lora_modules=modules)


def test_two_layers_as_they_were_sent_stand_beside_the_one_that_works() -> None:
    """Llama-3.1-70B with adapters on 8 ranks of ZeRO 3, micro-batches of 256 tokens: 31.344 GB in PyTorch 2.13 with
    peft on fake tensors (`meshwright verify`), where three gathered layers stand in forward and two in backward.
    """
    inputs = asked("llama-3.1-70b", sequence_length=256)
    assert priced(inputs).memory.allocated / 1e9 == pytest.approx(31.344, rel=0.02)


@pytest.mark.parametrize("zero", [1, 2])
def test_an_engine_that_casts_adapters_keeps_no_copies_of_what_they_read(zero: int) -> None:
    """DeepSpeed casts them to bf16 with the model, so that those of one input share it (runtime/engine.py)."""
    ours, gathered = asked(runtime="deepspeed"), asked()
    kind = ours.model.layer_kinds[0]
    kept = layer_memory(Plan(dp=8, zero=zero), ours, kind).saved
    assert float(kept) == float(layer_memory(Plan(dp=8, zero=3), gathered, kind).saved)


def test_adapters_that_stay_in_fp32_keep_all_that_they_read_in_it() -> None:
    """Under ZeRO 3 of DeepSpeed: 4 bytes of the input of each of seven, and of its rank, a token."""
    wide, plan = asked(runtime="deepspeed"), Plan(dp=8, zero=3)
    kind = wide.model.layer_kinds[0]
    narrow = wide.replace(runtime=wide.runtime.replace(wide_adapters=False))
    kept, shared = (float(layer_memory(plan, each, kind).saved) for each in (wide, narrow))
    hidden, ffn, tokens, rank = 4096, 14336, 2048, 16
    read, once = 6 * hidden + ffn, 2 * hidden + ffn
    assert kept - shared == tokens * (4 * (read + 7 * rank) - 2 * (once + 7 * rank))


def test_deepspeed_keeps_gradients_and_states_of_adapters_alone() -> None:
    """2 bytes of each weight, 18 / 8 of each of the 41,943,040 parameters of adapters beside 2 whole buckets."""
    inputs = asked(runtime="deepspeed")
    memory = priced(inputs, zero=2).memory
    assert memory.parameters == pytest.approx(2 * (8_030_261_248 + 41_943_040), rel=1e-9)
    assert memory.gradients + memory.optimizer_states == pytest.approx(18 / 8 * 41_943_040, rel=1e-9)
    whole = priced(asked(runtime="deepspeed", rank=0), zero=2)
    assert priced(inputs, zero=2).step_time_s < whole.step_time_s
    assert priced(inputs, zero=3).memory.parameters < memory.parameters
