"""Spellings of public launch files that were once read as something else, each in the smallest file that has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from launch_examples import NEOX
from meshwright.errors import InvalidInput
from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file
from meshwright.launch.readers.literals import read_literals

TRAINER = "model_name_or_path: meta-llama/Llama-3.1-8B\nper_device_train_batch_size: 2\nbf16: true\n"
LLAMA_FACTORY = f"{TRAINER}stage: sft\ncutoff_len: 4096\n"
TRL = f"{TRAINER}max_length: 8192\ngradient_checkpointing: true\n"
AXOLOTL = "base_model: Qwen/Qwen3-8B\nmicro_batch_size: 1\nsequence_len: 4096\nbf16: auto\n"
ACCELERATE = "mixed_precision: bf16\nnum_processes: 8\n"
SCRIPT = {"job.sequence_length": "4096", "job.global_batch": "64", "plan.micro_batch": "1"}
NEMO = """
from nemo.collections.llm.recipes.qwen2 import qwen2_model, qwen2_trainer

def pretrain_recipe(tensor_parallelism: int = 8, pipeline_parallelism: int = 4, precision: str = "bf16-mixed"):
    return run.Partial(
        pretrain,
        model=qwen2_model(version="qwen25_72b"),
        trainer=qwen2_trainer(
            tensor_parallelism=tensor_parallelism, pipeline_parallelism=pipeline_parallelism, precision=precision
        ),
        data=run.Config(MockDataModule, seq_length=4096, global_batch_size=32, micro_batch_size=2),
    )
"""
MIXTURE = """
from megatron.bridge.recipes import base
def earlier():
    cfg = base()
    cfg.mixed_precision = precision("fp8_cs")
    cfg.model.tensor_model_parallel_size = 2
    cfg.model.expert_model_parallel_size = 8
    cfg.model.seq_length = 4096
    cfg.train.global_batch_size = 64
    cfg.train.micro_batch_size = 1
    return cfg
def later():
    cfg = earlier()
    cfg.mixed_precision = precision("{precision}")
    return cfg
"""
TITAN = """
from torchtitan.trainer import Trainer
from . import model_registry

def tuned_qwen3_8b():
    compile_config = CompileConfig(enable=True)
    return Trainer.Config(
        model_spec=model_registry("8B"),
        training=TrainingConfig(seq_len=4096, local_batch_size=1, global_batch_size=16),
        compile=compile_config,
    )
"""


def read(folder: Path, name: str, text: str, model: str | None = None, **values: str) -> LaunchQuestion:
    path = folder / name
    path.write_text(text)
    return question_of_file(path, Given(cluster="2x8:h100", model=model, values=values))


def summary(question: LaunchQuestion) -> tuple[str, str]:
    return question.inputs.runtime.id, str(question.plan)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"{LLAMA_FACTORY}finetuning_type: lora\n",
            "line 6: what is trained: finetuning_type lora stage sft is not modelled",
        ),
        (
            f"{LLAMA_FACTORY}finetuning_type: full\n".replace("stage: sft", "stage: rm"),
            "finetuning_type full stage rm is not",
        ),
        (f"{AXOLOTL}rl: dpo\n", "line 5: rl is of training by preferences or rewards"),
        (f"{AXOLOTL}diffusion: {{eps: 1e-3}}\n", "line 5: diffusion.eps is of models of diffusion"),
        (f"{TRL}use_peft: true\n", "line 6: use_peft is of the training of adapters"),
        (f"{TRL}load_in_4bit: true\n", "line 6: load_in_4bit is of quantised weights"),
        (f"{TRL}beta: 0.1\n", "line 6: beta is of training by preferences"),
        (TRL, "plan.zero is not in the file, which has no key for it: --set plan.zero=..."),
    ],
)
def test_what_a_trainer_does_not_train_whole_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        read(tmp_path, "a.yaml", text)
    assert message in str(raised.value)


def test_a_file_of_trl_is_not_one_of_llama_factory(tmp_path: Path) -> None:
    question = read(tmp_path, "a.yaml", f"{TRL}use_peft: false\n", **{"zero_optimization.stage": "3"})
    assert summary(question) == ("deepspeed", "tp1 pp1 dp16 zero3 mbs2 m1 recompute-full")
    assert (question.dialect.name, question.inputs.job.sequence_length) == ("trl", 8192)


@pytest.mark.parametrize(
    ("text", "runtime", "zero"),
    [
        ("distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 3}\n", "deepspeed", 3),
        ("distributed_type: DEEPSPEED\ndeepspeed_config: {gradient_clipping: 1.0}\n", "deepspeed", 2),
        ("distributed_type: FSDP\nfsdp_config: {fsdp_version: 2}\n", "accelerate", 3),
        (
            "distributed_type: FSDP\nfsdp_config: {fsdp_version: 2, fsdp_reshard_after_forward: false}\n",
            "accelerate",
            2,
        ),
    ],
)
def test_accelerate_shards_as_its_own_sections_say(tmp_path: Path, text: str, runtime: str, zero: int) -> None:
    question = read(tmp_path, "a.yaml", ACCELERATE + text, "llama-3.1-8b", **SCRIPT)
    assert (question.inputs.runtime.id, question.plan.zero) == (runtime, zero)


@pytest.mark.parametrize(
    ("section", "zero"),
    [
        ("fsdp_version: 2\nfsdp_config: {offload_params: false}", 3),
        ("fsdp_config: {fsdp_version: 2, fsdp_reshard_after_forward: true}", 3),
        ("fsdp_config: {fsdp_version: 2, fsdp_reshard_after_forward: false}", 2),
    ],
)
def test_axolotl_reshards_unless_it_is_told(tmp_path: Path, section: str, zero: int) -> None:
    question = read(tmp_path, "a.yaml", f"{AXOLOTL}optimizer: muon\n{section}\n")
    assert question.plan.zero == zero
    assert "optimizer" in question.understood.unpriced
    assert not any("FSDP 1" in note for note in question.notes)


def test_what_names_neither_engine_is_data_parallel(tmp_path: Path) -> None:
    files = (ACCELERATE + "distributed_type: MULTI_GPU\n", "llama-3.1-8b", SCRIPT), (AXOLOTL, None, {})
    assert {read(tmp_path, "a.yaml", text, model, **said).inputs.runtime.id for text, model, said in files} == {
        "pytorch-ddp"
    }


def test_one_replica_is_sharded_by_no_engine(tmp_path: Path) -> None:
    sizes = ", ".join(f"parallelism_config_{axis}_size: {size}" for axis, size in (("tp", 8), ("dp_shard", 1)))
    split = f"distributed_type: MULTI_GPU\nparallelism_config: {{{sizes}, parallelism_config_dp_replicate_size: 1}}\n"
    question = read(tmp_path, "a.yaml", ACCELERATE + split, "llama-3.1-8b", **SCRIPT)
    assert summary(question) == ("accelerate", "tp8 pp1 dp1 zero0 mbs1 m64")


def test_axolotl_quantises_where_it_says_so(tmp_path: Path) -> None:
    text = AXOLOTL.replace("bf16: auto", "fp8: true") + "fsdp_version: 2\nfsdp_config: {offload_params: false}\n"
    assert read(tmp_path, "a.yaml", text).inputs.job.precision == "fp8"


def test_degrees_that_a_recipe_of_nemo_passes_on_are_read(tmp_path: Path) -> None:
    question = read(tmp_path, "qwen25_72b.py", NEMO, "qwen2.5-72b")
    assert (question.plan.tp, question.plan.pp, question.inputs.job.precision) == (8, 4, "bf16")


def test_degrees_of_a_trainer_of_the_file_and_a_precision_that_is_said_are_read(tmp_path: Path) -> None:
    """A recipe for longer sequences, which takes the rest from another file."""
    text = """
