"""A folder that `launch` wrote, read whole: its configuration with what the training script beside it says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from commands import asked
from meshwright.answers.launch.files import launch_files
from meshwright.errors import InvalidInput
from meshwright.launch.imports.patch import patch_of
from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file
from meshwright.layout.plan import Plan
from meshwright.specs.choices import Recompute
from meshwright.specs.model import Model
from meshwright.specs.reading.model import read_model
from strategies import llama_8b, question

PLAN = Plan(dp=8, zero=3, micro_batch=2, num_microbatches=4, recompute=Recompute.FULL)
RECOMPUTATION = "recomputation stands in the training script"


def written(folder: Path, framework: str, model: Model | None = None) -> Path:
    inputs = question(model or llama_8b(), "1x8:h100", framework, global_batch=64, precision="bf16")
    for name, text in launch_files(PLAN, inputs, framework).files.items():
        (folder / name).write_text(text)
    return folder


def read(path: Path, **values: str) -> LaunchQuestion:
    said = {name.replace("__", "."): value for name, value in values.items()}
    return question_of_file(path, Given(cluster="1x8:h100", model="llama-3.1-8b", values=said))


@pytest.mark.parametrize("framework", ["deepspeed", "accelerate"])
def test_the_script_says_what_the_configuration_cannot_hold(tmp_path: Path, framework: str) -> None:
    folder = written(tmp_path, framework)
    whole = read(folder)
    assert str(whole.plan) == str(PLAN)
    assert whole.inputs.job.sequence_length == 4096
    assert any("as train.py beside the file has it" in note for note in whole.notes)
    (folder / "train.py").write_text("MICRO_BATCH = 64\n")  # a script of somebody else
    with pytest.raises(InvalidInput, match=r"--set job\.sequence_length"):
        read(folder)


def test_the_start_script_of_a_folder_says_its_environment(tmp_path: Path) -> None:
    plan = Plan(tp=2, sp=True, pp=2, dp=2, num_microbatches=32)
    inputs = question(llama_8b(), "1x8:h100", "nanotron", global_batch=64, precision="bf16")
    for name, text in launch_files(plan, inputs, "nanotron").files.items():
        (tmp_path / name).write_text(text)
    missing = "CUDA_DEVICE_MAX_CONNECTIONS"
    assert not any(missing in note for note in read(tmp_path).notes)
    assert any(missing in note for note in read(tmp_path / "nanotron.yaml").notes)


def test_a_start_script_alone_names_the_folder(tmp_path: Path) -> None:
    folder = written(tmp_path, "deepspeed")
    with pytest.raises(InvalidInput) as raised:
        read(folder / "train.sh")
    assert str(raised.value).endswith(f"deepspeed.json beside it holds a plan: --from {str(folder)!r}")


def test_recomputation_that_no_file_says_is_named(tmp_path: Path) -> None:
    folder = written(tmp_path, "deepspeed")
    (folder / "train.py").unlink()
    alone = read(folder, job__sequence_length="4096")
    assert alone.plan.recompute is Recompute.NONE
    assert any(RECOMPUTATION in note for note in alone.notes)


def test_a_script_that_contradicts_its_configuration_is_refused(tmp_path: Path) -> None:
    folder = written(tmp_path, "deepspeed")
    script = folder / "train.py"
    script.write_text(script.read_text().replace("MICRO_BATCH = 2", "MICRO_BATCH = 4"))
    with pytest.raises(InvalidInput, match=r"train_micro_batch_size_per_gpu 2, and line \d+ of train.py .* = 4"):
        read(folder)
    assert read(folder, plan__micro_batch="2").plan.micro_batch == 2


def test_what_the_script_holds_is_no_patch_of_the_configuration(tmp_path: Path) -> None:
    whole = read(written(tmp_path, "accelerate"))
    wished = replace(PLAN, micro_batch=4, num_microbatches=2)
    patch = patch_of(whole, wished, whole.inputs)
    assert patch.diff == ""
    assert patch.settings == {"plan.micro_batch": 4, "plan.num_microbatches": 2}


def test_a_folder_without_a_plan_or_with_two_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="holds no file that `launch` writes"):
        read(tmp_path)
    for framework in ("deepspeed", "accelerate"):
        written(tmp_path, framework)
    with pytest.raises(InvalidInput, match=r"accelerate\.yaml and deepspeed\.json; name one of them"):
        read(tmp_path)


def test_a_model_stands_in_no_configuration_of_accelerate(tmp_path: Path) -> None:
    alone = tmp_path / "accelerate.yaml"
    alone.write_text("distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8\n")
    with pytest.raises(InvalidInput) as raised:
        question_of_file(alone, Given(cluster="1x8:h100"))
    assert "vocab_size (--model_name_or_path of the training script); name it: --model" in str(raised.value)
    assert "stand beside mixed_precision" not in str(raised.value)


def test_a_start_script_names_the_configuration_of_accelerate(tmp_path: Path) -> None:
    folder = written(tmp_path, "accelerate")
    assert str(read(folder / "train.sh").plan) == str(PLAN)
    (folder / "train.py").unlink()
    own = folder / "own.sh"
    own.write_text(
        'accelerate launch --config_file "$HERE/accelerate.yaml" --num_machines 1 --mixed_precision=fp16 sft.py \\\n'
        "  --per_device_train_batch_size 4 --gradient_accumulation_steps 2 --packing\n"
    )
    alone = read(own, job__sequence_length="2048")
    assert (alone.plan.micro_batch, alone.plan.num_microbatches, alone.plan.zero) == (4, 2, 3)
    assert alone.inputs.job.precision == "fp16"
    assert alone.path.name == "accelerate.yaml"
    assert "--packing" in alone.understood.unpriced


def test_a_change_by_hand_says_where_each_setting_stands(tmp_path: Path) -> None:
    """In the configuration, in the script beside it, in both, or in a script that is not known."""
    folder = written(tmp_path, "deepspeed")
    command = ("explain", "--from", str(folder), "--model", "llama-3.1-8b", "--cluster", "1x8:h100")
    wished = (*command, "--micro-batch", "1", "--zero", "2", "--recompute", "none", "--cp", "2")
    said = " ".join(asked(*wished).out.split())
    assert "in deepspeed.json and in train.py beside it, or write both anew with meshwright launch:" in said
    assert "set train_micro_batch_size_per_gpu 1, and set MICRO_BATCH = 1 in train.py" in said
    assert "- set zero_optimization.stage 2 -" in said
    assert "- set RECOMPUTE = 'none' in train.py" in said
    assert "- set CONTEXT_PARALLEL = 2 in train.py" in said
    split = tmp_path / "split"
    split.mkdir()
    inputs = question(llama_8b(), "1x8:h100", "deepspeed", global_batch=64, precision="bf16")
    plan = Plan(cp=2, context_exchange="all_to_all", dp=4, zero=3, num_microbatches=16)
    for name, text in launch_files(plan, inputs, "deepspeed").files.items():
        (split / name).write_text(text)
    whole = asked("explain", "--from", str(split), *command[3:], "--cp", "1", "--recompute", "full")
    assert "leave out sequence_parallel_size, and set CONTEXT_PARALLEL = 1 in train.py" in " ".join(whole.out.split())
    (folder / "train.py").unlink()
    alone = asked(*command, "--set", "job.sequence_length=4096", "--recompute", "full")
    assert "in deepspeed.json and in your training script: - set plan.recompute full" in " ".join(alone.out.split())


@pytest.mark.parametrize("framework", ["deepspeed", "accelerate"])
def test_the_script_names_the_model_that_the_catalogue_has(tmp_path: Path, framework: str) -> None:
    folder = written(tmp_path, framework, read_model("qwen3-8b"))
    again = question_of_file(folder, Given(cluster="1x8:h100"))
    assert (again.inputs.model.name, str(again.plan), again.understood.unknown) == ("qwen3-8b", str(PLAN), {})
    script = folder / "train.py"
    assert "MODEL_NAME = 'Qwen/Qwen3-8B'" in script.read_text()
    assert read(folder).inputs.model.name == "llama-3.1-8b"  # --model goes before it
    script.write_text(script.read_text().replace("MODEL_NAME = ", "OTHER = "))  # as of an earlier release
    with pytest.raises(InvalidInput, match="of the model: layers"):
        question_of_file(folder, Given(cluster="1x8:h100"))


@pytest.mark.parametrize("framework", ["deepspeed", "accelerate"])
def test_a_model_that_differs_from_the_one_of_its_name_is_asked_for(tmp_path: Path, framework: str) -> None:
    folder = written(tmp_path, framework, read_model("qwen3-8b").replace(vocab_size=151_808))
    with pytest.raises(InvalidInput, match=r"the model 'config.json of qwen3-8b' is not in the catalogue: --model"):
        question_of_file(folder, Given(cluster="1x8:h100"))
