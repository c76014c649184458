"""Configurations of axolotl and LLaMA-Factory that train adapters."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshwright.errors import InvalidInput
from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file

AXOLOTL = """base_model: Qwen/Qwen3-8B
micro_batch_size: 2
gradient_accumulation_steps: 4
sequence_len: 4096
bf16: auto
gradient_checkpointing: true
adapter: lora
lora_r: 32
lora_alpha: 16
lora_dropout: 0.05
"""
LINEAR = "lora_target_linear: true\n"
FACTORY = """model_name_or_path: Qwen/Qwen3-8B
stage: sft
do_train: true
finetuning_type: lora
cutoff_len: 2048
per_device_train_batch_size: 1
gradient_accumulation_steps: 8
bf16: true
"""


def read(folder: Path, text: str, **values: str) -> LaunchQuestion:
    (folder / "a.yaml").write_text(text)
    return question_of_file(folder / "a.yaml", Given(cluster="1x8:h100", model="qwen3-8b", values=values))


def test_axolotl_trains_adapters_of_all_linear_layers_in_replicas(tmp_path: Path) -> None:
    question = read(tmp_path, AXOLOTL + LINEAR)
    job, runtime = question.inputs.job, question.inputs.runtime
    assert (job.lora_rank, job.lora_modules, runtime.id) == (32, ("all-linear",), "pytorch-ddp")
    assert not runtime.storage.autocast
    assert "recompute-full" in str(question.plan)
    assert "lora_dropout" in question.understood.unpriced


def test_axolotl_trains_adapters_of_named_layers_under_fsdp(tmp_path: Path) -> None:
    named = "lora_target_modules: [v_proj, q_proj]\nfsdp_version: 2\nfsdp_config: {reshard_after_forward: true}\n"
    question = read(tmp_path, AXOLOTL + named)
    assert (question.inputs.job.lora_modules, question.inputs.runtime.id) == (("v_proj", "q_proj"), "accelerate")
    assert question.plan.zero == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (AXOLOTL, "lora_target_modules is left out, and adapters are trained"),
        (AXOLOTL.replace("lora_r: 32\n", LINEAR), "lora_r is left out, and adapters are trained"),
        (
            AXOLOTL.replace("adapter: lora", "adapter: oft") + LINEAR,
            "adapter oft: adapters are priced as accelerate",
        ),
        (AXOLOTL + LINEAR + "load_in_4bit: true\n", "quantised weights, which adapter: qlora asks for, not modelled"),
        (AXOLOTL + LINEAR + "peft_use_dora: true\n", "DoRA"),
        (AXOLOTL + LINEAR + "lora_modules_to_save: [lm_head]\n", "modules that are trained whole beside adapters"),
        (
            AXOLOTL + "lora_target_modules: [lm_head]\n",
            "lora_target_modules: adapters stand beside all-linear or q_proj",
        ),
        (FACTORY + "quantization_bit: 8\n", "adapters beside weights quantised to other than 4 bits"),
        (FACTORY + "use_dora: true\n", "DoRA"),
        (FACTORY + "additional_target: embed_tokens\n", "modules that are trained whole beside adapters"),
    ],
)
def test_what_is_not_priced_of_adapters_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("own", "rank", "modules"),
    [
        ("", 8, ("all-linear",)),
        ("lora_rank: 64\nlora_target: q_proj,v_proj\n", 64, ("q_proj", "v_proj")),
        ("lora_target: all\nlora_alpha: 32\n", 8, ("all-linear",)),
    ],
)
def test_llama_factory_trains_adapters_by_its_defaults(
    tmp_path: Path, own: str, rank: int, modules: tuple[str, ...]
) -> None:
    question = read(tmp_path, FACTORY + own)
    job = question.inputs.job
    assert (job.lora_rank, job.lora_modules) == (rank, modules)
    assert question.inputs.runtime.id == "pytorch-ddp"
    assert any(note.startswith("neither `deepspeed` nor `fsdp`: replicas") for note in question.notes)


def test_adapters_beside_deepspeed_are_its_own(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text('{"zero_optimization": {"stage": 3}, "bf16": {"enabled": true}}')
    questions = (
        read(tmp_path, FACTORY, **{"zero_optimization.stage": "3"}),
        read(tmp_path, FACTORY + "deepspeed: ds.json\n"),
    )
    for question in questions:
        assert (question.inputs.runtime.id, question.plan.zero) == ("deepspeed", 3)


def test_ranks_of_adapters_that_are_not_trained_change_nothing(tmp_path: Path) -> None:
    whole = FACTORY.replace("finetuning_type: lora", "finetuning_type: full")
    question = read(tmp_path, whole + "lora_rank: 64\nlora_target: all\n", **{"zero_optimization.stage": "3"})
    assert question.inputs.job.lora_rank == 0
