"""Spellings of public launch files that were once read as something else, each in the smallest file that has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from launch_examples import MODEL, NEOX
from meshwright.errors import InvalidInput
from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file
from meshwright.launch.readers.literals import read_literals
from meshwright.specs.model import Experts

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
            f"{LLAMA_FACTORY}finetuning_type: freeze\n",
            "line 6: what is trained: finetuning_type freeze stage sft is not modelled",
        ),
        (
            f"{LLAMA_FACTORY}finetuning_type: full\n".replace("stage: sft", "stage: rm"),
            "finetuning_type full stage rm is not",
        ),
        (f"{AXOLOTL}rl: dpo\n", "line 5: rl is of training by preferences or rewards"),
        (f"{AXOLOTL}diffusion: {{eps: 1e-3}}\n", "line 5: diffusion.eps is of models of diffusion"),
        (f"{TRL}use_peft: true\n", "dtype is left out, which is float32 in TRL: adapters are priced beside"),
        (f"{TRL}load_in_8bit: true\n", "line 6: load_in_8bit is of quantised weights"),
        (f"{TRL}beta: 0.1\n", "line 6: beta is of training by preferences"),
        (TRL, "plan.zero: the stage of ZeRO stands in what starts the training: give the script with"),
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
    question = read(tmp_path, "qwen25_72b.py", NEMO, "qwen2.5-72b", **{"model.context_parallel_size": "1"})
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
    said = {"function": "pretrain_recipe", "--bf16": "true", "model.context_parallel_size": "4"}
    question = read(tmp_path, "llama3_8b_64k.py", text, "llama-3.1-8b", **said)
    assert (question.plan.tp, question.plan.cp, question.plan.pp) == (4, 4, 2)
    assert question.inputs.job.precision == "bf16"


def test_a_recipe_says_what_adapters_it_trains(tmp_path: Path) -> None:
    said = '    cfg.peft.dim = 16\n    cfg.peft.target_modules = ["linear_qkv"]\n    return cfg\ndef'
    text = MIXTURE.replace("    return cfg\ndef", said).replace("{precision}", "bf16")
    job = read(tmp_path, "a.py", text, "mixtral-8x7b", function="later").inputs.job
    assert (job.lora_rank, job.lora_modules) == (16, ("q_proj", "k_proj", "v_proj"))


def test_adapters_of_nemo_are_refused(tmp_path: Path) -> None:
    text = NEMO.replace("        data=", "        peft=run.Config(LoRA, dim=16),\n        data=")
    with pytest.raises(
        InvalidInput, match=r"peft.dim is of the training of adapters, which is read in recipes of Mega"
    ):
        read(tmp_path, "qwen25_72b.py", text, "qwen2.5-72b", **{"model.context_parallel_size": "1"})


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


SLURM = f"""#!/bin/bash
#SBATCH --nodes=2
if [ -z $SLURM_JOB_ID ]; then
    sbatch "$0"
    exit
fi
srun ./in_container.sh pretrain_gpt.py {MODEL} --seq-length 4096 --micro-batch-size 1 --bf16 \\
  --global-batch-size $((SLURM_JOB_NUM_NODES * 32)) --tensor-model-parallel-size 4 --use-distributed-optimizer
