"""Recipes of NeMo 2 that start from others: followed in the same source tree, else asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshwright.errors import InvalidInput
from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file

RECIPES = Path("nemo", "collections", "llm", "recipes")
BASE = """import nemo_run as run
from nemo.collections.llm.recipes.precision.mixed_precision import bf16_mixed

def model():
    return run.Config(LlamaModel, config=run.Config(Llama3Config8B))

def trainer(context_parallelism: int = 2, num_nodes: int = 1, callbacks=None):
    strategy = run.Config(
        nl.MegatronStrategy,
        tensor_model_parallel_size=1,
        context_parallel_size=context_parallelism,
        ddp=run.Config(DistributedDataParallelConfig, grad_reduce_in_fp32=True, overlap_grad_reduce=True),
    )
    return run.Config(
        nl.Trainer, devices=8, num_nodes=num_nodes, plugins=bf16_mixed(), strategy=strategy, callbacks=callbacks
    )

def pretrain_recipe(num_nodes: int = 1):
    return run.Partial(
        pretrain,
        model=model(),
        trainer=trainer(num_nodes=num_nodes, callbacks=[run.Config(TimingCallback)]),
        data=run.Config(MockDataModule, seq_length=8192, global_batch_size=512, micro_batch_size=1),
        optim=run.Config(
            MegatronOptimizerModule, config=run.Config(OptimizerConfig, lr=3e-4, use_distributed_optimizer=True)
        ),
    )
"""
PRECISION = """import nemo_run as run

def bf16_mixed():
    return run.Config(MegatronMixedPrecision, precision="bf16-mixed", grad_reduce_in_fp32=True)

def bf16_with_mxfp8_mixed():
    cfg = bf16_mixed()
    cfg.fp8 = "hybrid"
    cfg.fp8_recipe = "mxfp8"
    return cfg
"""
MINE = """import nemo_run as run
from nemo.collections import llm

def configured(nodes: int = 2):
    recipe = llm.llama3_8b.pretrain_recipe(num_nodes=nodes)
    recipe.trainer.strategy.tensor_model_parallel_size = 4
    recipe.trainer.strategy.sequence_parallel = True
    return recipe

if __name__ == "__main__":
    run.run(configured())
"""


def tree(folder: Path) -> Path:
    """A folder with the modules that recipes start from."""
    (folder / RECIPES / "precision").mkdir(parents=True)
    (folder / RECIPES / "__init__.py").write_text("from nemo.collections.llm.recipes import llama3_8b\n")
    (folder / RECIPES / "llama3_8b.py").write_text(BASE)
    (folder / RECIPES / "precision" / "mixed_precision.py").write_text(PRECISION)
    return folder


def imported(path: Path, text: str, cluster: str = "2x8:h100", **values: str) -> LaunchQuestion:
    path.write_text(text)
    return question_of_file(path, Given(cluster=cluster, values=values))


@pytest.mark.parametrize(
    ("start", "called"),
    [
        ("from nemo.collections import llm", "llm.llama3_8b.pretrain_recipe"),
        ("from nemo.collections.llm.recipes import llama3_8b", "llama3_8b.pretrain_recipe"),
        ("from nemo.collections.llm.recipes.llama3_8b import pretrain_recipe as start", "start"),
        ("import nemo.collections.llm.recipes.llama3_8b as base", "base.pretrain_recipe"),
    ],
)
def test_recipes_of_the_same_source_tree_are_followed(tmp_path: Path, start: str, called: str) -> None:
    text = MINE.replace("from nemo.collections import llm", start).replace("llm.llama3_8b.pretrain_recipe", called)
    question = imported(tree(tmp_path) / "mine.py", text)
    assert str(question.plan) == "tp4 sp cp2 ring pp1 dp2 zero1 mbs1 m256"
    assert (question.inputs.model.name, question.inputs.job.precision) == ("llama-3-8b", "bf16")


def test_a_recipe_may_be_called_as_the_one_that_it_starts_from(tmp_path: Path) -> None:
    text = """from nemo.collections.llm.recipes import llama3_8b

def pretrain_recipe():
    recipe = llama3_8b.pretrain_recipe(num_nodes=2)
    recipe.trainer = llama3_8b.trainer(context_parallelism=4, num_nodes=2)
    recipe.data.seq_length = 65536
    return recipe
"""
    question = imported(tree(tmp_path) / RECIPES / "llama3_8b_64k.py", text)
    assert (question.plan.cp, question.plan.dp, question.inputs.job.sequence_length) == (4, 4, 65536)


def test_degrees_of_a_recipe_that_is_not_there_are_asked_for(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as error:
        imported(tmp_path / "mine.py", MINE)
    for degree in ("pipeline_model_parallel_size", "context_parallel_size"):
        assert f"line 5: model.{degree} rests on llm.llama3_8b.pretrain_recipe, which is not read" in str(error.value)
    assert "model.tensor_model_parallel_size rests" not in str(error.value)


def test_callbacks_that_are_added_count(tmp_path: Path) -> None:
    added = """    overlap = run.Config(MegatronCommOverlapCallback, tp_comm_overlap=True)
    recipe.trainer.callbacks.append(overlap)
    return recipe
"""
    folder = tree(tmp_path)
    assert imported(folder / "mine.py", MINE).inputs.runtime.overlap.tensor_parallel == 0
    question = imported(folder / "mine.py", MINE.replace("    return recipe\n", added))
    assert question.inputs.runtime.overlap.tensor_parallel > 0


def test_a_precision_goes_before_what_ddp_says(tmp_path: Path) -> None:
    folder = tree(tmp_path)
    line = "    recipe.trainer.strategy.ddp.grad_reduce_in_fp32 = False\n    return recipe\n"
    wide = imported(folder / "mine.py", MINE.replace("    return recipe\n", line))
    half = imported(folder / "mine.py", MINE.replace("    return recipe\n", line.replace("strategy.ddp", "plugins")))
    assert (wide.inputs.job.gradients, half.inputs.job.gradients) == (None, "half")


def test_precisions_are_known_by_their_fields_and_by_their_names(tmp_path: Path) -> None:
    said = "    recipe.trainer.plugins = bf16_with_mxfp8_mixed()\n    return recipe\n"
    text = MINE.replace("    return recipe\n", said)
    module = "from nemo.collections.llm.recipes.precision.mixed_precision import bf16_with_mxfp8_mixed\n"
    for start in ("", module):
        question = imported(tree(tmp_path / str(bool(start))) / "mine.py", start + text, cluster="2x8:b200")
        assert question.inputs.job.precision == "mxfp8"


def test_sizes_beside_the_class_of_a_model_make_another_one(tmp_path: Path) -> None:
    text = MINE.replace("    return recipe\n", "    recipe.model.config.num_layers = 12\n    return recipe\n")
    with pytest.raises(InvalidInput, match=r"of the model: model\.hidden_size"):
        imported(tree(tmp_path) / "mine.py", text)
