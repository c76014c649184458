"""Values that are said beside a file: read, or told where it reads them nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from launch_examples import TITAN
from meshwright.errors import InvalidInput
from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file
from meshwright.specs.behaviours import position_of

FACTORY = """model_name_or_path: meta-llama/Llama-3.1-8B
stage: sft
finetuning_type: full
per_device_train_batch_size: 1
bf16: true
"""
SCRIPT = """NODES=${NODES:-1}
torchrun --nnodes $NODES --nproc_per_node 8 train.py --model_name_or_path meta-llama/Llama-3.1-8B --bf16 True \\
  --per_device_train_batch_size 1 --model_max_length 2048 --gradient_checkpointing True
"""
RECIPE = """import nemo_run as run
from nemo.collections import llm


def configure(nodes: int = 2, gpus_per_node: int = 8):
    recipe = llm.llama31_8b.pretrain_recipe(name="precision", num_nodes=nodes, num_gpus_per_node=gpus_per_node)
    recipe.trainer.strategy.tensor_model_parallel_size = 2
    recipe.trainer.strategy.pipeline_model_parallel_size = 1
    recipe.trainer.strategy.context_parallel_size = 1
    recipe.data.global_batch_size = 64
    recipe.data.micro_batch_size = 1
    recipe.data.seq_length = 8192
    return recipe
"""


def read(folder: Path, name: str, text: str, cluster: str = "1x8:h100", **values: str) -> LaunchQuestion:
    (folder / name).write_text(text)
    said = {key.replace("__", "."): value for key, value in values.items()}
    return question_of_file(folder / name, Given(cluster=cluster, model="llama-3.1-8b", values=said))


def test_a_key_without_a_dot_is_a_setting_of_a_configuration(tmp_path: Path) -> None:
    question = read(tmp_path, "a.yaml", FACTORY, gradient_accumulation_steps="4", cutoff_len="1024")
    assert (question.inputs.job.global_batch, question.inputs.job.sequence_length) == (32, 1024)
    assert not any("does not read" in note for note in question.notes)


def test_what_is_read_nowhere_is_told_whatever_words_the_file_has(tmp_path: Path) -> None:
    question = read(tmp_path, "a.yaml", FACTORY, llama="4")
    assert "--set llama: a.yaml itself does not read llama" in question.notes
    question = read(tmp_path, "a.sh", SCRIPT, "h100", NODES="2", gradient_accumulation_steps="2")
    assert question.inputs.cluster.num_gpus == 16
    told = [note for note in question.notes if "--set" in note]
    assert told == [
        "--set gradient_accumulation_steps: a.sh itself does not read gradient_accumulation_steps; "
        "nearest: --set --gradient_accumulation_steps=..."
    ]


def test_a_recipe_of_nemo_asks_in_its_own_words_and_says_its_machines(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as raised:
        read(tmp_path, "a.py", RECIPE, "h100", precision="bf16-mixed")
    assert "precision: not in the file; --set trainer.precision=bf16-mixed" in str(raised.value)
    assert "a.py itself does not read precision" in str(raised.value)
    question = read(tmp_path, "a.py", RECIPE, "h100", trainer__precision="bf16-mixed", nodes="4")
    assert (question.inputs.cluster.num_gpus, question.plan.tp) == (32, 2)


BRIDGE = """from megatron.bridge import AutoBridge
from megatron.bridge.recipes.common import _pretrain_common

def recipe():
    cfg = _pretrain_common()
    cfg.model = AutoBridge.from_hf_pretrained("meta-llama/Llama-3.1-8B").to_megatron_provider(load_weights=False)
    cfg.model.tensor_model_parallel_size = 2
    cfg.model.sequence_parallel = True
    cfg.model.seq_length = 4096
    cfg.train.micro_batch_size = 1
    cfg.train.global_batch_size = 32
    return cfg
"""


@pytest.mark.parametrize(
    ("name", "text", "setting", "switch"),
    [
        ("run.toml", TITAN, "compile.enable", "compiled"),
        ("run.py", BRIDGE, "model.bias_activation_fusion", "activation_fusion"),
        ("run.py", BRIDGE, "comm_overlap.tp_comm_overlap", "tensor_parallel_overlap"),
    ],
)
def test_a_switch_is_given_as_the_file_would_hold_it(
    tmp_path: Path, name: str, text: str, setting: str, switch: str
) -> None:
    """Its word was taken for a text, which is there and so on."""
    on, off = (
        read(tmp_path, name, text, **{setting.replace(".", "__"): value}).inputs.runtime for value in ("true", "False")
    )
    assert (position_of(on, switch), position_of(off, switch)) in [("on", "off"), ("true", "false")]
