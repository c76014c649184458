"""Existing launch files of every framework: which plan they are, what they leave open, and what is not priced."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from launch_examples import (
    ACCELERATE,
    AXOLOTL,
    BATCH,
    BRIDGE,
    DEEPSPEED_SCRIPT,
    FOUNDRY,
    INTERN,
    MODEL,
    NANOTRON,
    NEMO,
    NEOX,
    TITAN,
)
from meshwright.answers.launch.files import launch_files
from meshwright.errors import InvalidInput
from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file
from meshwright.layout.legality import faults
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import PERMUTE_FUSION, position_of, with_behaviours
from meshwright.specs.reading.model import read_model
from strategies import question


def imported(folder: Path, name: str, text: str, cluster: str | None = "2x8:h100", **given: str) -> LaunchQuestion:
    path = folder / name
    path.write_text(text)
    model = given.pop("model", None)
    return question_of_file(
        path, Given(cluster=cluster, model=model, values={k.replace("__", "--"): v for k, v in given.items()})
    )


@pytest.mark.parametrize(
    ("name", "text", "runtime", "plan"),
    [
        ("a.sh", f"torchrun t.py {MODEL} {BATCH}", "megatron-core", "tp1 pp1 dp16 zero0 mbs2 m2"),
        (
            "b.sh",
            f"torchrun t.py {MODEL} {BATCH} --tensor-model-parallel-size 4 --sequence-parallel "
            "--use-distributed-optimizer --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 4 "
            "--recompute-activations",
            "megatron-core",
            "tp4 sp pp2 vpp4 dp2 zero1 mbs2 m16 recompute-selective",
        ),
        (
            "c.sh",
            f"torchrun t.py {MODEL} {BATCH} --tensor-model-parallel-size 2 --activations-checkpoint-method uniform",
            "megatron-core",
            "tp2 pp1 dp8 zero0 mbs2 m4 recompute-full",
        ),
        (
            "d.sh",
            f"torchrun t.py {MODEL} {BATCH} --num-experts 8 --expert-model-parallel-size 8 --moe-router-topk 2 "
            "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params",
            "megatron-core",
            "tp1 ep8 pp1 dp16 zero3 mbs2 m2",
        ),
        (
            "zb.sh",
            f"torchrun t.py {MODEL} {BATCH} --enable-zero-bubble --pipeline-model-parallel-size 4 "
            "--zero-bubble-max-pending-backward 4 --enable-zb-runtime",
            "zero-bubble",
            "tp1 pp4 dp4 zero0 mbs2 m8 zb-1p",
        ),
        (
            "zbv.sh",
            f"torchrun t.py {MODEL} {BATCH} --zero-bubble-v-schedule --pipeline-model-parallel-size 4 "
            "--zero-bubble-v-schedule-mem-setup half",
            "zero-bubble",
            "tp1 pp4 vpp2 dp4 zero0 mbs2 m8 v-half",
        ),
        ("ds.sh", DEEPSPEED_SCRIPT, "deepspeed", "tp1 pp1 dp16 zero3 mbs2 m2 recompute-full"),
        ("neox.yml", NEOX, "megatron-deepspeed", "tp2 pp2 dp4 zero1 mbs4 m8 recompute-full"),
        ("nanotron.yaml", NANOTRON, "nanotron", "tp2 sp pp2 dp4 zero1 mbs2 m8 recompute-full"),
        ("mpt.yaml", FOUNDRY, "llm-foundry", "tp1 pp1 dp16 zero3 mbs4 m8 recompute-full"),
        ("titan.toml", TITAN, "torchtitan@0.2.2", "tp2 sp pp1 dp8 zero3 mbs2 m1 recompute-full"),
        ("intern.py", INTERN, "deepspeed", "tp1 cp2 all-to-all pp1 dp8 zero3 replicate4 mbs2 m4"),
        ("axolotl.yaml", AXOLOTL, "accelerate", "tp2 cp2 all-gather pp1 dp2 zero3 mbs1 m1"),
        ("nemo.yaml", NEMO, "megatron-core", "tp4 sp pp2 vpp4 dp2 zero1 mbs1 m32"),
    ],
)
def test_plans_of_launch_files(tmp_path: Path, name: str, text: str, runtime: str, plan: str) -> None:
    question = imported(tmp_path, name, text)
    assert (question.inputs.runtime.id, str(question.plan)) == (runtime, plan)


def test_models_are_built_or_named(tmp_path: Path) -> None:
    script = f"torchrun t.py {MODEL} {BATCH} --untie-embeddings-and-output-weights --disable-bias-linear"
    model = imported(tmp_path, "a.sh", script).inputs.model
    assert (model.num_layers, model.hidden_size, model.layer_kinds[0].feed_forward.ffn_size) == (32, 4096, 10880)
    assert imported(tmp_path, "t.toml", TITAN).inputs.model.name == "llama-3.1-8b"
    assert imported(tmp_path, "i.py", INTERN).inputs.model.layer_kinds[0].feed_forward.ffn_size == 11008
    assert imported(tmp_path, "n.yaml", NEMO).inputs.model.vocab_size == 128256


def test_defaults_of_frameworks_are_theirs(tmp_path: Path) -> None:
    """GPT-NeoX accumulates nothing unless told, Megatron-DeepSpeed's one expert is none, and NeMo multiplies widths."""
    assert imported(tmp_path, "n.yml", NEOX.replace('"gradient_accumulation_steps": 8,', "")).plan.num_microbatches == 1
    assert imported(tmp_path, "v.yml", NEOX.replace('"vocab_size": 50304,', "")).inputs.model.vocab_size == 50257
    width = '"activation": "swiglu", "intermediate_size": 32768, "mlp_multiple_of": 256, '
    gated = NEOX.replace('"vocab_size"', f'{width}"vocab_size"')
    assert imported(tmp_path, "g.yml", gated).inputs.model.layer_kinds[0].feed_forward.ffn_size == 11008
    script = DEEPSPEED_SCRIPT.replace("--deepspeed ", "--deepspeed --num-experts 1 ")
    assert not imported(tmp_path, "d.sh", script).inputs.model.is_moe
    text = NEMO.replace("ffn_hidden_size: 14336", "ffn_hidden_size: ${multiply:4, ${.hidden_size}}")
    assert imported(tmp_path, "n.yaml", text).inputs.model.layer_kinds[0].feed_forward.ffn_size == 16384


