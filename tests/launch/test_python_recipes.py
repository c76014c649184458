"""Recipes in Python: objects, defaults of parameters, functions that start from others; parsed and never run."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshwright.errors import InvalidInput
from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file

RECIPES = """
from torchtitan.models.common.config_utils import decoder_vocab_size
from torchtitan.trainer import Trainer
from . import model_registry

def llama3_8b(tp: int = 2, *, length=8192):
    model_spec = model_registry("8B")
    return Trainer.Config(
        model_spec=model_spec,
        training=TrainingConfig(num_tokens_per_microbatch_per_dp_rank=2 * 8192, max_context_length=length),
        parallelism=ParallelismConfig(tensor_parallel_degree=tp, data_parallel_shard_degree=-1),
        activation_checkpoint=FullAC.Config(),
    )

def llama3_8b_pipeline():
    config = llama3_8b()
    config.model_spec = model_registry("8B", converters=[Float8LinearConverter.Config(filter_fqns=["lm_head"])])
    config.parallelism.pipeline_parallel_degree = 2
    config.parallelism.num_pp_microbatches = 4
    config.training.num_tokens_per_train_step = 8192 * 64
    config.activation_checkpoint = None
    return config
"""


def imported(folder: Path, text: str, **values: str) -> LaunchQuestion:
    path = folder / "config_registry.py"
    path.write_text(text)
    return question_of_file(path, Given(cluster="2x8:h100", values=values))


def test_objects_and_tokens_are_read_as_today_s_release_has_them(tmp_path: Path) -> None:
    question = imported(tmp_path, RECIPES, function="llama3_8b")
    assert str(question.plan) == "tp2 sp pp1 dp8 zero3 mbs2 m1 recompute-full"
    assert (question.inputs.model.name, question.inputs.job.sequence_length) == ("llama-3.1-8b", 8192)
    assert "16384 tokens of a micro-batch are 2 sequences of 8192" in question.notes


@pytest.mark.parametrize(
    ("package", "function", "model"),
    [
        ("qwen3", "qwen3_4b", "qwen3-4b"),
        ("qwen3", "sft_qwen3_4b_math", "qwen3-4b"),
        ("qwen3_5", "qwen35_4b", "'qwen3_5 4B' is not in the catalogue"),
        ("kimi_k2_7", "moonlight_4b", "'kimi_k2_7 4B' is not in the catalogue"),
        ("", "sft_qwen3_4b_math", "qwen3-4b"),
        ("", "qwen35_4b", "'qwen35 4B' is not in the catalogue"),
    ],
)
def test_a_model_is_of_the_package_whose_registry_makes_it(
    tmp_path: Path, package: str, function: str, model: str
) -> None:
    """Qwen3.5 was read as Qwen3, and models of Kimi as those of DeepSeek whose modules they are built from."""
    folder = tmp_path / "models" / package if package else tmp_path
    folder.mkdir(parents=True, exist_ok=True)
    text = RECIPES.replace("llama3_8b", function).replace('"8B"', '"4B"')
    text = f"from torchtitan.models.deepseek_v3.model import Attention\n{text}"
    if model.startswith("qwen"):
        assert imported(folder, text, function=function).inputs.model.name == model
    else:
        with pytest.raises(InvalidInput, match=model):
            imported(folder, text, function=function)


def test_a_function_starts_from_those_that_it_calls(tmp_path: Path) -> None:
    """The only function that no other calls need not be named."""
    question = imported(tmp_path, RECIPES)
    plan, job = question.plan, question.inputs.job
    assert (plan.tp, plan.pp, plan.dp, plan.micro_batch, plan.num_microbatches) == (2, 2, 4, 2, 8)
    assert (plan.recompute.name, job.precision, job.global_batch) == ("NONE", "fp8-rowwise", 64)


@pytest.mark.parametrize(
    ("said", "elementwise", "cross_entropy"),
    [
        ("", "eager", "chunked"),  # in every release nothing is compiled unless a file says so
        ("enable=False", "eager", "chunked"),
        ("enable=True", "fused", "chunked_compiled"),
        ('enable=True, components=["loss"]', "eager", "chunked_compiled"),
        ('enable=True, components=["model"]', "fused", "chunked"),
    ],
)
def test_what_is_compiled_is_what_the_file_says(
    tmp_path: Path, said: str, elementwise: str, cross_entropy: str
) -> None:
    text = RECIPES.replace(
        "        model_spec=model_spec,", f"        compile=CompileConfig({said}), model_spec=model_spec,"
    )
    question = imported(tmp_path, text if said else RECIPES, function="llama3_8b")
    kernels = question.inputs.runtime.kernels
    assert (kernels.elementwise, kernels.cross_entropy) == (elementwise, cross_entropy)
    assert any("compile.enable, which is not in the file" in note for note in question.notes) == (not said)


def test_a_recipe_of_torchtitan_starts_from_one_of_its_source_tree(tmp_path: Path) -> None:
    """Where that is not there, the degrees are asked for."""
    models = tmp_path / "torchtitan" / "models" / "llama3"
    text = """from torchtitan.models.llama3.config_registry import llama3_8b

