"""Packed weights: files of QLoRA, read and written, and what bitsandbytes makes of a written one."""

from __future__ import annotations

import json
import os
import runpy
from pathlib import Path
from typing import Any

import pytest
from test_files_with_adapters import AXOLOTL, LLAMA_FACTORY, LORA, SCRIPT, TRL

from launch_configs import TINY_LLAMA
from meshwright.answers.launch.files import launch_files
from meshwright.errors import InvalidInput
from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.inputs import Inputs
from meshwright.specs.packed import BYTES_OF_SCALES, packed_parameters, packed_weights
from meshwright.specs.precision import FP32_BYTES, HALF_BYTES
from meshwright.specs.reading.model import read_model
from strategies import question

QLORA = AXOLOTL.replace(": lora\n", ": qlora\n")
SWIFT = """NPROC_PER_NODE=8 swift sft --model Qwen/Qwen2.5-7B-Instruct --tuner_type lora --torch_dtype bfloat16 \\
  --per_device_train_batch_size 1 --lora_dropout 0 --max_length 2048 --quant_method bnb --quant_bits 4 """
NESTED, STORED = "priced with double quantisation; without ", "FSDP 2 shards: it divides packed weights"
STORES = "bnb_4bit_quant_storage"


def read(folder: Path, name: str, text: str) -> LaunchQuestion:
    (folder / name).write_text(text)
    values = {"plan.zero": "0"} if text.startswith(TRL[:30]) else {}
    return question_of_file(folder / name, Given(cluster="1x8:h100", values=values))


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.yaml", QLORA, ()),
        ("a.yaml", f"{QLORA}load_in_4bit: true\n", ()),
        ("a.yaml", f"{QLORA}bnb_config_kwargs: {{bnb_4bit_use_double_quant: false}}\n", (NESTED,)),
        ("a.yaml", f"{LLAMA_FACTORY}quantization_bit: 4\n", ()),
        ("a.yaml", f"{LLAMA_FACTORY}quantization_bit: 4\nquantization_method: bnb\n", ()),
        ("a.yaml", f"{LLAMA_FACTORY}quantization_bit: 4\ndouble_quantization: false\n", (NESTED,)),
        ("a.yaml", f"{TRL}load_in_4bit: true\n", (NESTED, STORED)),
        ("a.yaml", f"{TRL}load_in_4bit: true\nuse_bnb_nested_quant: true\n{STORES}: bfloat16\n", ()),
        ("a.sh", f"{SCRIPT}{LORA}--load_in_4bit True", (NESTED, STORED)),
        ("a.sh", f"{SWIFT}--{STORES} bfloat16", ()),
        ("a.sh", SWIFT, (STORED,)),
    ],
)
def test_what_asks_for_packed_weights_is_read(tmp_path: Path, name: str, text: str, told: tuple[str, ...]) -> None:
    found = read(tmp_path, name, text)
    assert found.inputs.packs_weights
    assert found.inputs.job.lora_rank > 0
    notes = [note for note in (NESTED, STORED) if any(note in each for each in found.notes)]
    assert notes == list(told)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", AXOLOTL),
        ("a.yaml", LLAMA_FACTORY),
        ("a.yaml", f"{TRL}load_in_4bit: false\n"),
        ("a.sh", f"{SCRIPT}{LORA}--load_in_4bit False"),
    ],
)
def test_without_it_frozen_weights_are_in_2_bytes(tmp_path: Path, name: str, text: str) -> None:
    assert not read(tmp_path, name, text).inputs.packs_weights


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.yaml", f"{QLORA}bnb_config_kwargs: {{bnb_4bit_quant_type: fp4}}\n", "fp4: weights of 4 bits are priced as"),
        ("a.yaml", f"{LLAMA_FACTORY}quantization_bit: 4\nquantization_method: hqq\n", "other than 4 bits of bitsandb"),
        ("a.yaml", f"{LLAMA_FACTORY}quantization_bit: 4\nquantization_type: fp4\n", "quantization_type fp4: weights"),
        ("a.sh", SWIFT.replace("bnb", "hqq"), "--quant_bits is of quantised weights"),
        ("a.sh", SWIFT.replace("tuner_type lora", "tuner_type full"), "weights in 4 bits are not trained"),
    ],
)
def test_other_forms_of_4_bits_are_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        read(tmp_path, name, text)
    assert message in str(raised.value)


