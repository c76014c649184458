"""Scripts that start from weights train them: `from_pretrained` leaves a model in evaluation."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from meshwright.answers.launch.files import launch_files
from meshwright.layout.plan import Plan
from meshwright.specs.choices import Recompute as Again
from meshwright.specs.reading.model import read_model
from strategies import question

SAVE = """
import sys
from transformers import LlamaConfig, LlamaForCausalLM
sizes = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, vocab_size=128)
LlamaForCausalLM(LlamaConfig(**sizes, num_key_value_heads=2, max_position_embeddings=512)).save_pretrained(sys.argv[1])
"""
LOAD = """
import sys
from pathlib import Path
script = {"__file__": sys.argv[1]}
exec(Path(sys.argv[1]).read_text("utf-8").partition("def main")[0], script)
made = script["model"]()
print(made.training, getattr(made, "is_gradient_checkpointing", False))
"""


def _run(code: str, argument: Path, **variables: str) -> str:
    command = [sys.executable, "-c", code, str(argument)]
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1] if done.stdout else ""


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with those of a small model."""
    folder = tmp_path_factory.mktemp("weights")
    _run(SAVE, folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "checkpoints"),
    [
        pytest.param("deepspeed", True, marks=pytest.mark.clients("deepspeed", "transformers")),
        pytest.param("accelerate", False, marks=pytest.mark.clients("accelerate", "transformers")),
    ],
)
def test_weights_that_are_loaded_are_trained_and_recomputed(
    name: str, checkpoints: bool, weights: Path, tmp_path: Path
) -> None:
    inputs = question(read_model(str(weights)), "1x2:h100", name, sequence_length=64, global_batch=2)
    plan = Plan(dp=2, zero=1 if name == "deepspeed" else 3, recompute=Again.FULL)
    for file, text in launch_files(plan, inputs, name).files.items():
        (tmp_path / file).write_text(text, "utf-8")
    needed = {"MODEL": str(weights), "DATA": "", "CHECKPOINTS": "", "STEPS": "1", "LEARNING_RATE": "1"}
    launched = {"ACCELERATE_USE_FSDP": "true"} if name == "accelerate" else {}
    assert _run(LOAD, tmp_path / "train.py", **needed, **launched) == f"True {checkpoints}"