def test_what_public_files_say_is_not_taken_for_something_else(tmp_path: Path) -> None:
    """NeMo counts experts as num_moe_experts (NeMo-Framework-Launcher conf/training/mixtral), nanotron's replicas are
    its own whatever the cluster (smollm config_smollm1_360M.yaml), and scripts that quantise train nothing.
    """
    experts = NEMO.replace("activation: fast", "num_moe_experts: 8\n  moe_router_topk: 2\n  activation: fast")
    assert imported(tmp_path, "n.yaml", experts).inputs.model.mixtures[0].count == 8
    other = NEMO.replace("activation: fast", "num_local_experts: 8\n  activation: fast")
    with pytest.raises(InvalidInput, match=r"line \d+: --num-local-experts 8: experts under a name that is not known"):
        imported(tmp_path, "n.yaml", other)
    question = imported(tmp_path, "n.yaml", NANOTRON.replace("dp: 4", "dp: 2"))
    assert (question.plan.dp, question.inputs.job.global_batch) == (2, 2 * 2 * 8)
    with pytest.raises(InvalidInput, match=r"starts text_generation_ptq\.py, which trains nothing"):
        imported(tmp_path, "a.sh", f"torchrun text_generation_ptq.py {MODEL} {BATCH}")


def test_embeddings_that_count_as_layers_and_ulysses_are_read_of_megatron_deepspeed(tmp_path: Path) -> None:
    """As BigScience's 176B: 70 layers and two embeddings over 12 stages of 6."""
    split = " --pipeline-model-parallel-size 2 --pp-partition-method 'type:transformer|embedding'"
    plan = imported(tmp_path, "a.sh", DEEPSPEED_SCRIPT.rstrip() + split).plan
    assert (plan.pp, plan.embedding_as_layer, plan.head_as_layer) == (2, True, True)
    ends = imported(tmp_path, "a.sh", DEEPSPEED_SCRIPT.rstrip() + split)
    assert "ends_as_layers" not in str(faults(ends.plan, ends.inputs))
    with pytest.raises(InvalidInput, match="--pp-partition-method 'parameters' is not modelled"):
        imported(
            tmp_path, "a.sh", DEEPSPEED_SCRIPT.rstrip() + split.replace("type:transformer|embedding", "parameters")
        )
    plan = imported(tmp_path, "a.sh", DEEPSPEED_SCRIPT.rstrip() + " --ds-sequence-parallel-size 2").plan
    assert (plan.cp, plan.context_exchange.name) == (2, "ALL_TO_ALL")