def test_beside_deepspeed_they_are_refused(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text('{"zero_optimization": {"stage": 2}, "bf16": {"enabled": true}}')
    with pytest.raises(InvalidInput, match="4-bit weights are not priced under deepspeed; use accelerate or pytorch"):
        read(tmp_path, "a.yaml", f"{LLAMA_FACTORY}quantization_bit: 4\ndeepspeed: ds.json\n")


def packed(model: str, cluster: str = "1x2:h100") -> Inputs:
    sizes = {"sequence_length": 64, "global_batch": 2, "precision": "bf16", "lora_rank": 8}
    inputs = question(read_model(model), cluster, "accelerate", **sizes)
    return inputs.replace(runtime=with_behaviours(inputs.runtime, ["frozen_weights=nf4"]))


@pytest.mark.parametrize("zero", [0, 2, 3])
def test_written_files_are_read_back_with_them(tmp_path: Path, zero: int) -> None:
    inputs = packed("llama-3.1-8b", "1x2:h100" if zero else "1x1:h100")
    plan = Plan(dp=inputs.cluster.num_gpus, zero=zero, num_microbatches=2 // inputs.cluster.num_gpus)
    files = launch_files(plan, inputs, "accelerate").files
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert "PACKS_WEIGHTS = True" in files["train.py"]
    assert "Host memory" not in files["train.py"]
    cluster = f"1x{inputs.cluster.num_gpus}:h100"
    again = question_of_file(tmp_path / "accelerate.yaml", Given(cluster=cluster, model="llama-3.1-8b"))
    assert again.inputs.packs_weights
    assert again.inputs.runtime.id == "accelerate"


@pytest.mark.slow
@pytest.mark.clients("peft", "transformers", "accelerate", "bitsandbytes")
@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")
def test_bitsandbytes_stores_as_many_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    (tmp_path / "config.json").write_text(json.dumps(TINY_LLAMA))
    config = AutoConfig.from_pretrained(tmp_path)
    AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(tmp_path)
    inputs = packed(str(tmp_path))
    text = launch_files(Plan(dp=2, zero=3), inputs, "accelerate").files["train.py"]
    (tmp_path / "train.py").write_text(text.removesuffix("main()\n"))
    said = {"MODEL": str(tmp_path), "DATA": "", "CHECKPOINTS": "", "STEPS": "1", "LEARNING_RATE": "1"}
    for name, value in said.items():
        monkeypatch.setitem(os.environ, name, value)
    script: dict[str, Any] = runpy.run_path(str(tmp_path / "train.py"))
    weights = [each for each in script["model"]().parameters() if type(each).__name__ == "Params4bit"]
    (kind,) = inputs.model.layer_kinds
    layers, stored = inputs.model.num_layers, packed_weights(inputs.model, kind, False)
    rows = sorted(each.rows for each in stored for _ in range(each.tensors * layers) if each.part != "norms")  # type: ignore[type-var]
    assert sorted(each.shape[0] for each in weights) == rows
    assert {(each.dtype, *each.shape[1:]) for each in weights} == {(torch.bfloat16, 1)}
    assert sum(each.numel() for each in weights) * HALF_BYTES == layers * packed_parameters(inputs.model, kind) / 2
    states = [each.quant_state for each in weights]
    scales = sum(each.absmax.nbytes + each.state2.absmax.nbytes for each in states)
    rounded = scales - layers * packed_parameters(inputs.model, kind) * BYTES_OF_SCALES
    assert 0 <= rounded < (1 + FP32_BYTES) * len(weights)  # each tensor's last scale of either kind
