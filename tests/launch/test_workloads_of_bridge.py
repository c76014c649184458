"""Workloads of Megatron-Bridge's performance scripts: plans that stand as constants beside the recipes."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshwright.errors import InvalidInput
from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file

CONSTANTS = """from dataclasses import replace
from utils.utils import WorkloadBaseConfig

BASE = WorkloadBaseConfig(num_gpus=64, global_batch_size=256)
DENSE = replace(
    BASE,
    tensor_model_parallel_size=4,
    pipeline_model_parallel_size=8,
    virtual_pipeline_model_parallel_size=5,
    recompute_modules=["mlp"],
)
AGAIN = DENSE
SHARDED = replace(BASE, use_megatron_fsdp=True, micro_batch_size=2, recompute_num_layers=80)
EXPERTS = replace(
    BASE,
    expert_model_parallel_size=8,
    pipeline_model_parallel_size=2,
    moe_flex_dispatcher_backend="hybridep",
    pp_layout="Et*24|t*24L",
    peft=None,
)
"""


def imported(folder: Path, text: str = CONSTANTS, model: str = "llama-3-70b", **values: str) -> LaunchQuestion:
    path = folder / "workload_base_configs.py"
    path.write_text(text)
    said = {"model.seq_length": "8192", "mixed_precision.preset": "fp8_cs"} | values
    return question_of_file(path, Given(cluster="h100", model=model, values=said))


def test_a_workload_is_a_plan_on_as_many_accelerators_as_it_says(tmp_path: Path) -> None:
    question = imported(tmp_path, function="DENSE")
    assert str(question.plan) == "tp4 sp pp8 vpp5 dp2 zero1 mbs1 m128 recompute-selective(mlp)"
    assert (question.inputs.cluster.num_gpus, question.inputs.job.precision) == (64, "fp8")
    assert question.inputs.gradient_bytes == 2
    assert imported(tmp_path, function="AGAIN").plan == question.plan


def test_fields_that_go_together(tmp_path: Path) -> None:
    sharded = imported(tmp_path, function="SHARDED")
    assert str(sharded.plan) == "tp1 pp1 dp64 zero3 mbs2 m2 recompute-full"
    experts = imported(tmp_path, model="qwen3-30b-a3b", function="EXPERTS")
    assert (experts.plan.ep, experts.plan.pp, experts.plan.dp) == (8, 2, 32)
    communication = experts.inputs.runtime.communication
    assert (communication.dispatcher, communication.fused_kernels) == ("fused", "hybrid_ep")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, r"holds 5 workloads; name one: --set function=NAME, of BASE \(line 4\), DENSE \(line 5\)"),
        ({"function": "SPARSE"}, r"has no workload 'SPARSE'; it has BASE"),
        ({"function": "DENSE", "mixed_precision.preset": ""}, r"--set mixed_precision\.preset=bf16, or fp8_cs"),
    ],
)
def test_what_a_file_of_workloads_leaves_open_is_asked_for(
    tmp_path: Path, values: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        imported(tmp_path, **values)


def test_a_single_workload_need_not_be_named(tmp_path: Path) -> None:
    text = CONSTANTS.partition("DENSE")[0]
    assert str(imported(tmp_path, text).plan) == "tp1 pp1 dp64 zero1 mbs1 m4"