SWIFT = """
NNODES=2 NPROC_PER_NODE=8 \\
megatron sft --model Qwen/Qwen3-30B-A3B --max_length 8192 --packing true --micro_batch_size 1 --global_batch_size 64 \\
    --tensor_model_parallel_size 2 --sequence_parallel true --expert_model_parallel_size 4 \\
    --pipeline_model_parallel_size 2 --moe_permute_fusion true --load_from_cache_file false
"""


def test_ms_swift_has_defaults_of_its_own(tmp_path: Path) -> None:
    read = imported(tmp_path, "a.sh", SWIFT)
    assert str(read.plan) == "tp2 sp ep4 pp2 dp4 zero1 mbs1 m16 recompute-selective"
    assert (read.plan.etp, read.inputs.job.sequence_length, read.inputs.job.precision) == (1, 8192, "bf16")
    assert (read.inputs.model.name, read.inputs.runtime.communication.dispatcher) == ("qwen3-30b-a3b", "all_to_all")
    for options, message in (
        ("--tuner_type lora_llm", "--tuner_type lora_llm: adapters are priced as accelerate, deepspeed, megatron-br"),
        ("--rlhf_type grpo", "--rlhf_type grpo: models beside"),
    ):
        with pytest.raises(InvalidInput, match=message):
            imported(tmp_path, "a.sh", SWIFT.rstrip() + f" {options}")
    with pytest.raises(InvalidInput) as raised:
        imported(tmp_path, "a.sh", SWIFT.replace("Qwen/Qwen3-30B-A3B", "Qwen/Qwen9-1B"))
    assert str(raised.value).count("\n  - ") == 1
    assert "'Qwen/Qwen9-1B' is not in the catalogue" in str(raised.value)


def test_what_is_read_as_something_else_in_silence_is_refused(tmp_path: Path) -> None:
    experts = INTERN.replace("hidden_size=", "num_experts=4, hidden_size=", 1)
    assert experts != INTERN
    with pytest.raises(InvalidInput, match=r"model\.num_experts is of models with experts, not modelled"):
        imported(tmp_path, "a.py", experts)
    with pytest.raises(InvalidInput, match=r"is of no framework that is recognised"):  # OLMo's
        imported(tmp_path, "a.yaml", FOUNDRY.replace("n_layers:", "max_sequence_length: 4096, n_layers:", 1))
    sizes = ACCELERATE.replace("_tp_size", "_sp_size")
    with pytest.raises(InvalidInput, match="parallelism_config_sp_size 2 is a degree of parallelism"):
        imported(tmp_path, "b.yaml", sizes, model="llama-3.1-8b")
    with pytest.raises(InvalidInput, match=r"starts pretrain_bert\.py: its models are not modelled"):
        imported(tmp_path, "a.sh", f"torchrun x/pretrain_bert.py {MODEL} {BATCH}")
    with pytest.raises(InvalidInput, match="--encoder-tensor-model-parallel-size 2 is a degree of parallelism"):
        imported(tmp_path, "a.sh", f"torchrun t.py {MODEL} {BATCH} --encoder-tensor-model-parallel-size 2")