from nemo.collections.llm.recipes import llama3_8b
def trainer(num_nodes: int = 4):
    return llama3_8b.trainer(tensor_parallelism=4, pipeline_parallelism=2, num_nodes=num_nodes)
def pretrain_recipe(num_nodes: int = 4):
    recipe = llama3_8b.pretrain_recipe(num_nodes=num_nodes)
    recipe.trainer = trainer(num_nodes=num_nodes)
    recipe.data = run.Config(MockDataModule, seq_length=65536, global_batch_size=512, micro_batch_size=1)
    return recipe
"""
    said = {"function": "pretrain_recipe", "--bf16": "true"}
    question = read(tmp_path, "llama3_8b_64k.py", text, "llama-3.1-8b", **said)
    assert (question.plan.tp, question.plan.pp, question.inputs.job.precision) == (4, 2, "bf16")


def test_a_recipe_that_trains_adapters_is_refused(tmp_path: Path) -> None:
    text = MIXTURE.replace("    return cfg\ndef", "    cfg.peft.dim = 16\n    return cfg\ndef").replace(
        "{precision}", "bf16"
    )
    with pytest.raises(InvalidInput, match=r"line 11: peft.dim is of the training of adapters"):
        read(tmp_path, "a.py", text, "mixtral-8x7b", function="later")


@pytest.mark.parametrize(
    ("word", "precision"),
    [
        ("fp8_ds", "fp8-delayed"),
        ("bf16_with_fp8_current_scaling_mixed", "fp8"),
        ("bf16_mixed", "bf16"),
        ("fp8_sc", "fp8-blockwise"),
    ],
)
def test_the_last_precision_of_a_recipe_counts(tmp_path: Path, word: str, precision: str) -> None:
    question = read(tmp_path, "a.py", MIXTURE.replace("{precision}", word), "mixtral-8x7b", function="later")
    assert question.inputs.job.precision == precision
    assert (question.plan.tp, question.plan.ep, question.plan.etp) == (2, 8, 1)
    assert any("pipeline_model_parallel_size" in note for note in question.notes)
    said = {"function": "later", "--seq-length": "8192"}
    again = read(tmp_path, "a.py", MIXTURE.replace("{precision}", word), "mixtral-8x7b", **said)
    assert again.inputs.job.sequence_length == 8192


def test_an_object_that_is_given_by_its_name_is_read_where_it_is_given(tmp_path: Path) -> None:
    question = read(tmp_path, "config_registry.py", TITAN)
    assert question.inputs.model.name == "qwen3-8b"
    assert not question.understood.unknown
    assert not any("compile.enable" in note for note in question.notes)


def test_keys_of_gpt_neox_may_have_hyphens(tmp_path: Path) -> None:
    with_hyphens = NEOX.replace("_", "-").replace("train-micro-batch-size-per-gpu", "train_micro_batch_size_per_gpu")
    question = read(tmp_path, "a.yml", NEOX)
    same = read(tmp_path, "b.yml", with_hyphens.replace("zero-optimization", "zero_optimization"))
    assert summary(question) == summary(same)
    with pytest.raises(InvalidInput, match=r"line 2: qk_norm is of norms of queries and keys"):
        read(tmp_path, "c.yml", NEOX.replace('"num_attention_heads"', '"qk_norm": true, "num_attention_heads"'))


def test_lists_of_a_recipe_are_repeated_and_joined() -> None:
    settings = read_literals("a.py", "a = [0] * 2 + [1] * 3\nb = [1] * 10**9\nc = [1] * -1").by_key()
    assert settings["a"].value == [0, 0, 1, 1, 1]
    assert settings["b"].open
    assert settings["c"].value == []
