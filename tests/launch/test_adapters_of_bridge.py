"""Adapters in recipes of Megatron-Bridge: written and read back, and read as people write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshwright.answers.launch.files import launch_files
from meshwright.errors import InvalidInput, InvalidSpec
from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import Job
from meshwright.specs.reading.inputs import read_inputs
from meshwright.specs.runtime import read_runtime

QKV = ("q_proj", "k_proj", "v_proj")
RECIPE = """\
from megatron.bridge import AutoBridge
from megatron.bridge.peft.canonical_lora import CanonicalLoRA
from megatron.bridge.peft.dora import DoRA
from megatron.bridge.peft.lora import LoRA
from megatron.bridge.recipes.common import _peft_common
from megatron.bridge.recipes.utils.dataset_utils import default_peft_config
from megatron.bridge.training.finetune import finetune
from megatron.bridge.training.gpt_step import forward_step


def config():
    cfg = START
    cfg.model = AutoBridge.from_hf_pretrained("Qwen/Qwen3-8B").to_megatron_provider(load_weights=False)
    cfg.mixed_precision = "bf16_mixed"
    cfg.model.seq_length = 4096
    cfg.model.tensor_model_parallel_size = 2
    cfg.model.pipeline_model_parallel_size = 1
    cfg.model.context_parallel_size = 1
    cfg.train.micro_batch_size = 1
    cfg.train.global_batch_size = 32
    ADAPTERS
    return cfg


if __name__ == "__main__":
    finetune(config(), forward_step)
"""


def asked(runtime: str = "megatron-bridge", *behaviours: str, **job: object) -> Inputs:
    fields = {"sequence_length": 4096, "global_batch": 32, "lora_rank": 16} | job
    return read_inputs("llama-3.1-8b", "1x8:h100", Job(**fields), with_behaviours(read_runtime(runtime), behaviours))  # type: ignore[arg-type]


def imported(folder: Path, adapters: str, start: str = "_peft_common()", **values: str) -> LaunchQuestion:
    path = folder / "recipe.py"
    path.write_text(RECIPE.replace("START", start).replace("ADAPTERS", adapters))
    return question_of_file(path, Given(cluster="1x8:h100", values=values))


def adapters(question: LaunchQuestion) -> tuple[int, tuple[str, ...], str]:
    job, kernels = question.inputs.job, question.inputs.runtime.kernels
    return job.lora_rank, job.lora_modules, kernels.fused_adapters


@pytest.mark.parametrize(
    ("inputs", "made"),
    [
        (asked(), "LoRA(target_modules=['linear_qkv', 'linear_proj', 'linear_fc1', 'linear_fc2'], dim=16)"),
        (asked(lora_modules=(*QKV, "down_proj")), "LoRA(target_modules=['linear_qkv', 'linear_fc2'], dim=16)"),
        (
            asked("megatron-bridge", "canonical_lora=on", lora_modules=QKV, precision="fp8"),
            "CanonicalLoRA(target_modules=['linear_q', 'linear_k', 'linear_v'], dim=16)",
        ),
    ],
    ids=["all", "some", "of each part, fp8"],
)
def test_a_recipe_makes_the_adapters_of_a_plan_and_is_read_back(tmp_path: Path, inputs: Inputs, made: str) -> None:
    plan = Plan(tp=2, sp=True, dp=4, zero=1, num_microbatches=8)
    files = launch_files(plan, inputs, "megatron-bridge").files
    recipe = files["meshwright_plan.py"]
    assert f"    cfg.peft = {made}\n" in recipe
    assert 'cfg.checkpoint.pretrained_checkpoint = os.environ["PRETRAINED"]' in recipe
    assert "finetune(config(), forward_step)" in recipe
    assert "${PRETRAINED:?" in files["train.sh"]
    (tmp_path / "meshwright_plan.py").write_text(recipe)
    read = question_of_file(tmp_path / "meshwright_plan.py", Given(cluster="1x8:h100", model="llama-3.1-8b"))
    assert read.plan == plan
    assert adapters(read) == (16, inputs.job.lora_modules, inputs.runtime.kernels.fused_adapters)


def test_a_recipe_that_trains_all_weights_has_no_adapters() -> None:
    files = launch_files(Plan(dp=8, zero=1, num_microbatches=4), asked(lora_rank=0), "megatron-bridge").files
    assert not any(word in files["meshwright_plan.py"] for word in ("peft", "finetune", "PRETRAINED"))
    assert "PRETRAINED" not in files["train.sh"]


def test_megatron_lm_has_no_adapters_and_names_who_has() -> None:
    with pytest.raises(InvalidSpec, match=r"no setting for adapters of rank 16.*(?s:.)*or megatron-bridge") as raised:
        launch_files(Plan(dp=8, zero=1, num_microbatches=4), asked("megatron-core"), "megatron-lm")
    assert len(raised.value.faults) == 1


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("", (32, ("all-linear",), "one")),
        ("cfg.peft.dim = 8", (8, ("all-linear",), "one")),
        ('cfg.peft = LoRA(dim=16, target_modules=["linear_qkv"])', (16, QKV, "one")),
        ('cfg.peft = default_peft_config("lora", dim=4)', (4, ("all-linear",), "one")),
        ("cfg.peft = CanonicalLoRA(dim=16)", (16, ("all-linear",), "all")),
        (
            'cfg.peft = CanonicalLoRA(target_modules=["linear_fc1_up", "linear_fc1_gate"])',
            (32, ("gate_proj", "up_proj"), "all"),
        ),
        ("cfg.peft = None", (0, ("all-linear",), "one")),
    ],
)
def test_adapters_are_read_with_the_defaults_of_their_class(
    tmp_path: Path, said: str, read: tuple[int, tuple[str, ...], str]
) -> None:
    question = imported(tmp_path, said)
    assert adapters(question) == read
    assert str(question.plan).startswith("tp2 ")


def test_what_another_recipe_has_of_adapters_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as raised:
        imported(tmp_path, "", "qwen3_8b_peft_config()")
    assert "peft.dim rests on qwen3_8b_peft_config, which is not read: --set peft.dim=..." in str(raised.value)
    assert "peft.target_modules rests on" in str(raised.value)
    answers = {"peft.dim": "16", "peft.target_modules": "linear_qkv"}
    assert adapters(imported(tmp_path, "", "qwen3_8b_peft_config()", **answers)) == (16, QKV, "one")


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("cfg.peft = DoRA(dim=16)", "peft DoRA: adapters of LoRA and CanonicalLoRA are priced, no others"),
        ('cfg.peft.target_modules = ["*.layers.0.*.linear_qkv"]', "is not among linear_qkv, linear_proj"),
        ('cfg.peft.exclude_modules = ["linear_fc2"]', "adapters of all layers but some, not modelled"),
    ],
)
def test_adapters_without_a_price_are_refused(tmp_path: Path, said: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message.replace("*", r"\*")):
        imported(tmp_path, said)


def test_what_changes_memory_or_time_beside_a_price_is_told(tmp_path: Path) -> None:
    question = imported(tmp_path, "cfg.peft = LoRA(dim=16, dropout=0.1, a2a_experimental=True, alpha=32)")
    assert question.understood.unpriced.keys() == {"peft.dropout", "peft.a2a_experimental"}