def test_an_accelerator_is_taken_in_the_numbers_of_the_file(tmp_path: Path) -> None:
    script = f"torchrun --nnodes 4 --nproc_per_node 8 t.py {MODEL} {BATCH}"
    assert imported(tmp_path, "a.sh", script, "h100").inputs.cluster.num_gpus == 32
    assert imported(tmp_path, "a.yaml", AXOLOTL, "h100").inputs.cluster.num_gpus == 8
    question = imported(tmp_path, "a.sh", script, "2x8:h100")
    assert "the file starts 4 x 8 GPUs; asked about: 16 GPUs" in question.notes


def test_everything_that_is_left_open_is_named_at_once(tmp_path: Path) -> None:
    script = "torchrun t.py --num-layers $L --hidden-size 64 --num-attention-heads 4 --micro-batch-size 1 --bf16 "
    script += "--position-embedding-type rope"
    with pytest.raises(InvalidInput) as raised:
        imported(tmp_path, "a.sh", script, None)
    for part in ("--cluster NODESx8:h100", "--set L=...", "--seq-length is not in the file", "--vocab-size"):
        assert part in str(raised.value)
    given = {"L": "2", "__seq-length": "128", "__vocab-size": "1000", "__global-batch-size": "16"}
    assert imported(tmp_path, "a.sh", script, "2x8:h100", **given).inputs.model.num_layers == 2


def test_conditions_that_nothing_decides_are_named_by_what_decides_them(tmp_path: Path) -> None:
    script = f"if [ $1 = big ]; then O='--tensor-model-parallel-size 8'; fi\ntorchrun t.py {MODEL} {BATCH} $O $EXTRA"
    with pytest.raises(InvalidInput, match=r"line 1: which side of a condition holds rests on 1: --set 1="):
        imported(tmp_path, "a.sh", script)
    question = imported(tmp_path, "a.sh", script, **{"1": "big"})
    assert question.plan.tp == 8
    assert "EXTRA, which nothing sets, is taken as empty" in question.notes


def test_what_changes_memory_or_time_and_is_not_priced_is_named(tmp_path: Path) -> None:
    script = f"torchrun t.py {MODEL} {BATCH} --ddp-bucket-size 9 --optimizer adam --made-up 3 --sequence-parallel"
    question = imported(tmp_path, "a.sh", script)
    assert list(question.understood.unpriced) == ["--ddp-bucket-size"]
    sgd = imported(tmp_path, "b.sh", script.replace("adam", "sgd"))
    assert list(sgd.understood.unpriced) == ["--ddp-bucket-size", "--optimizer"]
    assert list(question.understood.unknown) == ["--made-up"]
    assert "switches it off without a word" in question.notes[0]


def test_a_variable_that_the_script_does_not_read_is_named(tmp_path: Path) -> None:
    text = f"TP=${{TP:-4}}\ntorchrun t.py {MODEL} {BATCH} --tensor-model-parallel-size $TP"
    mistyped, read = (imported(tmp_path, "run.sh", text, **{name: "2"}) for name in ("TPP", "TP"))
    assert (mistyped.plan.tp, mistyped.notes[0]) == (4, "--set TPP: run.sh itself does not read TPP")
    assert (read.plan.tp, any("--set" in each for each in read.notes)) == (2, False)