"""


def test_a_script_that_hands_itself_to_slurm_is_read_as_the_job(tmp_path: Path) -> None:
    question = read(tmp_path, "a.sh", SLURM)
    assert (str(question.plan), question.inputs.job.global_batch) == ("tp4 pp1 dp4 zero1 mbs1 m16", 64)


def test_a_program_of_tasks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"starts tasks/main\.py, which evaluates a model or tunes it"):
        read(tmp_path, "a.sh", SLURM.replace("pretrain_gpt.py", "./tasks/main.py --task LAMBADA"))


@pytest.mark.parametrize(
    ("file", "entries"),
    [
        ("/data/gpt2-vocab.json", 50257),
        ("/data/bpe/vocab.json", 50257),
        ("/x/nordic_tokenizer_131072/vocab.json", None),
        ("/x/fin_256k/vocab.json", None),
    ],
)
def test_a_vocabulary_of_another_tokenizer_is_not_that_of_gpt_2(tmp_path: Path, file: str, entries: int | None) -> None:
    text = SLURM.replace("--vocab-size 32000", f"--tokenizer-type GPT2BPETokenizer --vocab-file {file}")
    if entries is None:
        with pytest.raises(InvalidInput, match="of the model: --vocab-size"):
            read(tmp_path, "a.sh", text)
        return
    question = read(tmp_path, "a.sh", text)
    assert question.inputs.model.vocab_size == entries
    assert any("where /data/bpe/vocab.json holds others" in note for note in question.notes) == ("bpe" in file)


TITAN_OF_2024 = """
[model]
name = "llama3"
flavor = "8B"
[optimizer]
name = "AdamW"
[training]
batch_size = 4
seq_len = 8192
data_parallel_replicate_degree = 1
data_parallel_shard_degree = 4
tensor_parallel_degree = 2
[experimental]
pipeline_parallel_degree = 2
pipeline_parallel_microbatches = 2
[activation_checkpoint]
mode = "none"
[float8]
enable_float8_linear = false
"""


def test_degrees_of_torchtitan_in_2024_stood_beside_the_batch(tmp_path: Path) -> None:
    question = read(tmp_path, "a.toml", TITAN_OF_2024)
    assert str(question.plan) == "tp2 sp pp2 ends-as-layers dp4 zero2 mbs2 m2"
    assert (question.inputs.job.precision, question.understood.unknown) == ("bf16", {})
    assert not any("cuda_graphs" in note for note in question.notes)
    quantised = read(tmp_path, "a.toml", TITAN_OF_2024.replace("linear = false", "linear = true"))
    assert quantised.inputs.job.precision == "fp8"
    other = read(tmp_path, "a.toml", TITAN_OF_2024.replace('"AdamW"', '"Muon"\nearly_step_in_backward = true'))
    assert {*other.understood.unpriced} >= {"optimizer.name", "optimizer.early_step_in_backward"}
    assert "optimizer.name" not in question.understood.unpriced


SFT = """torchrun --nnodes 2 --nproc_per_node=8 train.py --model_name_or_path ~/models/llama-2-7b --bf16 True \\
  --per_device_train_batch_size 2 --gradient_accumulation_steps 4 --model_max_length 2048 --optim adamw_torch \\
  --gradient_checkpointing True --use_lora False """


@pytest.mark.parametrize(
    ("engine", "runtime", "zero"),
    [
        ("--fsdp 'full_shard auto_wrap'", "accelerate", 3),
        ("--fsdp shard_grad_op", "accelerate", 2),
        ("--deepspeed configs/zero2.json", "deepspeed", 2),
        ("", "pytorch-ddp", 0),
    ],
)
def test_scripts_of_a_trainer_are_read(tmp_path: Path, engine: str, runtime: str, zero: int) -> None:
    (tmp_path / ".git").mkdir()
    for folder in ("configs", "scripts"):
        (tmp_path / folder).mkdir()
    (tmp_path / "configs" / "zero2.json").write_text('{"zero_optimization": {"stage": 2}}')
    question = read(tmp_path / "scripts", "a.sh", SFT + engine)
    assert summary(question) == (runtime, f"tp1 pp1 dp16 zero{zero} mbs2 m4 recompute-full")
    assert (question.inputs.job.sequence_length, question.understood.unpriced) == (2048, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{SFT}--use-lora True", "--lora_r is left out, and adapters are trained"),
        (f"{SFT}--vision_tower clip", "line 3: --vision_tower is of models that see pictures"),
        (
            SFT.replace("train.py", "dpo_train.py"),
            "starts dpo_train.py: rewards, preferences and quantised weights are",
        ),
        (f"{SFT}--fsdp 'full_shard offload'", "only full_shard and shard_grad_op, without offload, are modelled"),
        (f"{SFT}--deepspeed /etc/zero2.json", "line 3 names /etc/zero2.json, which is neither beside it nor at the"),
        (f"{SFT}--deepspeed elsewhere/zero2.json", "line 3 names elsewhere/zero2.json, which is neither beside"),
        (f"{SFT}--deepspeed ../configs/zero2.json", "line 3 names ../configs/zero2.json, which is neither beside"),
        (SFT.replace("torchrun --nnodes 2 --nproc_per_node=8", "accelerate launch"), "--set zero_optimization.stage="),
    ],
)
def test_scripts_of_a_trainer_that_train_otherwise_or_elsewhere_are_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / ".git").mkdir()
    for folder in ("configs", "scripts"):
        (tmp_path / folder).mkdir()
    (tmp_path / "configs" / "zero2.json").write_text('{"zero_optimization": {"stage": 2}}')
    (tmp_path / "elsewhere").symlink_to(tmp_path / "configs")
    with pytest.raises(InvalidInput) as raised:
        read(tmp_path / "scripts", "a.sh", text)
    assert message in str(raised.value)


def test_a_script_of_accelerate_says_its_model_and_what_it_trains(tmp_path: Path) -> None:
    (tmp_path / "fsdp.yaml").write_text(f"{ACCELERATE}distributed_type: FSDP\nfsdp_config: {{fsdp_version: 2}}\n")
    text = SFT.replace("torchrun --nnodes 2 --nproc_per_node=8", "accelerate launch --config_file fsdp.yaml")
    question = read(tmp_path, "a.sh", text, **{"job.global_batch": "128"})
    assert summary(question) == ("accelerate", "tp1 pp1 dp16 zero3 mbs2 m4 recompute-full")
    assert (question.inputs.model.name, question.inputs.job.sequence_length) == ("llama-2-7b", 2048)
    with pytest.raises(InvalidInput, match="--lora_target_modules is left out, and adapters are trained"):
        read(tmp_path, "a.sh", f"{text.replace('--use_lora False', '--use_lora')} --lora_r 8")


MINDSPEED = f"""torchrun --nnodes 2 --nproc_per_node 8 pretrain_gpt.py {MODEL} --bf16 --seq-length 4096 \\
  --micro-batch-size 1 --global-batch-size 16 --pipeline-model-parallel-size 4 --use-distributed-optimizer """
EXPERTS = "--num-experts 16 --moe-router-topk 2 --moe-ffn-hidden-size 512 --moe-token-dispatcher-type alltoall "


@pytest.mark.parametrize(
    ("flags", "plan"),
    [
        ("--num-layer-list 6,8,9,9", "tp1 pp4 chunks(6,8,9*2) dp4 zero1 mbs1 m4"),
        ("--noop-layers 30,31", "tp1 pp4 chunks(8*3,6) dp4 zero1 mbs1 m4"),
        (
            "--noop-layers 30,31 --num-layers-per-virtual-pipeline-stage 4",
            "tp1 pp4 vpp2 chunks(4*7,2) dp4 zero1 mbs1 m4",
        ),
        (
            "--context-parallel-size 2 --context-parallel-algo ulysses_cp_algo",
            "tp1 cp2 all-to-all pp4 dp2 zero1 mbs1 m8",
        ),
        ("--context-parallel-algo hybrid_cp_algo", "tp1 pp4 dp4 zero1 mbs1 m4"),
    ],
)
def test_arguments_of_mindspeed_that_decide_the_plan_are_read(tmp_path: Path, flags: str, plan: str) -> None:
    question = read(tmp_path, "a.sh", MINDSPEED + flags)
    assert str(question.plan) == plan
    assert question.inputs.model.num_layers == (30 if "noop" in flags else 32)


def test_experts_of_mindspeed_have_their_shared_one_and_dense_layers_before_them(tmp_path: Path) -> None:
    model = read(
        tmp_path, "a.sh", f"{MINDSPEED}{EXPERTS}--moe-layer-freq 1 --first-k-dense-replace 3 --n-shared-experts 2"
    ).inputs.model
    blocks = [model.layer_kinds[kind].feed_forward for kind in model.layer_pattern]
    assert [isinstance(block, Experts) for block in blocks] == [False] * 3 + [True] * 29
    assert isinstance(blocks[-1], Experts)
    assert blocks[-1].shared_ffn_size == 1024


def test_a_distance_of_minus_one_between_layers_of_experts_is_one(tmp_path: Path) -> None:
    text = f"{MINDSPEED}{EXPERTS}--moe-layer-freq -1 --first-k-dense-replace -1"
    model = read(tmp_path, "a.sh", text).inputs.model
    assert {type(model.layer_kinds[kind].feed_forward) for kind in model.layer_pattern} == {Experts}


@pytest.mark.parametrize(
    "flags",
    [
        "--schedules-method dualpipev",
        "--post-norm",
        "--enable-dsa-indexer",
        "--context-parallel-size 2 --context-parallel-algo hybrid_cp_algo",
    ],
)
def test_arguments_of_mindspeed_that_megatron_has_not_are_refused(tmp_path: Path, flags: str) -> None:
    with pytest.raises(InvalidInput, match=f"line 2: {flags.split()[-2 if ' ' in flags else 0]} is of "):
        read(tmp_path, "a.sh", MINDSPEED + flags)


def test_a_pipeline_in_deepspeed_s_json_is_told(tmp_path: Path) -> None:
    """Its stages stand in the script, whatever the section says (DeepSpeed 0.19.8 runtime/pipe/engine.py)."""
    sizes = '"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": true}'
    said = {"job.sequence_length": "4096"}
    for section, recomputed in (('"stages": 4', "NONE"), ('"activation_checkpoint_interval": 1', "FULL")):
        text = f'{{{sizes}, "zero_optimization": {{"stage": 1}}, "pipeline": {{{section}}}}}'
        question = read(tmp_path, "ds.json", text, "llama-3.1-8b", **said)
        assert (question.plan.pp, question.plan.recompute.name) == (1, recomputed)
        assert any("num_stages no JSON says" in note for note in question.notes)
        assert not question.understood.unknown