def mine():
    config = llama3_8b()
    config.parallelism.pipeline_parallel_degree = 2
    config.training.local_batch_size = 4
    return config
"""
    with pytest.raises(
        InvalidInput, match=r"line 4: parallelism\.tensor_parallel_degree rests on llama3_8b, which is not"
    ):
        imported(tmp_path, text)
    models.mkdir(parents=True)
    (models / "config_registry.py").write_text(RECIPES)
    question = imported(tmp_path, text)
    assert (question.inputs.model.name, question.plan.tp, question.plan.pp) == ("llama-3.1-8b", 2, 2)


def test_targets_of_one_assignment_have_each_their_own_value(tmp_path: Path) -> None:
    """Values are those from before it, and what is not listed is open."""
    body = (
        "    config = llama3_8b()\n"
        "    one, (four, *others) = 1, (4, *rest)\n"
        "    one, four = four, one\n"
        "    config.parallelism.tensor_parallel_degree, config.parallelism.pipeline_parallel_degree = one, 2\n"
    )
    question = imported(tmp_path, RECIPES + f"\ndef mine():\n{body}    return config\n", function="mine")
    assert (question.plan.tp, question.plan.pp) == (4, 2)
    opened = body.replace("= one, 2", "= degrees()")
    with pytest.raises(InvalidInput, match=r"parallelism\.tensor_parallel_degree.*degrees\(\)\[0\]"):
        imported(tmp_path, RECIPES + f"\ndef mine():\n{opened}    return config\n", function="mine")


def test_one_value_is_given_to_several_targets(tmp_path: Path) -> None:
    """All of them have it, from before the assignment; no change of the file writes over it for one of them."""
    body = (
        "    config = llama3_8b()\n"
        "    one, four = 4, 1\n"
        "    one, four = pair = four, one\n"
        "    config.parallelism.tensor_parallel_degree = config.parallelism.pipeline_parallel_degree = two = 2\n"
        "    config.parallelism.context_parallel_degree = four\n"
        "    config.parallelism.data_parallel_replicate_degree = 1\n"
    )
    question = imported(tmp_path, RECIPES + f"\ndef mine():\n{body}    return config\n", function="mine")
    assert (question.plan.tp, question.plan.pp, question.plan.cp) == (2, 2, 4)
    spans = {each.key.rpartition(".")[2]: each.span for each in question.settings.settings}
    assert spans["tensor_parallel_degree"] is spans["pipeline_parallel_degree"] is None
    assert spans["data_parallel_replicate_degree"]


def test_functions_that_call_each_other_are_read_once(tmp_path: Path) -> None:
    again = RECIPES.replace("    model_spec = model", "    llama3_8b_pipeline()\n    model_spec = model")
    with pytest.raises(InvalidInput, match="holds 2 recipes; name one: --set function=NAME"):
        imported(tmp_path, again)
    assert imported(tmp_path, again, function="llama3_8b").plan.tp == 2


NEMO = """
import nemo_run as run
from nemo.collections.llm.gpt.model.llama import Llama31Config70B, LlamaModel

def model():
    conf = run.Config(Llama31Config70B)
    conf.seq_length = 8192
    return run.Config(LlamaModel, config=conf)

def trainer(tensor_parallelism: int = 4, virtual=5):
    ddp = run.Config(DistributedDataParallelConfig, grad_reduce_in_fp32=False, overlap_grad_reduce=True)
    strategy = run.Config(
        nl.MegatronStrategy,
        tensor_model_parallel_size=tensor_parallelism,
        pipeline_model_parallel_size=4,
        virtual_pipeline_model_parallel_size=virtual,
        sequence_parallel=True,
        ddp=ddp,
    )
    trainer = run.Config(nl.Trainer, devices=8, num_nodes=4, plugins=bf16_mixed(), strategy=strategy)
    return trainer

def pretrain_recipe(num_nodes: int = 1):
    return run.Partial(
        pretrain,
        model=model(),
        trainer=trainer(),
        data=run.Config(MockDataModule, seq_length=8192, global_batch_size=512, micro_batch_size=1),
        optim=distributed_fused_adam_with_cosine_annealing(max_lr=3e-4),
    )