def test_settings_switch_the_runtime(tmp_path: Path) -> None:
    for options, loss in (("", "native"), ("--cross-entropy-fusion-impl te", "fused")):
        words = f"torchrun t.py {MODEL} {BATCH} --cross-entropy-loss-fusion {options}"
        fused = imported(tmp_path, "a.sh", words).inputs.runtime
        assert fused.kernels.cross_entropy == loss
    assert fused.overlap.data_parallel == 0
    overlapped = imported(tmp_path, "a.sh", f"torchrun t.py {MODEL} {BATCH} --overlap-grad-reduce").inputs.runtime
    assert overlapped.overlap.data_parallel > 0
    experts = f"torchrun t.py {MODEL} {BATCH} --num-experts 8 --expert-model-parallel-size 8 --moe-router-topk 2"
    for fusion, position in (("", "off"), ("--moe-permute-fusion", "on")):
        sorted_by = imported(tmp_path, "a.sh", f"{experts} {fusion}").inputs.runtime
        assert position_of(sorted_by, PERMUTE_FUSION) == position


@pytest.mark.parametrize("position", ["off", "on"])
@pytest.mark.parametrize(
    ("runtime", "framework", "name"),
    [("megatron-core", "megatron-lm", "train.sh"), ("megatron-bridge", "megatron-bridge", "meshwright_plan.py")],
)
def test_written_files_say_how_rows_of_experts_are_sorted(
    tmp_path: Path, runtime: str, framework: str, name: str, position: str
) -> None:
    asked = question(read_model("qwen3-30b-a3b"), "1x8:h100", runtime, global_batch=64)
    asked = asked.replace(runtime=with_behaviours(asked.runtime, [f"{PERMUTE_FUSION}={position}"]))
    files = launch_files(Plan(dp=8, ep=8, zero=1, num_microbatches=8), asked, framework)
    (tmp_path / name).write_text(files.files[name])
    read = question_of_file(tmp_path / name, Given(cluster="1x8:h100"))
    assert position_of(read.inputs.runtime, PERMUTE_FUSION) == position


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "a.sh",
            f"torchrun t.py {MODEL} {BATCH} --enable-1f1b-v --pipeline-model-parallel-size 4",
            "--enable-1f1b-v: the 1F1B schedule in a V is not modelled",
        ),
        ("a.yaml", "a: 1\nb: 2\n", "is of no framework that is recognised"),
        ("a.sh", f"torchrun t.py {MODEL} {BATCH.replace('64', 'many')}", "'many' is not a whole number"),
        (
            "a.sh",
            "python s.py --model_recipe_name llama31_405b --gpu h100",
            "the recipe llama31_405b of Megatron-Bridge",
        ),
        (
            "a.yaml",
            "model_name_or_path: x/y\nper_device_train_batch_size: 1\nbf16: true\n",
            "'x/y' is not in the catalogue",
        ),
        ("a.json", '{"train_batch_size": "auto", "zero_optimization": {"stage": 3}}', "job.global_batch"),
    ],
)
def test_files_that_are_no_question_say_why(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        imported(tmp_path, name, text)
    assert message in str(raised.value)


def test_of_several_recipes_one_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidInput, match="holds 2 recipes; name one: --set function=NAME, of small_config, large_config"
    ):
        imported(tmp_path, "r.py", BRIDGE, model="llama-3.1-70b")
    given = {"function": "large_config", "job.sequence_length": "8192"}
    question = imported(tmp_path, "r.py", BRIDGE, model="llama-3.1-70b", **given)
    assert str(question.plan) == "tp4 sp pp2 dp2 zero1 mbs1 m64"
    assert question.inputs.job.precision == "fp8"


@pytest.mark.parametrize(("backend", "kernels"), [("deepep", "deep_ep"), ("hybridep", "hybrid_ep")])
def test_the_kernels_of_a_fused_dispatcher_are_read(tmp_path: Path, backend: str, kernels: str) -> None:
    """Of Megatron's flags, and of torchtitan's registry of models, whose runtime also permutes otherwise then."""
    experts = "--num-experts 8 --expert-model-parallel-size 8 --moe-router-topk 2 --moe-token-dispatcher-type flex"
    script = f"torchrun t.py {MODEL} {BATCH} {experts} --moe-flex-dispatcher-backend {backend}"
    communication = imported(tmp_path, "a.sh", script).inputs.runtime.communication
    assert (communication.dispatcher, communication.fused_kernels) == ("fused", kernels)
    inputs = question(read_model("qwen3-30b-a3b"), "1x8:h100", "torchtitan", global_batch=64)
    changes = ["dispatcher=fused", f"fused_kernels={kernels}"]
    asked = inputs.replace(runtime=with_behaviours(inputs.runtime, changes))
    files = launch_files(Plan(dp=8, ep=8, zero=3, num_microbatches=8), asked, "torchtitan")
    (tmp_path / "meshwright_plan.py").write_text(files.files["meshwright_plan.py"])
    read = question_of_file(tmp_path / "meshwright_plan.py", Given(cluster="1x8:h100")).inputs.runtime
    assert read.communication == asked.runtime.communication
    assert read.kernels == asked.runtime.kernels


