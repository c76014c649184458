"""Launch files that train low-rank adapters: what they say of rank and modules, and what of them is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshwright.errors import InvalidInput
from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file
from meshwright.specs.adapters import adapter_parameters
from meshwright.specs.job import ALL_LINEAR
from meshwright.text_files import packaged_table

AXOLOTL = """base_model: NousResearch/Llama-3.2-1B
adapter: lora
lora_model_dir:
lora_r: 16
lora_alpha: 32
lora_dropout: 0.05
lora_target_modules:
  - q_proj
  - v_proj
sequence_len: 2048
micro_batch_size: 2
gradient_accumulation_steps: 2
gradient_checkpointing: true
bf16: auto
"""
LLAMA_FACTORY = """model_name_or_path: Qwen/Qwen3-8B
stage: sft
finetuning_type: lora
lora_rank: 16
lora_target: q_proj,v_proj
template: qwen3
cutoff_len: 2048
per_device_train_batch_size: 1
gradient_accumulation_steps: 8
bf16: true
"""
TRL = """model_name_or_path: meta-llama/Llama-3.1-8B
torch_dtype: bfloat16
use_peft: true
lora_r: 32
lora_alpha: 16
lora_target_modules: [q_proj, k_proj, v_proj, o_proj]
per_device_train_batch_size: 2
gradient_accumulation_steps: 4
max_seq_length: 4096
gradient_checkpointing: true
bf16: true
"""
SCRIPT = """torchrun --nnodes 2 --nproc_per_node=8 finetune.py --model_name_or_path ~/models/llama-2-7b --bf16 True \\
  --per_device_train_batch_size 2 --gradient_accumulation_steps 4 --model_max_length 2048 \\
  --gradient_checkpointing True """
LORA = "--use_lora --lora_r 8 --lora_alpha 16 --lora_target_modules q_proj v_proj "
UNIT = "the whole model one, which every rank then gathers whole"


def read(folder: Path, name: str, text: str, **values: str) -> LaunchQuestion:
    path = folder / name
    path.write_text(text)
    return question_of_file(path, Given(cluster="2x8:h100", values=values))


def adapters(question: LaunchQuestion) -> tuple[str, int, tuple[str, ...]]:
    job = question.inputs.job
    return question.inputs.runtime.id, job.lora_rank, job.lora_modules


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (AXOLOTL, ("pytorch-ddp", 16, ("q_proj", "v_proj"))),
        (f"{AXOLOTL}lora_target_linear: true\n", ("pytorch-ddp", 16, (ALL_LINEAR,))),
        (
            f"{AXOLOTL}fsdp_version: 2\nfsdp_config: {{reshard_after_forward: true}}\n",
            ("accelerate", 16, ("q_proj", "v_proj")),
        ),
        (LLAMA_FACTORY, ("pytorch-ddp", 16, ("q_proj", "v_proj"))),
        (LLAMA_FACTORY.replace("q_proj,v_proj", "all"), ("pytorch-ddp", 16, (ALL_LINEAR,))),
        (
            LLAMA_FACTORY.replace("lora_rank: 16\nlora_target: q_proj,v_proj\n", ""),
            ("pytorch-ddp", 8, (ALL_LINEAR,)),
        ),
        (LLAMA_FACTORY.replace("finetuning_type: lora\n", ""), ("pytorch-ddp", 16, ("q_proj", "v_proj"))),
    ],
)
def test_adapters_of_yaml_are_read_with_the_defaults_of_their_framework(
    tmp_path: Path, text: str, expected: tuple[str, int, tuple[str, ...]]
) -> None:
    question = read(tmp_path, "a.yaml", text)
    assert adapters(question) == expected
    assert not {key for key in question.understood.unknown if "lora" in key}
    assert not question.inputs.runtime.storage.autocast


@pytest.mark.parametrize(("zero", "runtime"), [("0", "pytorch-ddp"), ("3", "deepspeed")])
def test_adapters_of_trl_are_priced_as_a_runtime_that_has_them(tmp_path: Path, zero: str, runtime: str) -> None:
    question = read(tmp_path, "a.yaml", TRL, **{"plan.zero": zero})
    assert adapters(question) == (runtime, 32, ("q_proj", "k_proj", "v_proj", "o_proj"))
    assert not any(UNIT in note for note in question.notes)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", f"{AXOLOTL}deepspeed: zero2.json\n"),
        ("a.yaml", f"{LLAMA_FACTORY}deepspeed: zero2.json\n"),
        ("a.sh", f"{SCRIPT}{LORA}--deepspeed zero2.json"),
    ],
)
def test_adapters_beside_deepspeed_are_priced_as_it_shards_them(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "zero2.json").write_text('{"zero_optimization": {"stage": 2}, "bf16": {"enabled": true}}')
    question = read(tmp_path, name, text)
    assert adapters(question)[0] == "deepspeed"
    assert question.plan.zero == 2


def test_what_trl_leaves_out_is_its_own_and_that_of_peft(tmp_path: Path) -> None:
    text = TRL.replace("lora_r: 32\n", "").replace("lora_target_modules: [q_proj, k_proj, v_proj, o_proj]\n", "")
    question = read(tmp_path, "a.yaml", text, **{"plan.zero": "3"})
    assert adapters(question) == ("deepspeed", 16, ("q_proj", "v_proj"))
    inputs = question.inputs
    assert adapter_parameters(inputs.model, inputs.job, inputs.runtime) == 32 * 16 * (8192 + 5120)
    assert "lora_dropout" in question.understood.unpriced  # 0.05 where the file says nothing
    none = read(tmp_path, "a.yaml", f"{text}lora_dropout: 0.0\n", **{"plan.zero": "3"})
    assert "lora_dropout" not in none.understood.unpriced


def test_what_is_left_to_peft_is_refused_where_peft_has_nothing(tmp_path: Path) -> None:
    left = TRL.replace("lora_target_modules: [q_proj, k_proj, v_proj, o_proj]\n", "")
    left = left.replace("meta-llama/Llama-3.1-8B", "google/gemma-3-12b-pt")
    with pytest.raises(
        InvalidInput, match=r"lora_target_modules is left out.*peft has none of its own for gemma-3-12b"
    ):
        read(tmp_path, "a.yaml", left, **{"plan.zero": "3"})
    named = read(tmp_path, "a.yaml", left, **{"plan.zero": "3", "job.lora_modules": "q_proj,o_proj"})
    assert adapters(named)[2] == ("q_proj", "o_proj")


def test_options_of_adapters_mean_nothing_where_all_weights_are_trained(tmp_path: Path) -> None:
    for text in (
        AXOLOTL.replace("adapter: lora", "adapter:"),
        LLAMA_FACTORY.replace("finetuning_type: lora", "finetuning_type: full"),
    ):
        question = read(tmp_path, "a.yaml", text)
        assert question.inputs.job.lora_rank == 0
        assert not {key for key in (*question.understood.unknown, *question.understood.unpriced) if "lora" in key}
    script = read(tmp_path, "a.sh", f"{SCRIPT}--use_lora False --lora_r 8")
    assert (script.inputs.job.lora_rank, script.understood.unknown) == (0, {})


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (LORA, ("pytorch-ddp", 8, ("q_proj", "v_proj"))),
        (f"{LORA}--fsdp 'full_shard auto_wrap'", ("accelerate", 8, ("q_proj", "v_proj"))),
        ("--use_peft --lora-rank 64 --lora-target-modules all-linear", ("pytorch-ddp", 64, (ALL_LINEAR,))),
        ("--lora_r 8 --lora_target_modules q_proj,k_proj --lora_bias none", ("pytorch-ddp", 8, ("q_proj", "k_proj"))),
    ],
)
def test_adapters_of_scripts_are_read(tmp_path: Path, options: str, expected: tuple[str, int, tuple[str, ...]]) -> None:
    question = read(tmp_path, "a.sh", SCRIPT + options)
    assert adapters(question) == expected
    assert any(UNIT in note for note in question.notes) == ("fsdp" in options)


def test_adapters_of_a_script_that_accelerate_starts_are_read(tmp_path: Path) -> None:
    (tmp_path / "fsdp.yaml").write_text(
        "distributed_type: FSDP\nfsdp_config: {fsdp_version: 2}\nmixed_precision: bf16\n"
    )
    text = SCRIPT.replace("torchrun --nnodes 2 --nproc_per_node=8", "accelerate launch --config_file fsdp.yaml")
    assert adapters(read(tmp_path, "a.sh", text + LORA)) == ("accelerate", 8, ("q_proj", "v_proj"))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "a.yaml",
            AXOLOTL.replace(": lora\n", ": llama-adapter\n"),
            "adapter llama-adapter: adapters are priced as acc",
        ),
        ("a.yaml", f"{AXOLOTL}load_in_4bit: true\n", "line 15: load_in_4bit is of quantised weights"),
        ("a.yaml", f"{AXOLOTL}load_in_8bit: true\n", "line 15: load_in_8bit is of quantised weights"),
        ("a.yaml", f"{AXOLOTL}peft_use_dora: true\n", "line 15: peft_use_dora is of adapters with magnitudes"),
        ("a.yaml", f"{AXOLOTL}lora_modules_to_save: [lm_head]\n", "line 15: lora_modules_to_save is of modules that"),
        ("a.yaml", AXOLOTL.replace("lora_r: 16\n", ""), "lora_r is left out, and adapters are trained"),
        (
            "a.yaml",
            AXOLOTL.replace("lora_target_modules:\n  - q_proj\n  - v_proj\n", ""),
            "lora_target_modules is left",
        ),
        ("a.yaml", AXOLOTL.replace("- v_proj", "- embed_tokens"), "lora_target_modules: adapters stand beside"),
        ("a.yaml", AXOLOTL.replace("bf16: auto", "fp16: true"), "adapters are priced beside bf16 weights, not fp16"),
        (
            "a.yaml",
            f"{LLAMA_FACTORY}quantization_bit: 8\n",
            "line 11: quantization_bit is of adapters beside weights quantised to other",
        ),
        ("a.yaml", f"{LLAMA_FACTORY}use_dora: true\n", "line 11: use_dora is of adapters with magnitudes"),
        ("a.yaml", LLAMA_FACTORY.replace(": lora\n", ": freeze\n"), "finetuning_type freeze stage sft is not modelled"),
        ("a.yaml", LLAMA_FACTORY.replace(": sft\n", ": dpo\n"), "finetuning_type lora stage dpo is not modelled"),
        ("a.yaml", TRL.replace("torch_dtype: bfloat16\n", ""), "dtype is left out, which is float32 in TRL"),
        (
            "a.yaml",
            TRL.replace("bfloat16", "float32"),
            "torch_dtype float32: adapters are priced beside weights in bf16",
        ),
        ("a.yaml", f"{TRL}load_in_8bit: true\n", "line 12: load_in_8bit is of quantised weights"),
        ("a.sh", f"{SCRIPT}--use_lora --lora_r 8", "--lora_target_modules is left out, and adapters are trained"),
        ("a.sh", f"{SCRIPT}--use_lora --lora_target_modules q_proj", "--lora_r is left out, and adapters are trained"),
        ("a.sh", SCRIPT.replace("finetune.py", "train_lora.py"), "--lora_r is left out, and adapters are trained"),
        ("a.sh", f"{SCRIPT}{LORA}--q_lora True", "line 3: --q_lora is of quantised weights"),
        ("a.sh", f"{SCRIPT}{LORA}--use_dora", "line 3: --use_dora is of adapters with magnitudes"),
        ("a.sh", f"{SCRIPT}{LORA}--lora_bias all", "--lora_bias all: biases that are trained beside adapters"),
        (
            "a.sh",
            f"{SCRIPT}{LORA}".replace("llama-2-7b", "deepseek-v2-lite"),
            "adapters are priced, under any runtime, for models with projections of queries, keys and values each",
        ),
    ],
)
def test_adapters_that_are_not_priced_are_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    values = {"plan.zero": "3"} if text.startswith(TRL[:30]) else {}
    with pytest.raises(InvalidInput) as raised:
        read(tmp_path, name, text, **values)
    assert message in str(raised.value)


@pytest.mark.clients("peft")
def test_modules_that_peft_has_for_a_model_are_its_own() -> None:
    from peft.utils.constants import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING as THEIRS

    ours = packaged_table("meshwright.launch.imports.spellings", "adapters.toml")["modules"]
    assert ours == {name: THEIRS[name] for name in ours}
