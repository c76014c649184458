"""Demands: what a launch must set beside the plan, told only where the plan asks for it."""

from __future__ import annotations

import pytest

from meshwright.errors import InvalidSpec
from meshwright.layout.legality.demands import DEMANDS, demands_of
from meshwright.layout.plan import Plan
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import PRECISIONS
from meshwright.specs.precision import read_precision
from meshwright.specs.runtime.rules import RuleReference
from strategies import dense_model, latent, llama_8b, question, with_experts

LLAMA = question(llama_8b(), "8x8:h100", global_batch=256, precision="bf16")
EXPERTS = with_experts(LLAMA, 64)
HALF = LLAMA.replace(job=LLAMA.job.replace(gradients="half"))
EIGHT_BITS = LLAMA.replace(job=LLAMA.job.replace(precision="fp8-blockwise"))
BLACKWELL = question(llama_8b(), "8x8:b200", global_batch=256, precision="bf16")
NARROW = question(dense_model(hidden_size=2880, heads=64, head_dim=64), "8x8:h100")
DELAYED = LLAMA.replace(job=LLAMA.job.replace(precision="fp8-delayed"))
LATENT = LLAMA.replace(model=latent())
FUSED = LLAMA.replace(runtime=LLAMA.runtime.replace(cross_entropy="fused"))
FP16 = LLAMA.replace(job=LLAMA.job.replace(precision="fp16"))
PREDICTING = LLAMA.replace(model=llama_8b().replace(mtp_layers=1))
ROUND = LLAMA.replace(model=llama_8b().replace(vocab_size=131072))

BRIDGE = question(llama_8b(), "8x8:b200", "megatron-bridge", precision="mxfp8")
NARROW_STATES = LLAMA.replace(runtime=BRIDGE.runtime.replace(moment_bytes=2))