@pytest.mark.parametrize(
    ("option", "read"), [("--moe-hybridep-num-sms", 32), ("--moe-flex-dispatcher-num-sms", 32), ("", 24)]
)
def test_the_multiprocessors_of_a_fused_dispatcher_are_read(tmp_path: Path, option: str, read: int) -> None:
    experts = "--num-experts 8 --expert-model-parallel-size 8 --moe-router-topk 2 --moe-token-dispatcher-type flex"
    kernels = f"--moe-flex-dispatcher-backend hybridep {option and f'{option} 32'}"
    inputs = imported(tmp_path, "a.sh", f"torchrun t.py {MODEL} {BATCH} {experts} {kernels}").inputs
    assert inputs.runtime.communication.fused_multiprocessors == read


@pytest.mark.parametrize(("exported", "read"), [("export NUM_OF_TOKENS_PER_CHUNK_COMBINE_API=128", 128), ("", 64)])
def test_the_chunks_of_a_fused_dispatcher_are_read(tmp_path: Path, exported: str, read: int) -> None:
    experts = "--num-experts 8 --expert-model-parallel-size 8 --moe-router-topk 2 --moe-token-dispatcher-type flex"
    command = f"torchrun t.py {MODEL} {BATCH} {experts} --moe-flex-dispatcher-backend hybridep"
    inputs = imported(tmp_path, "a.sh", f"{exported}\n{command}").inputs
    assert inputs.runtime.communication.fused_chunk_tokens == read


@pytest.mark.parametrize("framework", ["megatron-lm", "megatron-bridge"])
def test_launch_files_give_hybrid_ep_the_multiprocessors_that_are_priced(framework: str) -> None:
    runtime = {"megatron-lm": "megatron-core", "megatron-bridge": "megatron-bridge"}[framework]
    asked = question(read_model("qwen3-30b-a3b"), "2x4:gb200", runtime, global_batch=64)
    changes = ["dispatcher=fused", "fused_kernels=hybrid_ep", "fused_multiprocessors=20"]
    asked = asked.replace(runtime=with_behaviours(asked.runtime, changes))
    files = launch_files(Plan(dp=8, ep=8, zero=1, num_microbatches=8), asked, framework).files
    assert any(re.search(r"moe[-_]hybridep[-_]num[-_]sms[ =]20\b", text) for text in files.values())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--num-query-groups 4", True),
        ("--num-query-groups 4 --group-query-attention", False),
        ("--num-query-groups 32", False),
    ],
)
def test_groups_of_queries_that_nothing_reads_are_named(tmp_path: Path, arguments: str, said: bool) -> None:
    """As many groups as heads are what it runs without them."""
    question = imported(tmp_path, "a.sh", f"torchrun t.py {MODEL} {BATCH} {arguments}")
    assert any("without --group-query-attention: Megatron-LM passes it over" in each for each in question.notes) is said


def test_a_misspelt_batch_of_llm_foundry_is_named_and_not_the_framework(tmp_path: Path) -> None:
    text = FOUNDRY.replace("global_train_batch_size", "global_train_batchsize")
    with pytest.raises(InvalidInput, match=r"global_train_batchsize \(nearest: global_train_batch_size\)"):
        imported(tmp_path, "a.yaml", text)
