"""What a start script of arguments asks for is taken as a config.json spells it, and data can be made up."""

from __future__ import annotations

from pathlib import Path

import pytest
from objects import started

from meshwright.answers.launch.files import launch_files
from meshwright.launch.table import launch_table
from meshwright.layout.plan import Plan
from strategies import llama_8b, question

FILLED = {"MEGATRON": "/m", "TRAIN_ITERS": "10", "LR": "1e-4", "NORM_EPSILON": "1e-5", "SAVE": "/s"}
FILLED |= {"MEGATRON_DEEPSPEED": "/m", "LAYERNORM_EPSILON": "1e-5"}
OWN_DATA = {"DATA_PATH": "/d", "TOKENIZER_TYPE": "HuggingFaceTokenizer", "TOKENIZER_MODEL": "/t"}


def words(folder: Path, filled: dict[str, str], name: str = "megatron-lm", runtime: str = "megatron-core") -> list[str]:
    """What train.sh starts pretrain_gpt.py with."""
    plan = Plan(tp=8, sp=runtime == "megatron-core", num_microbatches=8)
    written = launch_files(plan, question(llama_8b(), "1x8:h100", runtime, global_batch=8), name)
    for file, text in written.files.items():
        (folder / file).write_text(text)
    return started(folder, "pretrain_gpt.py", FILLED | filled)[0]


@pytest.mark.parametrize("spelled", ["500000", "500000.0", "5e5"])
@pytest.mark.parametrize(
    ("name", "variable"), [("megatron-lm", "ROTARY_BASE"), ("megatron-deepspeed", "ROTARY_POSITION_EMBEDDINGS_THETA")]
)
def test_a_base_with_a_point_becomes_a_whole_number(tmp_path: Path, name: str, variable: str, spelled: str) -> None:
    runtime = "megatron-core" if name == "megatron-lm" else name
    told = words(tmp_path, OWN_DATA | {variable: spelled}, name, runtime)
    flag = f"--{variable.lower().replace('_', '-')}"
    assert flag in launch_table(name).whole_numbers
    assert told[told.index(flag) + 1] == "500000"


def test_mock_data_takes_the_place_of_data_and_tokenizer(tmp_path: Path) -> None:
    told = words(tmp_path, {"ROTARY_BASE": "500000", "MOCK_DATA": "1"})
    assert "--mock-data" in told
    assert told[told.index("--tokenizer-type") + 1] == "NullTokenizer"
    assert not {"--data-path", "--tokenizer-model"} & {*told}


def test_own_data_is_named_without_mock_data(tmp_path: Path) -> None:
    told = words(tmp_path, OWN_DATA | {"ROTARY_BASE": "500000"})
    assert told[told.index("--data-path") + 1] == "/d"
    assert "--mock-data" not in told
