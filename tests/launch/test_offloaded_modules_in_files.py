"""What modules save in the host's memory: written for Megatron, read back, and refused where no setting has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshwright.answers.launch.files import launch_files
from meshwright.errors import InvalidInput, InvalidSpec
from meshwright.launch.imports.question import Given, question_of_file
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.inputs import Inputs
from strategies import llama_8b, question

PLAN = Plan(dp=4, pp=2, zero=1, num_microbatches=16)
MODULES = ("core_attn", "attn_proj")


def offloading(runtime: str, modules: str = "core_attn+attn_proj", *changes: str) -> Inputs:
    """A question about Llama 3.1 8B with what some modules save on the host."""
    asked = question(llama_8b(), "1x8:h100", runtime, global_batch=64, precision="bf16", sequence_length=8192)
    return asked.replace(runtime=with_behaviours(asked.runtime, [f"offloaded_modules={modules}", *changes]))


@pytest.mark.parametrize(
    ("runtime", "framework", "name", "says"),
    [
        (
            "megatron-core",
            "megatron-lm",
            "train.sh",
            [
                "export NVTE_CPU_OFFLOAD_V1=1",
                "--fine-grained-activation-offloading",
                "--offload-modules core_attn attn_proj",
                "--min-offloaded-tensor-size 1048576",
            ],
        ),
        (
            "megatron-bridge",
            "megatron-bridge",
            "meshwright_plan.py",
            ["fine_grained_activation_offloading=True,", "offload_modules=['core_attn', 'attn_proj'],"],
        ),
    ],
)
def test_files_of_megatron_have_the_modules(runtime: str, framework: str, name: str, says: list[str]) -> None:
    files = launch_files(PLAN, offloading(runtime), framework).files
    lines = [line.strip().removesuffix(" \\") for line in files[name].splitlines()]
    assert [each for each in says if each not in lines] == []
    assert any("NVTE_CPU_OFFLOAD_V1=1" in text for text in files.values())
    without = launch_files(PLAN, offloading(runtime, "[]"), framework).files
    assert not any("offload_modules" in text.replace("-", "_") or "CPU_OFFLOAD" in text for text in without.values())


def read(folder: Path, script: str) -> Inputs:
    path = folder / "train.sh"
    path.write_text(script)
    return question_of_file(path, Given(cluster="1x8:h100")).inputs


def test_scripts_are_read_with_their_modules(tmp_path: Path) -> None:
    given = offloading("megatron-core", "core_attn+attn_proj", "least_offloaded_elements=5000000")
    script = launch_files(PLAN, given, "megatron-lm").files["train.sh"]
    activations = read(tmp_path, script).runtime.activations
    assert (activations.offloaded_modules, activations.least_offloaded_elements) == (MODULES, 5_000_000)
    turned = script.replace("--offload-modules core_attn attn_proj", "--offload-modules attn_proj core_attn")
    assert read(tmp_path, turned).runtime.activations.offloaded_modules == MODULES


def test_modules_without_the_switch_are_passed_over(tmp_path: Path) -> None:
    script = launch_files(PLAN, offloading("megatron-core"), "megatron-lm").files["train.sh"]
    lines = [line for line in script.splitlines() if "--fine-grained-activation-offloading" not in line]
    path = tmp_path / "train.sh"
    path.write_text("\n".join(lines))
    question = question_of_file(path, Given(cluster="1x8:h100"))
    assert question.inputs.runtime.activations.offloaded_modules == ()
    assert any("Megatron-LM offloads nothing" in note for note in question.notes)


def test_a_module_that_is_not_modelled_is_named(tmp_path: Path) -> None:
    script = launch_files(PLAN, offloading("megatron-core"), "megatron-lm").files["train.sh"]
    with pytest.raises(InvalidInput, match=r"line \d+: activations.offloaded_modules.*must be one of attn_norm"):
        read(tmp_path, script.replace("core_attn attn_proj", "gdp_qkv"))


@pytest.mark.parametrize(("switch", "modules"), [("True", MODULES), ("False", ())])
def test_recipes_are_read_with_the_modules_that_they_switch_on(
    tmp_path: Path, switch: str, modules: tuple[str, ...]
) -> None:
    recipe = launch_files(PLAN, offloading("megatron-bridge"), "megatron-bridge").files["meshwright_plan.py"]
    path = tmp_path / "recipe.py"
    on = "fine_grained_activation_offloading="
    path.write_text(recipe.replace(f"{on}True", f"{on}{switch}"))
    given = Given(cluster="1x8:h100", runtime="megatron-bridge")
    assert question_of_file(path, given).inputs.runtime.activations.offloaded_modules == modules


@pytest.mark.parametrize(
    "runtime", ["accelerate", "deepspeed", "torchtitan", "nanotron", "megatron-deepspeed", "zero-bubble"]
)
def test_other_runtimes_offload_no_modules(runtime: str) -> None:
    with pytest.raises(InvalidSpec, match=f"core_attn, attn_proj, which {runtime} does not offload; it has none"):
        offloading(runtime)
