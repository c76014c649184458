"""How many GPUs a script starts, where its launcher alone says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshwright.errors import InvalidInput
from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file

PROGRAM = (
    "train.py --model_name_or_path Qwen/Qwen3-8B --model_max_length 4096 --per_device_train_batch_size 1 "
    "--deepspeed ds.json --bf16 True\n"
)
ONE_NODE = "deepspeed without a hostfile or --num_nodes starts one node"


def read(folder: Path, launcher: str) -> LaunchQuestion:
    (folder / "ds.json").write_text('{"zero_optimization": {"stage": 3}}')
    (folder / "a.sh").write_text(f"{launcher} {PROGRAM}")
    return question_of_file(folder / "a.sh", Given(cluster="h100"))


@pytest.mark.parametrize(
    ("launcher", "nodes", "per_node", "told"),
    [
        ("deepspeed --num_gpus=8", 1, 8, True),
        ("deepspeed --num_gpus 4 --master_port 29501", 1, 4, True),
        ("deepspeed --num_gpus 4 --num_nodes 2", 2, 4, False),
        ("#SBATCH --nodes=2\ndeepspeed --num_gpus 4", 2, 4, False),
        ("deepspeed --include localhost:0,1,2,3", 1, 4, False),
        ("deepspeed -i worker-0:0,1@worker-1:4,5", 2, 2, False),
    ],
)
def test_the_options_of_deepspeed_count(tmp_path: Path, launcher: str, nodes: int, per_node: int, told: bool) -> None:
    question = read(tmp_path, launcher)
    cluster = question.inputs.cluster
    assert (cluster.num_gpus, cluster.gpus_per_node) == (nodes * per_node, per_node)
    assert any(note.startswith(ONE_NODE) for note in question.notes) == told


@pytest.mark.parametrize(
    "launcher",
    [
        "deepspeed --num_gpus 4 --hostfile hosts",
        "deepspeed --include worker-0@worker-1:0,1",
        "deepspeed --include worker-0:0,1@worker-1:0,1,2",
        "python",
    ],
)
def test_what_no_option_counts_is_asked_for(tmp_path: Path, launcher: str) -> None:
    with pytest.raises(InvalidInput, match="how many GPUs it starts: --cluster NODESxGPUS:h100"):
        read(tmp_path, launcher)
