"""Activations in the host's memory: written for Megatron, read back, and refused where no setting has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshwright.answers.launch.files import launch_files
from meshwright.errors import InvalidSpec
from meshwright.launch.imports.question import Given, question_of_file
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.inputs import Inputs
from strategies import llama_8b, question

PLAN = Plan(dp=8, zero=1, num_microbatches=8)


def offloading(runtime: str, layers: int = 16) -> Inputs:
    """A question about Llama 3.1 8B with the activations of so many layers on the host."""
    asked = question(llama_8b(), "1x8:h100", runtime, global_batch=64, precision="bf16", sequence_length=8192)
    return asked.replace(runtime=with_behaviours(asked.runtime, [f"offloaded_layers={layers}"]))


@pytest.mark.parametrize(
    ("runtime", "framework", "name", "says"),
    [
        ("megatron-core", "megatron-lm", "train.sh", ["--cpu-offloading-num-layers 16"]),
        (
            "megatron-bridge",
            "megatron-bridge",
            "meshwright_plan.py",
            ["cpu_offloading=True,", "cpu_offloading_num_layers=16,"],
        ),
    ],
)
def test_files_of_megatron_have_the_layers(runtime: str, framework: str, name: str, says: list[str]) -> None:
    written = launch_files(PLAN, offloading(runtime), framework).files[name]
    lines = [line.strip().removesuffix(" \\") for line in written.splitlines()]
    assert [each for each in says if each not in lines] == []
    without = launch_files(PLAN, offloading(runtime, layers=0), framework).files[name]
    assert "cpu_offloading" not in without.replace("-", "_")


def read(folder: Path, script: str) -> Inputs:
    path = folder / "train.sh"
    path.write_text(script)
    return question_of_file(path, Given(cluster="1x8:h100")).inputs


def test_scripts_are_read_with_their_layers(tmp_path: Path) -> None:
    script = launch_files(PLAN, offloading("megatron-core"), "megatron-lm").files["train.sh"]
    assert read(tmp_path, script).runtime.activations.offloaded_layers == 16
    off = script.replace("    --cpu-offloading-num-layers 16\n", "")
    assert off != script
    assert read(tmp_path, off).runtime.activations.offloaded_layers == 0


@pytest.mark.parametrize(("switch", "layers"), [("True", 16), ("False", 0)])
def test_recipes_are_read_with_the_layers_that_they_switch_on(tmp_path: Path, switch: str, layers: int) -> None:
    """Megatron-Bridge@067f987df03b perf_recipes/gpt_oss/common.py has layers and no switch."""
    recipe = launch_files(PLAN, offloading("megatron-bridge"), "megatron-bridge").files["meshwright_plan.py"]
    path = tmp_path / "recipe.py"
    path.write_text(recipe.replace("cpu_offloading=True", f"cpu_offloading={switch}"))
    given = Given(cluster="1x8:h100", runtime="megatron-bridge")
    assert question_of_file(path, given).inputs.runtime.activations.offloaded_layers == layers


@pytest.mark.parametrize("runtime", ["accelerate", "deepspeed", "torchtitan", "nanotron", "llm-foundry"])
def test_files_without_a_setting_are_refused(runtime: str) -> None:
    inputs = offloading(runtime)
    plan = Plan(dp=8, zero=inputs.runtime.plans.zero_stages[-1], num_microbatches=8)
    with pytest.raises(InvalidSpec, match="no setting for activations of 16 layers in the host's memory"):
        launch_files(plan, inputs, runtime)
