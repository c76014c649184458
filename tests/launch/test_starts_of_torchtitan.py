"""Scripts that name a recipe of torchtitan, and those that start a program of their own under DeepSpeed."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshwright.errors import InvalidInput
from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file

RUN = """NGPU=${NGPU:-"8"}
MODULE=${MODULE:-"llama3"}
CONFIG=${CONFIG:-"llama3_8b"}
torchrun --nproc_per_node=${NGPU} -m torchtitan.train --module ${MODULE} --config ${CONFIG} OPTIONS
"""
REGISTRY = """from torchtitan.models.llama3 import model_registry
from torchtitan.trainer import Trainer
from torchtitan.config import ParallelismConfig, TrainingConfig


def llama3_8b() -> Trainer.Config:
    return Trainer.Config(
        model_spec=model_registry("8B"),
        training=TrainingConfig(local_batch_size=1, seq_len=8192),
        parallelism=ParallelismConfig(tensor_parallel_degree=1, pipeline_parallel_degree=1, context_parallel_degree=1),
    )


def llama3_70b() -> Trainer.Config:
    return Trainer.Config(
        model_spec=model_registry("70B"),
        training=TrainingConfig(local_batch_size=1, seq_len=8192),
        parallelism=ParallelismConfig(tensor_parallel_degree=8, pipeline_parallel_degree=1, context_parallel_degree=1),
    )
"""


def read(folder: Path, options: str = '"$@"', **values: str) -> LaunchQuestion:
    (folder / "run_train.sh").write_text(RUN.replace("OPTIONS", options))
    return question_of_file(folder / "run_train.sh", Given(cluster="h100", values=values))


def registered(folder: Path) -> Path:
    place = folder / "torchtitan" / "models" / "llama3"
    place.mkdir(parents=True)
    (place / "config_registry.py").write_text(REGISTRY)
    return folder


def test_a_script_is_read_as_the_recipe_that_it_names(tmp_path: Path) -> None:
    question = read(registered(tmp_path))
    assert (question.dialect.name, question.inputs.model.name) == ("torchtitan", "llama-3.1-8b")
    assert (question.inputs.cluster.num_gpus, question.plan.tp, question.plan.dp) == (8, 1, 8)
    other = read(tmp_path, CONFIG="llama3_70b", NGPU="16")
    assert (other.inputs.model.name, other.plan.tp, other.inputs.cluster.num_gpus) == ("llama-3.1-70b", 8, 16)


def test_options_beside_it_go_before_the_recipe(tmp_path: Path) -> None:
    options = "--parallelism.tensor-parallel-degree 2 --training.local_batch_size 4"
    question = read(registered(tmp_path), options)
    assert (question.plan.tp, question.plan.dp, question.inputs.job.global_batch) == (2, 4, 16)


def test_a_recipe_that_is_not_there_is_named_with_its_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"in torchtitan/models/llama3/config_registry.py, which is neither beside"):
        read(tmp_path)
    with pytest.raises(InvalidInput, match="has no function 'llama3_9b' with settings; it has llama3_8b"):
        read(registered(tmp_path), CONFIG="llama3_9b")
    (tmp_path / "run_train.sh").write_text("torchrun -m torchtitan.train --module llama3 --config $RECIPE\n")
    with pytest.raises(InvalidInput, match=r"--set RECIPE=\.\.\."):
        question_of_file(tmp_path / "run_train.sh", Given(cluster="h100"))


@pytest.mark.parametrize(("stages", "pipeline"), [("-p 2", True), ("--num_stages 4", True), ("", False)])
def test_a_program_of_its_own_under_deepspeed_says_what_to_give(tmp_path: Path, stages: str, pipeline: bool) -> None:
    path = tmp_path / "run.sh"
    path.write_text(f"deepspeed --num_gpus 8 train.py {stages} --steps 200 --deepspeed_config=ds.json\n")
    with pytest.raises(InvalidInput) as raised:
        question_of_file(path, Given(cluster="1x8:h100"))
    assert "line 1, starts train.py with DeepSpeed's ds.json" in str(raised.value)
    assert "--from ds.json with --model" in str(raised.value)
    assert ("num_stages of its PipelineModule" in str(raised.value)) == pipeline