def finetune_recipe():
    recipe = default_finetune_recipe(model())
    recipe.data.global_batch_size = 128
    return recipe
"""


def test_a_recipe_of_nemo_is_read_with_its_classes(tmp_path: Path) -> None:
    path = tmp_path / "llama31_70b.py"
    path.write_text(NEMO)
    question = question_of_file(path, Given(cluster="h100", values={"function": "pretrain_recipe"}))
    assert str(question.plan) == "tp4 sp pp4 vpp5 dp2 zero1 mbs1 m256"
    assert (question.inputs.model.name, question.inputs.job.precision) == ("llama-3.1-70b", "bf16")
    assert question.inputs.job.gradients is None  # the precision writes its own over those of ddp
    assert not any("dropout" in note for note in question.notes)  # models of recipes have none


def test_arguments_of_a_call_stand_for_the_parameters(tmp_path: Path) -> None:
    """And what a condition on them decides is followed."""
    called = NEMO.replace("trainer=trainer(),", "trainer=trainer(2, virtual=None),")
    called = called.replace("        sequence_parallel=True,", "        sequence_parallel=tensor_parallelism > 2,")
    path = tmp_path / "llama31_70b.py"
    path.write_text(called)
    question = question_of_file(path, Given(cluster="h100", values={"function": "pretrain_recipe"}))
    assert str(question.plan) == "tp2 pp4 dp4 zero1 mbs1 m128"
    longer = called.replace("2, virtual=None", "8 if num_nodes > 1 else 2, virtual=None")
    path.write_text(longer)
    given = Given(cluster="h100", values={"function": "pretrain_recipe", "num_nodes": "2"})
    assert str(question_of_file(path, given).plan) == "tp8 sp pp4 dp1 zero1 mbs1 m512"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "a.yaml",
            "base_model: Qwen/Qwen3-8B\nmicro_batch_size: 1\nsequence_len: 4096\nbf16: auto\ndeepspeed: ds/zero3.json",
            "deepspeed names ds/zero3.json, which is neither beside the file nor at",
        ),
        (
            "a.yaml",
            "base_model: Qwen/Qwen3-8B\nmicro_batch_size: 1\nsequence_len: 4096\nbf16: auto\nadapter: lora\n",
            "lora_r is left out, and adapters are trained: --set job.lora_rank=16",
        ),
        (
            "a.yaml",
            "model_name_or_path: Qwen/Qwen3-8B\nper_device_train_batch_size: 1\nfinetuning_type: full\nbf16: true\n"
            "pipeline_model_parallel_size: 4\n",
            "line 5: pipeline_model_parallel_size 4 is a degree of parallelism that is not known here",
        ),
    ],
)
def test_nothing_that_decides_the_plan_is_passed_over(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InvalidInput) as raised:
        question_of_file(path, Given(cluster="1x8:h100"))
    assert message in str(raised.value)


def test_a_stage_that_stands_in_another_file_can_be_said(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("base_model: NousResearch/Meta-Llama-3.1-8B-Instruct\nmicro_batch_size: 1\nsequence_len: 4096\n")
    with path.open("a") as file:
        file.write("bf16: auto\ndeepspeed: ds/zero3.json\n")
    question = question_of_file(path, Given(cluster="1x8:h100", values={"zero_optimization.stage": "3"}))
    assert (question.inputs.model.name, str(question.plan)) == ("llama-3.1-8b", "tp1 pp1 dp8 zero3 mbs1 m1")
    path.write_text(path.read_text().replace("deepspeed: ds/zero3.json", "fsdp: [full_shard, auto_wrap]"))
    assert question_of_file(path, Given(cluster="1x8:h100")).plan.zero == 3


@pytest.mark.parametrize(
    "text",
    [
        "x0 = dict(a=1)\n" + "".join(f"x{n + 1} = dict(a=x{n}, b=x{n})\n" for n in range(39)),
        "x0 = dict(a=1)\n" + "".join(f"x{n + 1} = {{**x{n}, 'a{n}': replace(x{n})}}\n" for n in range(39)),
        "x = [1]\n" + "x = [x, x]\n" * 60,
        "def f0():\n    return 1\n" + "".join(f"def f{n + 1}():\n    f{n}()\n    f{n}()\n" for n in range(60)),
        "x = dict(a=1)\nx.b = x\n",
        "def f(x=1):\n    return f(f(x))\ny = f(f(2))\n",
    ],
)
def test_programs_that_grow_without_bounds_are_refused_or_cut(tmp_path: Path, text: str) -> None:
    path = tmp_path / "grows.py"
    path.write_text(f"import torchtitan\n{text}")
    with pytest.raises(InvalidInput):
        question_of_file(path, Given(cluster="1x8:h100"))
