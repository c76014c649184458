"""Files of fine-tuning: those that they name, and optimizers that are told as not priced."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshwright.errors import InvalidInput
from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file

FACTORY = """model_name_or_path: Qwen/Qwen3-8B
stage: sft
finetuning_type: full
deepspeed: examples/deepspeed/ds.json
cutoff_len: 4096
per_device_train_batch_size: 2
bf16: true
"""
ZERO = '{"zero_optimization": {"stage": 3}}'


def read(folder: Path, text: str = FACTORY) -> LaunchQuestion:
    path = folder / "sft.yaml"
    path.write_text(text)
    return question_of_file(path, Given(cluster="1x8:h100"))


@pytest.mark.parametrize("place", ["ds.json", "examples/deepspeed/ds.json"])
def test_the_json_that_a_file_names_is_read_beside_it_and_where_its_path_leads(tmp_path: Path, place: str) -> None:
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).write_text(ZERO)
    assert read(tmp_path).plan.zero == 3


def test_no_path_leads_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "outside.d").mkdir()
    (tmp_path / "outside.d" / "other.json").write_text(ZERO)
    inside = tmp_path / "inside"
    inside.mkdir()
    with pytest.raises(InvalidInput):
        read(inside, FACTORY.replace("examples/deepspeed/ds.json", "../outside.d/other.json"))


@pytest.mark.parametrize(
    ("optimizer", "told"),
    [("adamw_torch_fused", False), ("adamw_torch", False), ("adafactor", True), ("lion_8bit", True)],
)
def test_an_optimizer_is_told_where_it_is_not_the_one_that_is_priced(
    tmp_path: Path, optimizer: str, told: bool
) -> None:
    (tmp_path / "ds.json").write_text(ZERO)
    assert ("optim" in read(tmp_path, f"{FACTORY}optim: {optimizer}\n").understood.unpriced) == told