Asked = tuple[Inputs, dict[str, object]]
RAISED_AND_NOT: dict[str, tuple[Asked, Asked, str]] = {
    "single_connection": ((LLAMA, {"tp": 8}), (BLACKWELL, {"tp": 8}), "CUDA_DEVICE_MAX_CONNECTIONS=1, as tp 8 x cp 1"),
    "single_connection_of_sequence": ((LLAMA, {"tp": 8, "sp": True}), (LLAMA, {"tp": 8}), "CONNECTIONS=1, as sp"),
    "several_connections": ((LLAMA, {"zero": 3}), (LLAMA, {"zero": 1}), "unset or above 1"),
    "fully_sharded_options": ((LLAMA, {"zero": 2}), (LLAMA, {"zero": 1}), "fsdp_dtensor"),
    "plain_engine": ((LLAMA, {"zero": 3}), (LLAMA, {}), "--no-pipeline-parallel"),
    "parameter_gather_overlap": ((LLAMA, {"dp": 8, "zero": 1}), (LLAMA, {"zero": 1}), "--overlap-grad-reduce"),
    "interleaving_overlap": ((LLAMA, {"pp": 2, "vpp": 4}), (LLAMA, {"pp": 4, "vpp": 4}), "--no-overlap-p2p"),
    "tensor_overlap": ((LLAMA, {"tp": 2}), (LLAMA, {"tp": 2, "sp": True}), "--tp-comm-overlap"),
    "expert_exchange_overlap": ((EXPERTS, {"ep": 8, "pp": 4}), (EXPERTS, {"ep": 8, "pp": 4, "vpp": 2}), "need vpp 2"),
    "padded_vocabulary": ((LLAMA, {"tp": 8}), (ROUND, {"tp": 8}), "from 128256 to 129024, a multiple of 128 x tp 8"),
    "expert_tensor_degree": ((EXPERTS, {"tp": 2}), (EXPERTS, {"tp": 2, "etp": 2}), "--expert-tensor-parallel-size 1"),
    "mtp_layers": ((PREDICTING, {"pp": 2}), (LLAMA, {}), "--mtp-num-layers 1, on the stage of the head"),
    "head_size": ((NARROW, {}), (LLAMA, {}), "--kv-channels 64"),
    "recompute_method": ((LLAMA, {"recompute": "full"}), (LLAMA, {}), "--recompute-num-layers"),
    "pipeline_precision": ((LLAMA, {"pp": 2}), (LLAMA, {}), "pipeline_dtype bf16"),
    "low_precision": ((EIGHT_BITS, {}), (LLAMA, {}), "--bf16 --fp8-format hybrid --fp8-recipe blockwise, as"),
    "recompute_modules": (
        (LLAMA, {"recompute": "selective", "recompute_modules": ["layernorm", "mlp"]}),
        (LLAMA, {"recompute": "selective"}),
        "--recompute-modules layernorm mlp: left out",
    ),
    "expert_dispatcher": ((EXPERTS, {"ep": 8}), (EXPERTS, {}), "--moe-token-dispatcher-type alltoall, the exchange"),
    "pipeline_layout": ((LLAMA, {"pp": 5}), (LLAMA, {"pp": 4}), "'Et*6|t*7|t*7|t*6|t*6L'"),
    "counted_ends": (
        (LLAMA, {"pp": 3, "embedding_as_layer": True}),
        (LLAMA, {"pp": 4}),
        "--account-for-embedding-in-pipeline-split: 33 layers for pp 3",
    ),
    "end_stage_layers": (
        (LLAMA, {"pp": 4, "vpp": 2, "first_stage_layers": 4}),
        (LLAMA, {"pp": 4}),
        "--decoder-first-pipeline-num-layers 4 with --num-virtual-stages-per-pipeline-rank 2",
    ),
    "microbatch_group": (
        (LLAMA, {"pp": 4, "vpp": 2, "microbatch_group": 6}),
        (LLAMA, {"pp": 4, "vpp": 2}),
        "--microbatch-group-size-per-virtual-pipeline-stage 6",
    ),
    "pipeline_schedule": (
        (LLAMA, {"pp": 4, "vpp": 2, "schedule": "zb-v"}),
        (LLAMA, {"pp": 4}),
        "pipeline_parallel_schedule ZBVZeroBubble: left out, it is 1F1B",
    ),
    "less_layers": (
        (LLAMA, {"pp": 4, "head_as_layer": True}),
        (LLAMA, {"pp": 4, "embedding_as_layer": True, "head_as_layer": True}),
        "pipeline_parallel_first_stage_less_layers 0: left out, it is 1",
    ),
    "activation_offloading": ((LLAMA, {"recompute": "full"}), (LLAMA, {}), "no --cpu-offloading: it needs pp 1 and"),
    "saved_activations": (
        (LLAMA, {"tp": 2, "sp": True, "recompute": "full"}),
        (LLAMA, {"tp": 2, "recompute": "full"}),
        "no --distribute-saved-activations: sp of tp 2",
    ),
    "latent_attention": ((LATENT, {}), (LLAMA, {}), "--multi-latent-attention without --group-query-attention"),
    "fused_cross_entropy": ((FUSED, {}), (LLAMA, {}), "--cross-entropy-fusion-impl native"),
    "partial_offloading": ((LLAMA, {"zero": 2}), (LLAMA, {"zero": 3}), "ratio below 1"),
    "quantised_end_layers": ((DELAYED, {}), (LLAMA, {}), "no --first-last-layers-bf16: fp8-delayed quantises all 32"),
    "one_sequence_split": ((LLAMA, {"cp": 4}), (LLAMA, {}), "beside parallelism_config_cp_size 4"),
    "half_optimizer_states": ((LLAMA, {}), (FP16, {}), "bf16_master_weights_and_grads"),
    "context_exchange": ((LLAMA, {"cp": 2, "context_exchange": "all_to_all"}), (LLAMA, {}), "--cp-comm-type a2a,"),
    "sharding_replicas": (
        (LLAMA, {"dp": 8, "dp_replicate": 2}),
        (LLAMA, {}),
        "--num-distributed-optimizer-instances 2",
    ),
    "gradient_type": ((HALF, {}), (LLAMA, {}), "--grad-reduce-in-bf16"),
    "quantised_weights": ((BRIDGE, {}), (EIGHT_BITS, {}), "--fp8-param-gather --reuse-grad-buf-for-mxfp8-param-ag: "),
    "narrow_optimizer_states": (
        (NARROW_STATES, {}),
        (LLAMA, {}),
        "--exp-avg-sq-dtype bf16: optimizer states of 6 bytes",
    ),
    "pipeline_without_graphs": ((LLAMA, {"pp": 2}), (LLAMA, {}), "disable_cuda_graphs"),
    "pipeline_microbatches": ((LLAMA, {"pp": 2, "num_microbatches": 8}), (LLAMA, {}), "num_pp_microbatches 8"),
    "pipeline_engine": ((LLAMA, {"pp": 2}), (LLAMA, {}), "pp_engine 1f1b"),
    "flex_attention": ((LLAMA, {"cp": 2}), (LLAMA, {}), "Flex attention"),
    "layers_of_stages": ((LLAMA, {"pp": 2, "vpp": 3}), (LLAMA, {"pp": 2, "vpp": 2}), "layers_per_stage 6"),
    "reduce_scatter_mode": ((LLAMA, {"tp": 2, "sp": True}), (LLAMA, {"tp": 2}), "REDUCE_SCATTER"),
    "sequence_parallel_mode": ((LLAMA, {"tp": 2, "sp": True}), (LLAMA, {"tp": 2}), "msp or fsp"),
    "fully_sharded_version": ((LLAMA, {"zero": 3}), (LLAMA, {"dp": 8}), "fsdp_version 2"),
    "interleaved_overlap": ((LLAMA, {"pp": 4, "vpp": 2}), (LLAMA, {"pp": 4}), "interleaved_overlap True"),
}
ALWAYS = {"batch_triple", "sequence_lengths", "weight_shards"}


def test_every_demand_has_an_example() -> None:
    assert set(RAISED_AND_NOT) | ALWAYS == set(DEMANDS)


