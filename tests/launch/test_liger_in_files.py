"""The kernels of Liger: read where configurations of fine-tuning switch them on, and written back."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshwright.answers.launch.files import launch_files
from meshwright.errors import InvalidInput, InvalidSpec
from meshwright.launch.facts import LIGER_IN_PLACE
from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import LIGER, position_of, with_behaviours
from meshwright.specs.job import Job
from meshwright.specs.reading.inputs import read_inputs
from meshwright.specs.runtime import read_runtime

AXOLOTL = """base_model: NousResearch/Meta-Llama-3.1-8B
plugins:
  - axolotl.integrations.liger.LigerPlugin
liger_rope: true
liger_rms_norm: true
liger_glu_activation: true
liger_fused_linear_cross_entropy: true
sequence_len: 4096
micro_batch_size: 2
bf16: true
gradient_checkpointing: true
fsdp_version: 2
fsdp_config:
  reshard_after_forward: true
"""
FACTORY = """model_name_or_path: Qwen/Qwen3-8B
stage: sft
finetuning_type: full
deepspeed: ds.json
enable_liger_kernel: true
cutoff_len: 4096
per_device_train_batch_size: 2
bf16: true
"""
TRL = """model_name_or_path: Qwen/Qwen3-8B
use_liger_kernel: true
max_length: 4096
packing: false
per_device_train_batch_size: 2
bf16: true
gradient_checkpointing: true
"""
SCRIPT = (
    "torchrun --nproc_per_node 8 train.py --model_name_or_path Qwen/Qwen3-8B --bf16 True --model_max_length 4096 "
    "--per_device_train_batch_size 2 --deepspeed ds.json --use_liger_kernel True --gradient_checkpointing True\n"
)
FILES = {"axolotl.yaml": AXOLOTL, "factory.yaml": FACTORY, "trl.yaml": TRL, "run.sh": SCRIPT}


def imported(folder: Path, name: str, text: str) -> LaunchQuestion:
    (folder / "ds.json").write_text('{"zero_optimization": {"stage": 3}, "bf16": {"enabled": true}}')
    path = folder / name
    path.write_text(text)
    return question_of_file(path, Given(cluster="1x8:h100", values={"zero_optimization.stage": "3"}))


@pytest.mark.parametrize("name", FILES)
def test_they_are_priced_where_a_file_has_them(tmp_path: Path, name: str) -> None:
    question = imported(tmp_path, name, FILES[name])
    assert position_of(question.inputs.runtime, LIGER) == "on"
    assert not any("liger" in key for key in question.understood.unknown)


@pytest.mark.parametrize("name", FILES)
def test_they_are_not_where_it_switches_them_off(tmp_path: Path, name: str) -> None:
    text = "\n".join(
        line.replace("true", "false") if "liger" in line else line for line in FILES[name].splitlines()
    ).replace("--use_liger_kernel True", "--use_liger_kernel False")
    assert position_of(imported(tmp_path, name, text).inputs.runtime, LIGER) == "off"


def test_axolotl_switches_its_parts(tmp_path: Path) -> None:
    text = AXOLOTL.replace("liger_fused_linear_cross_entropy: true\n", "")
    kernels = imported(tmp_path, "axolotl.yaml", text).inputs.runtime.kernels
    assert (kernels.elementwise, kernels.cross_entropy) == ("liger", "eager")


@pytest.mark.parametrize("left", ["liger_rope", "liger_rms_norm"])
def test_kernels_that_are_priced_together_are_told_one_by_one(tmp_path: Path, left: str) -> None:
    question = imported(tmp_path, "axolotl.yaml", AXOLOTL.replace(f"{left}: true\n", ""))
    assert question.inputs.runtime.kernels.elementwise != "liger"
    assert any(f"without {left}: norms and rotary positions are priced" in note for note in question.notes)


@pytest.mark.parametrize("framework", ["accelerate", "deepspeed"])
@pytest.mark.parametrize("position", ["on", "off"])
def test_training_scripts_apply_them(framework: str, position: str) -> None:
    inputs = read_inputs("llama-3.1-8b", "1x8:h100", Job(sequence_length=4096, global_batch=64), framework)
    inputs = inputs.replace(runtime=with_behaviours(inputs.runtime, [f"liger={position}"]))
    script = launch_files(Plan(dp=8, zero=3, num_microbatches=8), inputs, framework).files["train.py"]
    assert f"\nLIGER = {position == 'on'}\n" in script
    assert "_apply_liger_kernel_to_instance(model=made, **losses)" in script


def test_axolotl_reads_them_by_its_plugin_alone(tmp_path: Path) -> None:
    text = AXOLOTL.replace("plugins:\n  - axolotl.integrations.liger.LigerPlugin\n", "")
    question = imported(tmp_path, "axolotl.yaml", text)
    assert position_of(question.inputs.runtime, LIGER) == "off"
    assert any("without axolotl.integrations.liger.LigerPlugin" in note for note in question.notes)


@pytest.mark.parametrize("framework", ["accelerate", "deepspeed", "pytorch-fsdp1", "pytorch-ddp"])
@pytest.mark.parametrize("model", ["falcon-7b", "pythia-6.9b", "minimax-m2"])
def test_models_that_liger_has_no_kernels_for_are_refused_with_them(framework: str, model: str) -> None:
    inputs = read_inputs(model, "8x8:h100", Job(sequence_length=2048, global_batch=64), framework)
    with pytest.raises(InvalidSpec, match=r"liger: has no kernels .* use --with liger=off"):
        inputs.replace(runtime=with_behaviours(inputs.runtime, ["liger=on"]))


@pytest.mark.parametrize("family", ["qwen3_vl_text", "qwen3_moe", "gemma3_text", "phi3"])
def test_text_models_that_liger_has_are_priced_with_them(family: str) -> None:
    inputs = read_inputs("qwen3-8b", "1x8:h100", Job(sequence_length=2048, global_batch=64), "accelerate")
    inputs = inputs.replace(model=inputs.model.replace(family=family))
    assert inputs.replace(runtime=with_behaviours(inputs.runtime, ["liger=on"])).runtime.entropy.fuses_head


def test_the_loss_of_liger_that_keeps_logits_is_priced_in_place(tmp_path: Path) -> None:
    plain = AXOLOTL.replace("fused_linear_cross", "cross")
    path = tmp_path / "a.yaml"
    path.write_text(plain)
    question = question_of_file(path, Given(cluster="1x8:h100"))
    assert question.inputs.runtime.kernels.cross_entropy == "in_place"
    assert not {key for key in (*question.understood.unpriced, *question.understood.unknown) if "liger" in key}
    path.write_text(f"{plain}liger_fused_linear_cross_entropy: true\n")
    refused = question_of_file(path, Given(cluster="1x8:h100"))
    assert [rule.name for rule in refused.rules if not rule.kept] == ["one_loss_of_liger"]
    path.write_text(plain.replace("plugins:\n  - axolotl.integrations.liger.LigerPlugin\n", ""))
    assert question_of_file(path, Given(cluster="1x8:h100")).inputs.runtime.kernels.cross_entropy == "eager"


@pytest.mark.parametrize(
    ("framework", "least"), [("accelerate", 10), ("pytorch-ddp", 10), ("deepspeed", 6), ("pytorch-fsdp1", 6)]
)
def test_a_loss_in_place_keeps_fewer_bytes_of_logits_than_an_eager_one(framework: str, least: int) -> None:
    """accelerate copies the output of a model to fp32 where it trains beneath autocast."""
    entropies = read_runtime(framework).cross_entropies
    assert [entropies[name].alive_bytes for name in ("eager", "in_place", "fused_linear")] == [12, least, 2]


@pytest.mark.parametrize(("file", "text"), [("trl.yaml", TRL), ("factory.yaml", FACTORY)])
@pytest.mark.parametrize(
    ("config", "loss"),
    [
        ("cross_entropy: true\n  fused_linear_cross_entropy: false", "in_place"),
        ("fused_linear_cross_entropy: false", "eager"),
        ("rope: true", "fused_linear"),
    ],
)
def test_the_trainer_hands_liger_its_words(tmp_path: Path, file: str, text: str, config: str, loss: str) -> None:
    own = text.replace("enable_liger_kernel", "use_liger_kernel")
    question = imported(tmp_path, file, f"{own}liger_kernel_config:\n  {config}\n")
    kernels = question.inputs.runtime.kernels
    assert (kernels.elementwise, kernels.cross_entropy) == ("liger", loss)
    assert not {key for key in (*question.understood.unpriced, *question.understood.unknown) if "liger" in key}
    assert all(rule.kept for rule in question.rules)


@pytest.mark.parametrize(("file", "text"), [("trl.yaml", TRL), ("factory.yaml", FACTORY)])
@pytest.mark.parametrize("fused", ["", "  fused_linear_cross_entropy: true\n"])
def test_both_losses_of_liger_are_refused_as_it_does(tmp_path: Path, file: str, text: str, fused: str) -> None:
    own = text.replace("enable_liger_kernel", "use_liger_kernel")
    with pytest.raises(InvalidInput, match=r"cross_entropy is true .* Liger takes one of the two"):
        imported(tmp_path, file, f"{own}liger_kernel_config:\n  cross_entropy: true\n{fused}")


def test_a_part_that_liger_leaves_out_is_told(tmp_path: Path) -> None:
    question = imported(tmp_path, "trl.yaml", f"{TRL}liger_kernel_config:\n  rope: false\n")
    assert "liger_kernel_config.rope" in question.understood.unpriced


def test_a_file_of_accelerate_and_one_of_its_program_say_so_too(tmp_path: Path) -> None:
    (tmp_path / "acc.yaml").write_text(
        "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8\nfsdp_config:\n  fsdp_version: 2\n"
    )
    own = f"{TRL}liger_kernel_config:\n  cross_entropy: true\n  fused_linear_cross_entropy: false\n"
    (tmp_path / "trl.yaml").write_text(own)
    (tmp_path / "run.sh").write_text("accelerate launch --config_file acc.yaml sft.py --config trl.yaml\n")
    given = Given(cluster="1x8:h100", values={"job.global_batch": "64", "job.sequence_length": "4096"})
    question = question_of_file(tmp_path / "run.sh", given)
    assert position_of(question.inputs.runtime, LIGER) == LIGER_IN_PLACE


@pytest.mark.parametrize("framework", ["accelerate", "deepspeed"])
def test_training_scripts_ask_liger_for_the_loss_that_keeps_logits(tmp_path: Path, framework: str) -> None:
    inputs = read_inputs("qwen3-8b", "1x8:h100", Job(sequence_length=4096, global_batch=64), framework)
    changes = ["liger=on", "cross_entropy=in_place"]
    inputs = inputs.replace(runtime=with_behaviours(inputs.runtime, changes))
    files = launch_files(Plan(dp=8, zero=3, num_microbatches=8), inputs, framework).files
    assert "\nLIGER = 'in_place'\n" in files["train.py"]
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    again = question_of_file(tmp_path, Given(cluster="1x8:h100"))
    assert again.inputs.runtime.kernels == inputs.runtime.kernels
    assert not {*again.understood.unknown, *again.understood.wrong}


@pytest.mark.parametrize("framework", ["accelerate", "deepspeed", "pytorch-ddp"])
def test_models_whose_loss_liger_does_not_replace_are_refused_with_it(framework: str) -> None:
    inputs = read_inputs("qwen3-8b", "1x8:h100", Job(sequence_length=4096, global_batch=64), framework)
    mistral = inputs.replace(model=inputs.model.replace(family="mistral"))
    assert mistral.replace(runtime=with_behaviours(inputs.runtime, ["liger=on"])).runtime.entropy.fuses_head
    with pytest.raises(
        InvalidSpec, match=r"does not replace the loss of models of type mistral .* cross_entropy=eager"
    ):
        mistral.replace(runtime=with_behaviours(inputs.runtime, ["liger=in_place"]))
