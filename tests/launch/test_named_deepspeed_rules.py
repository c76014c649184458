"""A DeepSpeed file that a script or a configuration names is held to DeepSpeed's own rules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands import asked
from launch_examples import DEEPSPEED_SCRIPT
from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file
from meshwright.launch.imports.rules.demands import demands_of

TRAINER = """torchrun --nnodes 2 --nproc_per_node=8 train.py --model_name_or_path ~/models/llama-2-7b --bf16 True \\
  --per_device_train_batch_size 2 --gradient_accumulation_steps 4 --model_max_length 2048 \\
  --gradient_checkpointing True --deepspeed ds.json
"""
ACCELERATE = """distributed_type: DEEPSPEED
deepspeed_config:
  deepspeed_config_file: ds.json
"""
LLAMA_FACTORY = """model_name_or_path: meta-llama/Llama-3.1-8B
per_device_train_batch_size: 2
stage: sft
finetuning_type: full
bf16: true
deepspeed: ds.json
"""
SAID = {"job.sequence_length": "4096", "plan.micro_batch": "1", "plan.num_microbatches": "4"}
FORMATS = '{\n"zero_optimization": {"stage": 3},\n"bf16": {"enabled": true},\n"fp16": {"enabled": true}}'
MISSPELT = '{\n"zero_optimization": {"stage": 3,\n"overlap_com": true}, "bf16": {"enabled": true}}'
FILLED_IN = '{"zero_optimization": {"stage": 3}, "bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}}'
FORMS = [("a.sh", TRAINER), ("a.yaml", ACCELERATE), ("b.yaml", LLAMA_FACTORY)]


def read(folder: Path, name: str, text: str, engine: str) -> LaunchQuestion:
    (folder / "ds.json").write_text(engine)
    (folder / name).write_text(text)
    values = SAID if name == "a.yaml" else {}
    return question_of_file(folder / name, Given(cluster="2x8:h100", model="llama-2-7b", values=values))


def broken(question: LaunchQuestion) -> dict[str, str]:
    return {rule.name: rule.reason for rule in question.rules if not rule.kept}


@pytest.mark.parametrize(("name", "text"), FORMS)
def test_the_rules_of_deepspeed_hold_for_a_file_that_another_names(tmp_path: Path, name: str, text: str) -> None:
    told = broken(read(tmp_path, name, text, FORMATS))
    assert set(told) - {"bf16_agrees"} == {"deepspeed_one_half_format"}
    assert told["deepspeed_one_half_format"].startswith("ds.json, lines 3, 4: bf16.enabled True, fp16.enabled True: ")
    told = broken(read(tmp_path, name, text, MISSPELT))
    assert set(told) == {"deepspeed_known_keys"}
    assert "ds.json, line 3: zero_optimization.overlap_com (nearest: zero_opt" in told["deepspeed_known_keys"]
    question = read(tmp_path, name, text, FILLED_IN)
    assert not broken(question)
    assert {"deepspeed_one_half_format", "deepspeed_known_keys"} <= {rule.name for rule in question.rules}


def test_a_json_that_the_script_writes_itself_is_held_to_them_too(tmp_path: Path) -> None:
    assert '"zero_optimization"' in DEEPSPEED_SCRIPT
    text = DEEPSPEED_SCRIPT.replace(
        '"zero_optimization"', '"bf16": {"enabled": true}, "fp16": {"enabled": true}, "zero_optimization"'
    )
    path = tmp_path / "ds.sh"
    path.write_text(text)
    assert "deepspeed_one_half_format" in broken(question_of_file(path, Given(cluster="2x8:h100")))


def test_check_refuses_such_a_file(tmp_path: Path) -> None:
    read(tmp_path, "a.sh", TRAINER, FORMATS)
    answer = asked("check", "--from", str(tmp_path / "a.sh"), "--cluster", "2x8:h100", "--json")
    assert answer.code == 2
    assert [each["name"] for each in json.loads(answer.out)["rules"] if not each["kept"]] == [
        "bf16_agrees",
        "deepspeed_one_half_format",
    ]


DISAGREEING = [
    ("micro_batches_agree", {"train_micro_batch_size_per_gpu": 1}, "--per_device_train_batch_size 1"),
    ("accumulation_agrees", {"gradient_accumulation_steps": 8}, "--gradient_accumulation_steps 8"),
    ("clipping_agrees", {"gradient_clipping": 0.5}, "--max_grad_norm 0.5"),
    ("learning_rates_agree", {"optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}}, "--learning_rate 0.0001"),
    ("bf16_agrees", {"bf16": {"enabled": False}}, "auto for both formats there"),
    ("fp16_agrees", {"bf16": {"enabled": True}}, "auto for both formats there"),
]


@pytest.mark.parametrize(("rule", "engine", "nearest"), DISAGREEING)
def test_a_trainer_takes_no_other_values_than_its_deepspeed_file_says(
    tmp_path: Path, rule: str, engine: dict[str, object], nearest: str
) -> None:
    said = f"{TRAINER.strip()} --max_grad_norm 1.0 --learning_rate 2e-5\n"
    said = said.replace("--bf16", "--fp16") if rule == "fp16_agrees" else said
    told = broken(read(tmp_path, "a.sh", said, json.dumps({"zero_optimization": {"stage": 3}} | engine)))
    assert set(told) == {rule}
    assert nearest in told[rule]
    assert told[rule].startswith("line ")


def test_every_demand_of_a_trainer_has_an_example() -> None:
    demands = demands_of("trainer")
    assert demands is not None
    assert {each.name for each in demands.demands} == {rule for rule, *_ in DISAGREEING}