@pytest.mark.parametrize("name", RAISED_AND_NOT)
def test_a_demand_is_told_where_a_plan_asks_for_it_and_nowhere_else(name: str) -> None:
    (given, fields), (other, without), said = RAISED_AND_NOT[name]
    demand = DEMANDS[name]
    assert demand.applies(Plan(**fields), given)
    assert not demand.applies(Plan(**without), other)
    text = demand.text(Plan(**fields), given)
    assert said in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("precision", "gradients", "said"),
    [
        ("bf16", "half", "--grad-reduce-in-bf16,"),
        ("bf16", "fp32", "--accumulate-allreduce-grads-in-fp32,"),
        ("fp16", "half", "no --accumulate-allreduce-grads-in-fp32,"),
        ("fp16", "fp32", "--accumulate-allreduce-grads-in-fp32,"),
    ],
)
def test_gradients_are_summed_as_they_are_priced(precision: str, gradients: str, said: str) -> None:
    given = LLAMA.replace(job=LLAMA.job.replace(precision=precision, gradients=gradients))
    assert DEMANDS["gradient_type"].text(Plan(), given).startswith(said)


def test_fp16_sums_gradients_in_two_bytes_unless_told() -> None:
    assert FP16.gradient_bytes == 2
    assert not DEMANDS["gradient_type"].applies(Plan(), FP16)


def test_the_batch_is_told_as_three_numbers_that_agree() -> None:
    plan = Plan(dp=16, micro_batch=2, num_microbatches=8)
    text = DEMANDS["batch_triple"].text(plan, LLAMA)
    assert "train_batch_size 256, train_micro_batch_size_per_gpu 2 and gradient_accumulation_steps 8" in text


@pytest.mark.parametrize(
    ("name", "fields", "said"),
    [
        ("parameter_gather_overlap", {"dp": 8}, "no --overlap-param-gather"),
        ("recompute_method", {"recompute": "selective"}, "neither --recompute-method nor"),
        ("expert_exchange_overlap", {"ep": 8, "recompute": "full"}, "full recomputation"),
        (
            "expert_exchange_overlap",
            {"ep": 8, "recompute": "selective", "recompute_modules": ["moe"]},
            "does not go with recomputation of moe",
        ),
        ("layers_of_stages", {"pp": 5, "vpp": 3}, "module_fqns_per_model_part"),
        ("layers_of_stages", {"pp": 2, "chunk_layers": (20, 12)}, "the layers of 2 stages, 20, 12"),
        ("pipeline_layout", {"pp": 2, "chunk_layers": (20, 12)}, "'Et*20|t*12L', the plan's 2 chunks"),
        ("end_stage_layers", {"pp": 4, "first_stage_layers": 5, "last_stage_layers": 7}, "which leaves the other"),
        ("weight_shards", {"tp": 8, "dp": 8}, "which tp 8 x cp 1 x pp 1 x dp 8 fill"),
        (
            "less_layers",
            {"pp": 4},
            "first_stage_less_layers 0 and parallelism.pipeline_parallel_last_stage_less_layers 0:",
        ),
        ("sequence_lengths", {"dp": 8}, "dataset.sequence_length 4096 like model.seq_length"),
    ],
)
def test_a_demand_follows_the_plan(name: str, fields: dict[str, object], said: str) -> None:
    assert DEMANDS[name].applies(Plan(**fields), EXPERTS)
    assert said in DEMANDS[name].text(Plan(**fields), EXPERTS)


@pytest.mark.parametrize(
    ("cluster", "dispatcher", "said"),
    [
        ("8x8:h100", "all_gather", "allgather,"),
        ("8x8:h100", "fused", "flex --moe-flex-dispatcher-backend deepep,"),
        ("16x4:gb200", "fused", "flex --moe-flex-dispatcher-backend hybridep,"),
    ],
)
def test_the_dispatcher_is_the_one_that_is_priced(cluster: str, dispatcher: str, said: str) -> None:
    given = with_experts(question(llama_8b(), cluster, precision="bf16"), 64)
    given = given.replace(runtime=given.runtime.replace(dispatcher=dispatcher))
    assert f"--moe-token-dispatcher-type {said}" in DEMANDS["expert_dispatcher"].text(Plan(ep=8), given)


@pytest.mark.parametrize("precision", [name for name in PRECISIONS if read_precision(name).quantises])
def test_every_recipe_that_quantises_has_its_flags(precision: str) -> None:
    given = BLACKWELL.replace(job=BLACKWELL.job.replace(precision=precision))
    assert DEMANDS["low_precision"].applies(Plan(), given)
    assert f"as the job asks for {precision}" in DEMANDS["low_precision"].text(Plan(), given)


def test_a_pipeline_sends_in_half_precision_whatever_the_recipe() -> None:
    assert "pipeline_dtype bf16" in DEMANDS["pipeline_precision"].text(Plan(pp=2), EIGHT_BITS)


def test_a_demand_that_nobody_has_written_is_refused() -> None:
    unknown = RuleReference(name="nope", source="nowhere")
    with pytest.raises(InvalidSpec, match=r"runtime.demands\[0\].name: 'nope' is no demand"):
        demands_of(LLAMA.replace(runtime=LLAMA.runtime.replace(demands=(unknown,))))
